package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"remshell/transport"
	"remshell/wire"
)

// A NoAnswerError is returned for a host that was connected but has not replied within Limit.
type NoAnswerError struct{ Limit time.Duration }

func (s NoAnswerError) Error() string {
	return fmt.Sprintf("mpiexec on the host was started, but did not answer within %g s", s.Limit.Seconds())
}

// Code returns the error code for JSON output.
func (s NoAnswerError) Code() string { return "silent" }

// A ViolationError is returned for a host whose helper has violated the protocol before the ranks started.
type ViolationError struct{ wire.Violation }

func (e ViolationError) Error() string { return e.Violation.Error() + "; not used" }

func (e ViolationError) Unwrap() error { return e.Violation }

// violationError returns the error for a node whose handshake failed with err.
func (n *Node) violationError(err error) error {
	var v wire.Violation
	if errors.As(err, &v) {
		return ViolationError{v}
	}
	return n.withReason(err)
}

// IsViolation reports whether err is a protocol violation by a helper.
func IsViolation(err error) bool { return err != nil && errors.As(err, new(wire.Violation)) }

// logPanic logs the stack if err was caused by a panic in a goroutine that handled the node's messages.
func logPanic(log zerolog.Logger, node string, err error) {
	var crash *transport.PanicError
	if errors.As(err, &crash) {
		log.Error().Str("node", node).Bytes("stack", crash.Stack).Msg("internal error")
	}
}
