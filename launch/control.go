package launch

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/control"
	"remshell/launch/node"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/usererr"
	"remshell/wire"
)

// This file handles requests to the running job, such as --status and --end (survive.md 7). Helpers
// receive a request and check the user's permission. Package control decides, and the reply goes
// back to the helper.

// handleControl handles a request that a node forwards. Two helpers on one machine may forward the
// same request; the first gets the reply.
func (j *Job) handleControl(n *Node, m *wire.ControlRequest) []supervise.Event {
	if j.seenRequests[m.ID] {
		n.Send(&wire.ControlReply{ID: m.ID})
		return nil
	}
	if len(j.seenRequests) == 0 || len(j.seenRequests) >= maxSeenRequests {
		j.seenRequests = make(map[string]bool)
	}
	j.seenRequests[m.ID] = true
	request := controlRequested(n.Node.Node, m)
	request.Requester = control.Requester{Node: n.Key, ID: m.ID}
	if why := j.rateLimits.TooSoon(request, time.Now()); why != "" {
		j.sendReply(request, job.ReplyRefused, why)
		return nil
	}
	if j.waitsForCheckpoint(request) {
		j.sendReply(request, job.ReplyAccepted, "a checkpoint is being written; suspended then")
		return nil
	}
	return j.carryOutRequest(request)
}

// carryOutRequest carries out a request, unless it has to be refused. It returns the event that
// ends the job, if that is requested.
func (j *Job) carryOutRequest(r control.Request) []supervise.Event {
	if why := control.WhyRefused(r.Verb, j.State.Phase == supervise.Running, j.holds.Has(job.HoldRequested)); why != "" {
		j.sendReply(r, job.ReplyRefused, why)
		return nil
	}
	switch r.Verb {
	case job.VerbStatus:
		j.inspectRanks(false, &r.Requester)
	case job.VerbEnd:
		j.sendReply(r, job.ReplyAccepted, "the job is ended")
		return []supervise.Event{supervise.Failure{Kind: supervise.EndedByRequest, Text: r.EndText()}}
	case job.VerbSuspend:
		j.suspendRanks(r)
	case job.VerbResume:
		j.resumeRanks(r)
	case job.VerbCheckpoint:
		j.requestCheckpoint(r)
	case job.VerbMigrate:
		j.startMove(r)
	}
	return nil
}

// controlRequested converts a request from the wire. The user is only as certain as the node that
// names him, so a remote node is recorded.
func controlRequested(n *node.Node, m *wire.ControlRequest) control.Request {
	request := control.Request{Verb: m.Request.Verb, Args: m.Request.Args, User: m.Request.User, Role: m.Role}
	if !n.Def.Local {
		request.SayingNode = n.Name()
	}
	return request
}

// waitsForCheckpoint delays a request to suspend the job until the checkpoint in progress is over
// (survive.md SV-16). Suspended ranks could not write it, and it would be reported as late. If a
// checkpoint cannot be verified, waitsForCheckpoint returns false: it may be complete already.
func (j *Job) waitsForCheckpoint(request control.Request) bool {
	if request.Verb != job.VerbSuspend || j.checkpoints.state.Phase != checkpoint.InProgress || !j.Request.Checkpoint.CanVerify() {
		return false
	}
	j.checkpoints.request(func(string) { j.events.Put(request) }, nil)
	return true
}

/*
An attemptPause is the time between two attempts, until the ranks of the next one are started.
A request during this time is answered at once by the goroutine that reads the node's connection,
because no other goroutine handles messages then.

	helper --ControlRequest--> Listen --> attemptPause.reply --ControlReply--> helper
	                            '-- --end: cancels the context of all attempts
*/
type attemptPause struct {
	nextAttempt int         // number of the next attempt
	endJob      func(error) // ends the job
}

