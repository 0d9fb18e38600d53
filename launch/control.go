package launch

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/node"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/usererr"
	"remshell/wire"
)

// This file is the job's end of a word with it (survive.md 7): its helpers hear who asks and know
// whether he may, supervision decides, and the answer goes back to the helper.

// handleControl takes in what somebody asks by a node. Two helpers on one machine hear the same, and the first
// answers.
func (f *runningJob) handleControl(n *jobNode, m *wire.ControlRequest) []supervise.Event {
	if f.seenRequests[m.ID] {
		n.Send(&wire.ControlReply{ID: m.ID})
		return nil
	}
	if len(f.seenRequests) == 0 || len(f.seenRequests) >= mostHeard {
		f.seenRequests = make(map[string]bool)
	}
	f.seenRequests[m.ID] = true
	asked := controlRequested(n.Node.Node, m)
	asked.Requester = supervise.Requester{Node: n.key, ID: m.ID}
	if why := f.state.TooSoon(asked, time.Now()); why != "" {
		f.sendReply(supervise.SendReply{To: asked, State: job.ReplyRefused, Text: why})
		return nil
	}
	if f.waitsForCheckpoint(asked) {
		f.sendReply(supervise.SendReply{To: asked, State: job.ReplyAccepted, Text: "a checkpoint is being written; suspended then"})
		return nil
	}
	return []supervise.Event{asked}
}

// controlRequested is what somebody wants. Who that is, a node of another host says.
func controlRequested(n *node.Node, m *wire.ControlRequest) supervise.ControlRequested {
	asked := supervise.ControlRequested{Verb: m.Request.Verb, Args: m.Request.Args, User: m.Request.User, Role: m.Role}
	if !n.Def.Local {
		asked.SayingNode = n.Name()
	}
	return asked
}

// waitsForCheckpoint has an ask by which the job is suspended wait for the checkpoint that is under way: ranks that stand still would
// write none, and whoever waits for it would hear that it is late (survive.md SV-16). One that only a signal has asked for may be
// complete, and nobody could tell.
func (f *runningJob) waitsForCheckpoint(asked supervise.ControlRequested) bool {
	if asked.Verb != job.VerbSuspend || f.checkpoints.state.Phase != checkpoint.InProgress || !f.req.Checkpoint.CanVerify() {
		return false
	}
	f.checkpoints.request(func(string) { f.events.Put(asked) }, nil)
	return true
}

/*
A gap is the time between two attempts of a job, until the ranks of the next one are let go. What is asked in it is
answered at once, by whoever reads what the node says: nobody else waits for news of nodes all that time.

	helper --Ask--> Listen --> gap.answer --Answer--> helper
	                            '-- end: the context of all attempts ends
*/
type attemptPause struct {
	nextAttempt int         // that is to come
	endJob      func(error) // ends the job
}

// reply judges what somebody wants who may.
func (g *attemptPause) reply(n *node.Node, m *wire.ControlRequest) *wire.ControlReply {
	switch m.Request.Verb {
	case job.VerbStatus:
		return &wire.ControlReply{ID: m.ID, State: job.ReplyDone, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin", g.nextAttempt)}
	case job.VerbEnd:
		by := controlRequested(n, m)
		g.endJob(&usererr.Error{Text: by.WithNode("ended by " + by.Describe() + " with --end"), Code: job.SIGTERM.Status()})
		return &wire.ControlReply{ID: m.ID, State: job.ReplyAccepted, Text: "the job is ended"}
	}
	return &wire.ControlReply{ID: m.ID, State: job.ReplyRefused, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin; ask then", g.nextAttempt)}
}

// replyDuringPause answers what is asked of a node between two attempts, and reports whether it is that time.
func (f *runningJob) replyDuringPause(n *node.Node, m *wire.ControlRequest) bool {
	g := f.pause.Load()
	if g == nil {
		return false
	}
	answer := g.reply(n, m)
	n.Send(answer)
	f.env.observer().Controlled(job.ControlEvent{Node: n.Name(), Verb: m.Request.Verb, User: m.Request.User, State: answer.State})
	return true
}

// mostHeard is of how many asks the names are kept.
const mostHeard = 1024

// sendReply tells who has asked how that stands.
func (f *runningJob) sendReply(a supervise.SendReply) {
	f.nodes[a.To.Node].Send(&wire.ControlReply{ID: a.To.ID, State: a.State, Text: a.Text})
	f.env.observer().Controlled(job.ControlEvent{Node: f.nodes[a.To.Node].Name(), Verb: a.To.Verb, User: a.To.User, State: a.State})
}

// replyStates tells those who have asked what the ranks are doing.
func (f *runningJob) replyStates() {
	if len(f.statesQuery.requesters) == 0 {
		return
	}
	where := f.rankNodes()
	answer := wire.ControlReply{State: job.ReplyDone}
	for _, r := range f.statesQuery.ranks {
		if r.Rank < len(where.nodeOfRank) && len(answer.Ranks) < job.MaxRankStates {
			r.Stack = ""
			answer.Ranks = append(answer.Ranks, job.NodeRankState{Node: where.nodes[where.nodeOfRank[r.Rank]], RankState: r})
		}
	}
	answer.Truncate()
	if left := len(where.nodeOfRank) - len(answer.Ranks); left > 0 {
		answer.Text = fmt.Sprintf("%s of %d not told", text.Count(left, "rank"), len(where.nodeOfRank))
	}
	for _, to := range f.statesQuery.requesters {
		one := answer
		one.ID = to.ID
		f.nodes[to.Node].Send(&one)
	}
}

// holdRanks has all ranks stand still, or lets them go on.
func (f *runningJob) holdRanks(a supervise.HoldRanks) {
	news := job.AttemptEvent{Event: "resume", Seconds: a.HeldFor.Seconds()}
	if a.On {
		news = job.AttemptEvent{Event: "suspend"}
	}
	f.sendAll(&wire.Hold{Why: job.HoldRequested, On: a.On})
	if !a.On {
		f.checkpoints.state.Shift(a.HeldFor, f.state.End())
	}
	f.env.observer().AttemptEvent(news)
}

// requestCheckpoint has a checkpoint written for somebody, who is told what came of it.
func (f *runningJob) requestCheckpoint(to supervise.ControlRequested) {
	f.sendReply(supervise.SendReply{To: to, State: job.ReplyAccepted, Text: "asked for a checkpoint"})
	f.checkpoints.request(func(why string) {
		state := job.ReplyDone
		switch {
		case why != "":
			state = job.ReplyRefused
		case f.req.Checkpoint.CanVerify():
			why = "its checkpoint is written"
		default:
			why = "its ranks are asked for a checkpoint"
		}
		f.sendReply(supervise.SendReply{To: to, State: state, Text: why})
	}, nil)
}
