package launch

import (
	"fmt"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/node"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/wire"
)

// This file is the job's end of a word with it (survive.md 7): its helpers hear who asks and know
// whether he may, supervision decides, and the answer goes back to the helper.

// heard takes in what somebody asks by a node. Two helpers on one machine hear the same, and the first
// answers.
func (f *fleet) heard(n *member, m *wire.Ask) []supervise.Event {
	if f.asked[m.ID] {
		n.Send(&wire.Answer{ID: m.ID})
		return nil
	}
	if len(f.asked) == 0 || len(f.asked) >= mostHeard {
		f.asked = make(map[string]bool)
	}
	f.asked[m.ID] = true
	asked := askedBy(n.Node.Node, m)
	asked.Asker = supervise.Asker{Node: n.key, ID: m.ID}
	if why := f.state.TooSoon(asked, time.Now()); why != "" {
		f.reply(supervise.Reply{To: asked, State: job.AskRefused, Text: why})
		return nil
	}
	if f.standsBehind(asked) {
		f.reply(supervise.Reply{To: asked, State: job.AskTaken, Text: "a checkpoint is being written; suspended then"})
		return nil
	}
	return []supervise.Event{asked}
}

// askedBy is what somebody wants. Who that is, a node of another host says.
func askedBy(n *node.Node, m *wire.Ask) supervise.Asked {
	asked := supervise.Asked{Verb: m.Ask.Verb, Args: m.Ask.Args, User: m.Ask.User, Right: m.Right}
	if !n.Def.Local {
		asked.Says = n.Name()
	}
	return asked
}

// standsBehind has an ask by which the job is suspended wait for the checkpoint that is under way: ranks that stand still would
// write none, and whoever waits for it would hear that it is late (survive.md SV-16). One that only a signal has asked for may be
// complete, and nobody could tell.
func (f *fleet) standsBehind(asked supervise.Asked) bool {
	if asked.Verb != job.AskSuspend || f.saves.state.Phase != checkpoint.Asked || !f.req.Ckpt.Judged() {
		return false
	}
	f.saves.ask(func(string) { f.events.Put(asked) }, nil)
	return true
}

/*
A gap is the time between two attempts of a job, until the ranks of the next one are let go. What is asked in it is
answered at once, by whoever reads what the node says: nobody else waits for news of nodes all that time.

	helper --Ask--> Listen --> gap.answer --Answer--> helper
	                            '-- end: the context of all attempts ends
*/
type gap struct {
	attempt int         // that is to come
	end     func(error) // ends the job
}

// answer judges what somebody wants who may.
func (g *gap) answer(n *node.Node, m *wire.Ask) *wire.Answer {
	switch m.Ask.Verb {
	case job.AskStatus:
		return &wire.Answer{ID: m.ID, State: job.AskDone, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin", g.attempt)}
	case job.AskEnd:
		by := askedBy(n, m)
		g.end(&fault.Error{Text: by.Told("ended by " + by.Who() + " with --end"), Code: job.SIGTERM.Status()})
		return &wire.Answer{ID: m.ID, State: job.AskTaken, Text: "the job is ended"}
	}
	return &wire.Answer{ID: m.ID, State: job.AskRefused, Text: fmt.Sprintf("no rank of it runs: attempt %d is to begin; ask then", g.attempt)}
}

// inGap answers what is asked of a node between two attempts, and reports whether it is that time.
func (f *fleet) inGap(n *node.Node, m *wire.Ask) bool {
	g := f.gap.Load()
	if g == nil {
		return false
	}
	answer := g.answer(n, m)
	n.Send(answer)
	f.env.watcher().Asked(job.Heard{Node: n.Name(), Verb: m.Ask.Verb, User: m.Ask.User, State: answer.State})
	return true
}

// mostHeard is of how many asks the names are kept.
const mostHeard = 1024

// reply tells who has asked how that stands.
func (f *fleet) reply(a supervise.Reply) {
	f.nodes[a.To.Node].Send(&wire.Answer{ID: a.To.ID, State: a.State, Text: a.Text})
	f.env.watcher().Asked(job.Heard{Node: f.nodes[a.To.Node].Name(), Verb: a.To.Verb, User: a.To.User, State: a.State})
}

// tellStates tells those who have asked what the ranks are doing.
func (f *fleet) tellStates() {
	if len(f.states.askers) == 0 {
		return
	}
	where := f.placement()
	answer := wire.Answer{State: job.AskDone}
	for _, r := range f.states.ranks {
		if r.Rank < len(where.of) && len(answer.Ranks) < job.MaxStates {
			r.Stack = ""
			answer.Ranks = append(answer.Ranks, job.PlacedState{Node: where.nodes[where.of[r.Rank]], RankState: r})
		}
	}
	answer.Fit()
	if left := len(where.of) - len(answer.Ranks); left > 0 {
		answer.Text = fmt.Sprintf("%s of %d not told", text.Count(left, "rank"), len(where.of))
	}
	for _, to := range f.states.askers {
		one := answer
		one.ID = to.ID
		f.nodes[to.Node].Send(&one)
	}
}

// hold has all ranks stand still, or lets them go on.
func (f *fleet) hold(a supervise.Hold) {
	news := job.Again{Event: "resume", Seconds: a.Stood.Seconds()}
	if a.On {
		news = job.Again{Event: "suspend"}
	}
	f.tell(&wire.Hold{Why: job.HoldAsked, On: a.On})
	if !a.On {
		f.saves.state.Shift(a.Stood, f.state.End())
	}
	f.env.watcher().Again(news)
}

// checkpoint has a checkpoint written for somebody, who is told what came of it.
func (f *fleet) checkpoint(to supervise.Asked) {
	f.reply(supervise.Reply{To: to, State: job.AskTaken, Text: "asked for a checkpoint"})
	f.saves.ask(func(why string) {
		state := job.AskDone
		switch {
		case why != "":
			state = job.AskRefused
		case f.req.Ckpt.Judged():
			why = "its checkpoint is written"
		default:
			why = "its ranks are asked for a checkpoint"
		}
		f.reply(supervise.Reply{To: to, State: state, Text: why})
	}, nil)
}