// reply decides on a request of a user who has the permission.
func (g *attemptPause) reply(n *node.Node, m *wire.ControlRequest) *wire.ControlReply {
	switch m.Request.Verb {
	case job.VerbStatus:
		return &wire.ControlReply{ID: m.ID, State: job.ReplyDone, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin", g.nextAttempt)}
	case job.VerbEnd:
		requested := controlRequested(n, m)
		g.endJob(&usererr.Error{Text: requested.EndText(), Code: job.SIGTERM.Status()})
		return &wire.ControlReply{ID: m.ID, State: job.ReplyAccepted, Text: "the job is ended"}
	}
	return &wire.ControlReply{ID: m.ID, State: job.ReplyRefused, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin; ask then", g.nextAttempt)}
}

// replyDuringPause answers a request if the job is between two attempts, and reports whether it is.
func (j *Job) replyDuringPause(n *node.Node, m *wire.ControlRequest) bool {
	g := j.pause.Load()
	if g == nil {
		return false
	}
	answer := g.reply(n, m)
	n.Send(answer)
	j.Env.Events().Controlled(job.ControlEvent{Node: n.Name(), Verb: m.Request.Verb, User: m.Request.User, State: answer.State})
	return true
}

// maxSeenRequests is how many request IDs are remembered, to recognize repeated requests.
const maxSeenRequests = 1024

// sendReply sends a reply to the helper whose user made the request.
func (j *Job) sendReply(to control.Request, state job.ReplyState, text string) {
	n := j.Nodes[to.Node]
	n.Send(&wire.ControlReply{ID: to.ID, State: state, Text: text})
	j.Env.Events().Controlled(job.ControlEvent{Node: n.Name(), Verb: to.Verb, User: to.User, State: state})
}

// replyStates sends the states of the ranks to all who asked for them.
func (j *Job) replyStates() {
	if len(j.statesQuery.requesters) == 0 {
		return
	}
	where := j.rankNodes()
	answer := wire.ControlReply{State: job.ReplyDone}
	for _, r := range j.statesQuery.ranks {
		if r.Rank < len(where.nodeOfRank) && len(answer.Ranks) < job.MaxRankStates {
			r.Stack = ""
			answer.Ranks = append(answer.Ranks, job.NodeRankState{Node: where.nodes[where.nodeOfRank[r.Rank]], RankState: r})
		}
	}
	answer.Truncate()
	if left := len(where.nodeOfRank) - len(answer.Ranks); left > 0 {
		answer.Text = fmt.Sprintf("%s of %d not shown", text.Count(left, "rank"), len(where.nodeOfRank))
	}
	for _, to := range j.statesQuery.requesters {
		one := answer
		one.ID = to.ID
		j.Nodes[to.Node].Send(&one)
	}
}

// suspendRanks suspends all ranks at a user's request.
func (j *Job) suspendRanks(r control.Request) {
	j.Hold(job.HoldRequested)
	j.Env.Report(r.SuspendText(time.Since(j.State.Began()), j.Plan.Job, j.Nodes[r.Node].Name()))
	j.sendReply(r, job.ReplyDone, "suspended")
}

// resumeRanks ends the suspension by a user. The ranks run if there is no other reason to hold them.
func (j *Job) resumeRanks(r control.Request) {
	suspended := j.holds.HeldFor(job.HoldRequested, time.Now())
	j.Release(job.HoldRequested)
	j.Env.Report("goes on after " + job.FormatClock(suspended))
	j.sendReply(r, job.ReplyDone, "goes on")
}

// requestCheckpoint starts a checkpoint and replies to the requester with the outcome.
func (j *Job) requestCheckpoint(to control.Request) {
	j.sendReply(to, job.ReplyAccepted, "asked for a checkpoint")
	j.checkpoints.request(func(text string) {
		state := job.ReplyDone
		switch {
		case text != "":
			state = job.ReplyRefused
		case j.Request.Checkpoint.CanVerify():
			text = "its checkpoint is written"
		default:
			text = "its ranks are asked for a checkpoint"
		}
		j.sendReply(to, state, text)
	}, nil)
}

// A statesQuery asks all nodes what each rank is doing, and collects the replies (DIAG-12).
type statesQuery struct {
	waiting    map[int]bool // nodes that have not replied
	ranks      []job.RankState
	forUser    bool                // the user of this mpiexec asked
	requesters []control.Requester // other users' requests
}

// statesTimeout is how long a node may take to reply.
const statesTimeout = 2 * time.Second

// statesTimedOut is the event that statesTimeout has passed.
type statesTimedOut struct{ query *statesQuery }
