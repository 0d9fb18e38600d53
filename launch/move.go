package launch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/supervise"
)

/*
A job is moved by ending its attempt, for the next one to run elsewhere (survive.md SV-17). What that takes is had
before anything is ended:

	asked --> looked for --> claimed --> checkpoint --> ended --> the next attempt
	   |          | beside the    |          | --ckpt-required     no pause, no fence
	   |          | ranks         |          |
	   '----------'---------------'----------'--> refused: all is as it was

Until a move is over its claims rest on nodes of the job, and a Start there would give them up: spawns wait.
*/
type moving struct {
	by     supervise.Asked
	move   restart.Move
	leaves []string      // nodes that are out for the job from then on
	goal   *reserve.Goal // that was found, and is claimed
	ends   bool          // the attempt was ended for it
}

// moveFound is the end of looking for the place of a move.
type moveFound struct {
	m    *moving
	goal *reserve.Goal
	err  error
}

// migrate takes the wish to move the job, of somebody who may.
func (f *fleet) migrate(by supervise.Asked) {
	refuse := func(why string) { f.reply(supervise.Reply{To: by, State: job.AskRefused, Text: why}) }
	move, err := restart.ReadMove(by.Args)
	switch why := restart.Unmovable(f.req); {
	case err != nil:
		refuse(err.Error())
	case why != "":
		refuse(why)
	case !f.state.Runs():
		refuse(job.StartingText)
	case f.moving != nil:
		refuse("it is being moved already")
	default:
		f.moving = &moving{by: by, move: move}
		f.reply(supervise.Reply{To: by, State: job.AskTaken, Text: "a place is looked for"})
	}
}

// nextMove begins to look for the place of a move, once no spawn is under way.
func (f *fleet) nextMove() {
	m := f.moving
	if m == nil || m.goal != nil || f.seeking != nil {
		return
	}
	req, leaves, why := f.moved(m.move)
	if why != "" {
		f.stay(why)
		return
	}
	m.leaves = leaves
	wanted := reserve.Move{Request: req, Old: f.plan, First: f.size, Own: f.own(), Spares: slices.Clone(f.spares)}
	f.seek(reserve.MoveGroup, f.env.Row, func(ctx context.Context, env reserve.Env) (any, func()) {
		goal, err := reserve.ForMove(ctx, env, wanted)
		return moveFound{m, goal, err}, goal.Abandon
	})
}

// moveFound takes in the place that was found, and has a checkpoint written before the job goes there.
func (f *fleet) moveFound(e moveFound) {
	m, gone := e.m, f.found().gone
	why := ""
	switch lost := slices.IndexFunc(e.goal.New, func(k reserve.Kept) bool { return gone[k.Node] }); {
	case f.moving != m || f.state.Phase != supervise.Running:
		why = "the job ends"
	case f.state.Held():
		why = "suspended meanwhile: its ranks cannot write a checkpoint"
	case e.err != nil:
		why = e.err.Error()
	case lost >= 0:
		why = "cannot be moved: lost contact with " + e.goal.New[lost].Name()
	}
	if why != "" {
		e.goal.Abandon()
		f.stay(why)
		return
	}
	m.goal = e.goal
	f.spares = append(slices.Clone(f.spares), e.goal.New...)
	text := fmt.Sprintf("moving to %s: checkpoint asked for", m.goal.Text())
	f.env.Say(m.by.Told(fmt.Sprintf("%s (%s, --migrate)", text, m.by.Who())))
	f.reply(supervise.Reply{To: m.by, State: job.AskTaken, Text: text})
	f.saves.askToStop(f.leave, f.stay)
}

// leave ends the attempt that is to be moved, unless its place was lost meanwhile.
func (f *fleet) leave() {
	m := f.moving
	if lost := f.lostOf(m.goal); lost != "" {
		f.saves.step(checkpoint.Stays{}, time.Now())
		f.stay("cannot be moved: lost contact with " + lost)
		return
	}
	f.act(f.state, f.state.Step(supervise.Moved{By: m.by, To: m.goal.Text()}, time.Now()))
	if m.ends = f.state.IsMoved(); !m.ends {
		f.stay("the job has ended by itself")
		return
	}
	f.reply(supervise.Reply{To: m.by, State: job.AskDone, Text: "it moves to " + m.goal.Text()})
}

// lostOf is a node of a goal that was lost since it was claimed; empty: none was.
func (f *fleet) lostOf(g *reserve.Goal) string {
	there := make(map[string]bool)
	for _, n := range f.nodes {
		there[n.Name()] = n.lost == nil
	}
	for _, s := range f.spares {
		there[s.Name()] = true
	}
	for _, np := range g.Plan.Nodes {
		if !there[np.Name] {
			return np.Name
		}
	}
	return ""
}

// stay is the end of a move that is not to be: the job runs on as it was.
func (f *fleet) stay(why string) {
	m := f.moving
	f.moving = nil
	if m == nil {
		return
	}
	if m.goal != nil {
		f.spares = slices.DeleteFunc(slices.Clone(f.spares), func(s reserve.Kept) bool {
			return slices.ContainsFunc(m.goal.New, func(k reserve.Kept) bool { return k.Node == s.Node })
		})
		m.goal.Abandon()
	}
	f.reply(supervise.Reply{To: m.by, State: job.AskRefused, Text: why})
}

// endMoving is the end of a move that has not ended the attempt, at the end of that.
func (f *fleet) endMoving() {
	if m := f.moving; m != nil && !m.ends {
		f.stay("the job ends")
	}
}

// takenAlong is how many CPUs the job claims on which nodes for the attempt to which it is moved; nil: it is not.
func (f *fleet) takenAlong() map[string]int {
	if f.moving == nil || !f.moving.ends {
		return nil
	}
	cpus := make(map[string]int)
	for _, np := range f.moving.goal.Plan.Nodes {
		cpus[np.Name] = np.CPUs()
	}
	return cpus
}

// into writes into an attempt that is over where the job goes, if it is moved.
func (f *fleet) into(a *job.Attempt) {
	if f.moving != nil && f.moving.ends {
		a.Leaves, a.Goes = f.moving.leaves, f.moving.goal.Plan.Names()
	}
}
