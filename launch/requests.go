package launch

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch/control"
	"remshell/launch/node"
	"remshell/launch/supervise"
	"remshell/wire"
)

// This file is about requests of users to the running job, such as --status and --end (survive.md 7): which feature
// serves a verb, and which services features use from each other for that. Helpers receive a request and check the
// user's permission.

// NewRequest converts a ControlRequest message. The result also records the node that sent the message,
// because a remote node could name a wrong user.
func NewRequest(n *node.Node, m *wire.ControlRequest) control.Request {
	request := control.Request{Verb: m.Request.Verb, Args: m.Request.Args, User: m.Request.User, Role: m.Role}
	if !n.Def.Local {
		request.SayingNode = n.Name()
	}
	return request
}

// OnRequest sets the function that carries out users' requests with this verb. The function returns events
// for package supervise.
func (j *Job) OnRequest(verb job.Verb, serve func(control.Request) []supervise.Event) {
	if j.verbs == nil {
		j.verbs = make(map[job.Verb]func(control.Request) []supervise.Event)
	}
	j.verbs[verb] = serve
}

// Serve carries out a user's request, or replies with the reason for refusing it.
func (j *Job) Serve(r control.Request) []supervise.Event {
	why := control.WhyRefused(r.Verb, j.State.Phase == supervise.Running, j.IsHeld(job.HoldRequested))
	serve := j.verbs[r.Verb]
	if why == "" && serve == nil {
		why = fmt.Sprintf("the mpiexec of this job does not support the request %q", r.Verb)
	}
	if why != "" {
		j.Reply(r, job.ReplyRefused, why)
		return nil
	}
	return serve(r)
}

// Reply replies to a user's request. It sends the reply to the helper that has forwarded the request.
func (j *Job) Reply(request control.Request, state job.ReplyState, text string) {
	n := j.Nodes[request.Node]
	n.Send(&wire.ControlReply{ID: request.ID, State: state, Text: text})
	j.Env.Events().Controlled(job.ControlEvent{Node: n.Name(), Verb: request.Verb, User: request.User, State: state})
}

// Checkpoints is the interface through which other features use the checkpoint feature. Only the goroutine
// of Run may call it.
type Checkpoints interface {
	// Request starts a checkpoint, or joins the one in progress. It calls answer with "" when the checkpoint is written, or
	// with the reason why there is none. If stop is not nil, it is called afterwards to stop the job, whether or not there
	// is a checkpoint.
	Request(answer func(why string), stop func())
	// RequestAndStop requests a checkpoint after which stop ends the attempt. If the attempt goes on instead, stays is
	// called with the reason.
	RequestAndStop(stop func(), stays func(why string))
	// CancelStop says, from within stop, that the attempt goes on after all.
	CancelStop()
	// InProgress reports whether a checkpoint is being written whose end will be known.
	InProgress() bool
}

// noCheckpoints implements Checkpoints in a program without the checkpoint feature.
type noCheckpoints struct{}

func (noCheckpoints) Request(answer func(string), stop func()) {
	answer("this mpiexec does not support checkpoints")
}
func (noCheckpoints) RequestAndStop(stop func(), stays func(string)) { stop() }
func (noCheckpoints) CancelStop()                                    {}
func (noCheckpoints) InProgress() bool                               { return false }

// Stacks is the interface through which other features read the stacks of all ranks. Only the goroutine of Run may call
// it.
type Stacks interface {
	// Read reads the stacks and calls done with a summary of them. If the stacks are already being read, it uses the
	// result of that reading. done may be called before Read returns.
	Read(done func(StackSummary))
}

// A StackSummary says what the ranks of a job are doing.
type StackSummary struct {
	Report job.StackReport // the groups of main threads come first
	Calls  []string        // for each group of main threads, the MPI call that it is in; empty: none
	Text   string          // for people: a line for each group of main threads
	Likely string          // which ranks seem to keep the others waiting, and why; empty: unknown
	Moved  []int           // ranks whose main thread has done something between the last reading and this one

	TextWithGuess string // Text and Likely

	Computing []int // ranks with a thread, other than the main thread, that computes
}

// noStacks implements Stacks in a program without the feature that reads stacks.
type noStacks struct{}

func (noStacks) Read(done func(StackSummary)) { done(StackSummary{}) }

// IsSuspended reports whether the ranks are stopped, for any reason.
func (j *Job) IsSuspended() bool { return j.holds.IsHeld() }

// IsHeld reports whether the ranks are stopped for a given reason.
func (j *Job) IsHeld(reason job.Hold) bool { return j.holds.Has(reason) }

// Stopped returns how long the ranks have been stopped in total, for any reason, and how often.
func (j *Job) Stopped(now time.Time) (total time.Duration, times int) { return j.holds.Stopped(now) }

// HeldFor returns how long the ranks have been stopped for a given reason. It returns 0 if they are not stopped for
// that reason.
func (j *Job) HeldFor(reason job.Hold, now time.Time) time.Duration {
	return j.holds.HeldFor(reason, now)
}
