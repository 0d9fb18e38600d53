package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"remshell/reach"
	"remshell/wire"
)

// Silence is the error of a host that was asked something and did not answer.
type Silence struct{ Limit time.Duration }

func (s Silence) Error() string {
	return fmt.Sprintf("connected, and then silent for %g s", s.Limit.Seconds())
}

// Code is what went wrong, for programs.
func (s Silence) Code() string { return "silent" }

// Unfit is the error of a host that has said what no helper says, and that before the start.
type Unfit struct{ wire.Violation }

func (e Unfit) Error() string { return e.Violation.Error() + "; not used" }

func (e Unfit) Unwrap() error { return e.Violation }

// unfit is why a node cannot be used.
func (n *Node) unfit(err error) error {
	var v wire.Violation
	if errors.As(err, &v) {
		return Unfit{v}
	}
	return n.why(err)
}

// Violates reports whether an error is what a helper may not say.
func Violates(err error) bool { return err != nil && errors.As(err, new(wire.Violation)) }

// logCrash writes where a goroutine that served one node has panicked, if that is what an error
// is about.
func logCrash(log zerolog.Logger, node string, err error) {
	var crash *reach.Crash
	if errors.As(err, &crash) {
		log.Error().Str("node", node).Bytes("stack", crash.Stack).Msg("internal error")
	}
}
