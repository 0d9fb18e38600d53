//go:build linux

package helper

import (
	"time"

	"remshell/helper/lifecycle"
	"remshell/wire"
)

/*
A Feature is a part of the helper that its core does not know: it keeps its own state, and takes part in a session at named
points (Hooks). The other half of it is in launch (launch.Feature). Importing its package registers it; package feature
lists all. No feature imports another.

	JobBegins --> RankReaped --> RankEnded         OrphanReaped, Terminating at any time
	                                 '--> Drained --> Closing
*/
type Feature struct {
	Name   string
	Attach func(*Session) // called for each session; it adds functions to the session's Hooks
}

var features []Feature

// Register adds a feature to all sessions. It is called while the program is initialized.
func Register(f Feature) { features = append(features, f) }

// Hooks are the points of a session at which features take part. The goroutine of run calls the functions of a point, one
// after the other, in the order in which they were added.
type Hooks struct {
	// JobBegins: the first group is about to be prepared. Its settings for the whole job hold for all groups.
	JobBegins Hook[func(*wire.Prepare)]
	// RankReaped: a rank has ended; its output may still be on its way. started is its start time from the kernel.
	RankReaped Hook[func(r *Rank, started, at time.Time)]
	// RankEnded: all of a rank's output is sent, and its Exit is complete.
	RankEnded Hook[func(*Rank)]
	// OrphanReaped: a process of the job has ended that was no rank. owner is its rank, or -1.
	OrphanReaped Hook[func(e lifecycle.ChildEnded, owner int)]
	// Terminating: SIGTERM is about to be sent to all processes of the job.
	Terminating Hook[func()]
	// Drained: no process of the job is left. The functions that it returns are called on another goroutine, before mpiexec
	// is told: they may take their time.
	Drained Hook[func() (finish func())]
	// Closing: the session is over, also if mpiexec is gone.
	Closing Hook[func()]
}

// A Hook has the functions of one point.
type Hook[F any] []F

// Add adds a function behind those that are there.
func (h *Hook[F]) Add(f F) { *h = append(*h, f) }

// Send sends a message to mpiexec. It returns the error of wire.Conn.Send. Any goroutine may call it.
func (s *Session) Send(m wire.Message) error { return s.conn.Send(m) }
