/*
Package control is the feature of mpiexec by which users end, suspend and resume a running job (--end, --suspend,
--resume-job; survive.md 7). It also receives all other requests of users to a running job, and passes each to the
feature that serves the request's verb.

	helper --ControlRequest--> seen before? too many? --> launch.Job.Serve --> this feature, or another
*/
package control

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
	"remshell/launch/supervise"
	"remshell/wire"
)

func init() {
	launch.Register(launch.Feature{Name: "control", Attach: attach})
	control.Register(job.VerbEnd, control.Terms{WhileEnding: true})
	control.Register(job.VerbSuspend, control.Terms{Suspended: "already suspended"})
	control.Register(job.VerbResume, control.Terms{NotSuspended: "not suspended"})
}

// A controller receives the requests to one attempt of a job (one run of all ranks).
type controller struct {
	job    *launch.Job
	seen   map[string]bool     // IDs of requests that were received
	limits *control.RateLimits // of all attempts
}

func attach(j *launch.Job) {
	c := &controller{job: j, limits: launch.ForAllAttempts[control.RateLimits](j)}
	if *c.limits == nil {
		*c.limits = make(control.RateLimits)
	}
	launch.Handle(j, c.handleRequest)
	j.OnRequest(job.VerbEnd, func(r control.Request) []supervise.Event {
		j.Reply(r, job.ReplyAccepted, "the job is being ended")
		return []supervise.Event{supervise.Failure{Kind: supervise.EndedByRequest, Text: r.EndText()}}
	})
	j.OnRequest(job.VerbSuspend, func(r control.Request) []supervise.Event {
		c.suspendRanks(r, time.Now())
		return nil
	})
	j.OnRequest(job.VerbResume, func(r control.Request) []supervise.Event {
		c.resumeRanks(r, time.Now())
		return nil
	})
}

// maxSeen is the maximum number of request IDs that are remembered to recognize repeated requests.
const maxSeen = 1024

// handleRequest handles a user's request that a node has forwarded, and returns the events that the request causes.
// If two helpers on one machine forward the same request, only the first receives the result. The second receives an
// empty reply, so that the user reads the result once.
func (c *controller) handleRequest(n *launch.Node, m *wire.ControlRequest) []supervise.Event {
	if c.seen[m.ID] {
		n.Send(&wire.ControlReply{ID: m.ID})
		return nil
	}
	if len(c.seen) == 0 || len(c.seen) >= maxSeen {
		c.seen = make(map[string]bool)
	}
	c.seen[m.ID] = true
	r := launch.NewRequest(n.Node.Node, m)
	r.Requester = control.Requester{Node: n.Key, ID: m.ID}
	if why := c.limits.TooSoon(r, time.Now()); why != "" {
		c.job.Reply(r, job.ReplyRefused, why)
		return nil
	}
	if c.waitsForCheckpoint(r) {
		c.job.Reply(r, job.ReplyAccepted, "the job is writing a checkpoint; mpiexec suspends the job after that")
		return nil
	}
	return c.job.Serve(r)
}

// waitsForCheckpoint reports whether a request must wait until the checkpoint in progress is over. If so, it arranges
// that the request is served then. Only a request to suspend the job ever waits (survive.md SV-16). It does not wait
// if mpiexec cannot find out when a checkpoint is complete, because the checkpoint may be complete already.
func (c *controller) waitsForCheckpoint(r control.Request) bool {
	if r.Verb != job.VerbSuspend || !c.job.Checkpoints.InProgress() {
		return false
	}
	c.job.Checkpoints.Request(func(string) {
		c.job.Post(func() []supervise.Event { return c.job.Serve(r) })
	}, nil)
	return true
}

// suspendRanks suspends all ranks at a user's request.
func (c *controller) suspendRanks(r control.Request, now time.Time) {
	c.job.Hold(job.HoldRequested)
	c.job.Env.Report(suspendText(r, now.Sub(c.job.State.Began()), c.job.Plan.Job, c.job.Nodes[r.Node].Name()))
	c.job.Reply(r, job.ReplyDone, "suspended")
}

// resumeRanks ends the suspension that a user has requested. The ranks continue unless there is another reason to
// keep them stopped.
func (c *controller) resumeRanks(r control.Request, now time.Time) {
	suspended := c.job.HeldFor(job.HoldRequested, now)
	c.job.Release(job.HoldRequested)
	c.job.Env.Report("the job continues; it was suspended for " + job.FormatClock(suspended))
	c.job.Reply(r, job.ReplyDone, "goes on")
}

// suspendText returns the line that mpiexec prints when a user suspends the job. ran is how long the job has run.
// node is a node through which the user can resume it.
func suspendText(r control.Request, ran time.Duration, id job.ID, node string) string {
	return r.WithNode(fmt.Sprintf("the job was suspended by %s (--suspend) after %s; to continue it: mpiexec --resume-job %s %s", r.DescribeUser(), job.FormatClock(ran), id, node))
}
