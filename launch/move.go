package launch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/node"
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

The place is looked for on a goroutine of its own, as that of a spawn; of both one is under way at a time. Until a move
is over its claims rest on nodes of the job, and a Start there would give them up: spawns wait.
*/
type moving struct {
	by     supervise.Asked
	move   restart.Move
	leaves []string // nodes that are out for the job from then on
	stop   context.CancelFunc
	inbox  *node.Inbox   // of what looks for the place; nil: that has not begun, or is over
	over   chan struct{} // closed when it is; then found may be read
	found  *reserve.Goal
	goal   *reserve.Goal       // that was found in time, and is claimed
	gone   map[*node.Node]bool // lost while it was looked for, and not the job's
	ends   bool                // the attempt was ended for it
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
		refuse("its ranks do not all run yet")
	case f.moving != nil:
		refuse("it is being moved already")
	case f.ceding != nil:
		refuse("it gives way to another job")
	default:
		f.moving = &moving{by: by, move: move, gone: make(map[*node.Node]bool)}
		f.reply(supervise.Reply{To: by, State: job.AskTaken, Text: "a place is looked for"})
	}
}

// nextMove begins to look for the place of a move, once no spawn is under way.
func (f *fleet) nextMove() {
	m := f.moving
	if m == nil || m.stop != nil || f.spawns.now != nil {
		return
	}
	req, leaves, why := f.moved(m.move)
	if why != "" {
		f.stay(why)
		return
	}
	m.leaves, m.inbox, m.over = leaves, node.NewInbox(), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	env := f.env.Env
	env.Inbox, env.Seen, env.Reread, env.Progress, env.Input = m.inbox, nil, nil, nil, false
	wanted := reserve.Move{Request: req, Old: f.plan, First: f.size, Own: f.own(), Spares: slices.Clone(f.spares)}
	go func() {
		defer close(m.over)
		goal, err := reserve.ForMove(ctx, env, wanted)
		if m.found = goal; ctx.Err() != nil { // nobody may look at it any more
			goal.Abandon()
		}
		f.events.Put(moveFound{m, goal, err})
	}()
}

// hear passes on what is meant for whoever looks for a place, a spawn or a move.
func (f *fleet) hear(event any) {
	m := f.moving
	if m == nil || m.inbox == nil {
		f.spawns.hear(event)
		return
	}
	if e, ok := event.(node.Message); ok {
		if group, is := groupMeant(e.M); is && group != reserve.MoveGroup {
			return // a late answer to a spawn
		}
	}
	m.inbox.Put(event)
}

// lost notes that a node is gone which the job has not, while a place is looked for.
func (m *moving) lost(n *node.Node) {
	if m != nil && m.inbox != nil {
		m.gone[n] = true
	}
}

// moveFound takes in the place that was found, and has a checkpoint written before the job goes there.
func (f *fleet) moveFound(e moveFound) {
	m := e.m
	m.inbox = nil
	m.stop()
	why := ""
	switch lost := slices.IndexFunc(e.goal.New, func(k reserve.Kept) bool { return m.gone[k.Node] }); {
	case f.moving != m || f.state.Phase != supervise.Running:
		why = "the job ends"
	case f.state.Held():
		why = "suspended meanwhile: its ranks could not write a checkpoint"
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
	f.env.Say(fmt.Sprintf("%s (%s, --migrate)", text, m.by.Who()))
	f.reply(supervise.Reply{To: m.by, State: job.AskTaken, Text: text})
	f.saves.askToStop(f.leave, f.stay)
}

// leave ends the attempt that is to be moved, unless its place is lost meanwhile, or somebody wants the job to stand still:
// the next attempt would not, and what it takes along may be claimed by others by then.
func (f *fleet) leave() {
	m, why := f.moving, ""
	if lost := f.lostOf(m.goal); lost != "" {
		why = "cannot be moved: lost contact with " + lost
	} else if f.state.Held() {
		why = "suspended meanwhile"
	}
	if why != "" {
		f.saves.step(checkpoint.Stays{}, time.Now())
		f.stay(why)
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

// stopMoving gives up what is looked for.
func (f *fleet) stopMoving() {
	if m := f.moving; m != nil && m.stop != nil {
		m.stop()
	}
}

// endMoving gives what is looked for a moment to be given up, at the end of the attempt.
func (f *fleet) endMoving() {
	m := f.moving
	if m == nil || m.ends {
		return
	}
	f.stopMoving()
	if m.inbox != nil {
		select {
		case <-m.over:
			m.found.Abandon()
		case <-time.After(time.Second): // what is found later is abandoned there
		}
	}
	f.stay("the job ends")
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
