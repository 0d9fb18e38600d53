package node

import (
	"io"
	"time"

	"remshell/job"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// What the tests of package node_test use beside the package's own names.

const (
	MaxUnanswered = maxUnanswered
	MaxOpenFences = maxOpenFences
)

var ErrClosed = errClosed

func (v *Validator) StopWaitingFor(request wire.Message) { v.stopWaitingFor(request) }
func (v *Validator) NoteFenceResultSent(id fence.ID)     { v.noteFenceResultSent(id) }
func (v *Validator) ForNextAttempt() *Validator          { return v.forNextAttempt() }
func (v *Validator) TakePostponed() []wire.Message       { return v.takePostponed() }
func (v *Validator) MustStartTimer() bool                { return v.mustStartTimer() }
func (v *Validator) TakeDroppedLogs() int                { return v.takeDroppedLogs() }
func (v *Validator) ShiftTimes(by time.Duration)         { v.shiftTimes(by) }
func (v *Validator) GivenUpFenceCount() int              { return len(v.givenUpFences) }
func (b *Inbox) TakeAll() []any                          { return b.takeAll() }

// MakeNode returns the node at the end of a stream.
func MakeNode(stream io.ReadWriteCloser, v *Validator) *Node {
	return &Node{Def: job.NodeDef{Name: "n1"}, stream: stream, conn: wire.NewConn(stream, wire.Launcher), validator: v}
}
