package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"remshell/transport"
	"remshell/wire"
)

// NoAnswerError is the error of a host that was asked something and did not answer.
type NoAnswerError struct{ Limit time.Duration }

func (s NoAnswerError) Error() string {
	return fmt.Sprintf("connected, and then silent for %g s", s.Limit.Seconds())
}

// Code is what went wrong, for programs.
func (s NoAnswerError) Code() string { return "silent" }

// ViolationError is the error of a host that has said what no helper says, and that before the start.
type ViolationError struct{ wire.Violation }

func (e ViolationError) Error() string { return e.Violation.Error() + "; not used" }

func (e ViolationError) Unwrap() error { return e.Violation }

// violationError is why a node cannot be used.
func (n *Node) violationError(err error) error {
	var v wire.Violation
	if errors.As(err, &v) {
		return ViolationError{v}
	}
	return n.withReason(err)
}

// IsViolation reports whether an error is what a helper may not say.
func IsViolation(err error) bool { return err != nil && errors.As(err, new(wire.Violation)) }

// logPanic writes where a goroutine that served one node has panicked, if that is what an error
// is about.
func logPanic(log zerolog.Logger, node string, err error) {
	var crash *transport.PanicError
	if errors.As(err, &crash) {
		log.Error().Str("node", node).Bytes("stack", crash.Stack).Msg("internal error")
	}
}
