package launch

import (
	"errors"
	"fmt"
	"runtime/debug"

	"remshell/wire"
)

// cut ends the connection to a node at once (TRUST-2): nothing more of what it says is read,
// and its helper ends its ranks, since its input ends.
func (f *fleet) cut(n *node, why error) {
	f.events.put(ended{n, why})
	n.conn.Abandon()
}

// crashed is the error of a panic in a goroutine that serves one node. It is our own fault,
// and that node's end alone (TRUST-35).
func crashed(env Env, node string, why any) error {
	env.Log.Error().Str("node", node).Bytes("stack", debug.Stack()).Msg("internal error")
	return fmt.Errorf("internal error: %v", why)
}

// An unfit host has said what no helper says, and that before the start.
type unfit struct{ wire.Violation }

func (e unfit) Error() string { return e.Violation.Error() + "; not used" }

func (e unfit) Unwrap() error { return e.Violation }

// unfit is why a node cannot be used.
func (n *node) unfit(err error) error {
	var v wire.Violation
	if errors.As(err, &v) {
		return unfit{v}
	}
	return n.explain(err)
}
