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
type jobMove struct {
	requestedBy supervise.ControlRequested
	move        restart.Move
	leftNodes   []string            // nodes that are out for the job from then on
	target      *reserve.MoveTarget // that was found, and is claimed
	endsAttempt bool                // the attempt was ended for it
}

// moveTargetFound is the end of looking for the place of a move.
type moveTargetFound struct {
	move   *jobMove
	target *reserve.MoveTarget
	err    error
}

// startMove takes the wish to move the job, of somebody who may.
func (f *runningJob) startMove(by supervise.ControlRequested) {
	refuse := func(why string) { f.sendReply(supervise.SendReply{To: by, State: job.ReplyRefused, Text: why}) }
	move, err := restart.ParseMove(by.Args)
	switch why := restart.WhyUnmovable(f.req); {
	case err != nil:
		refuse(err.Error())
	case why != "":
		refuse(why)
	case !f.state.IsRunning():
		refuse(job.StartingText)
	case f.move != nil:
		refuse("it is being moved already")
	default:
		f.move = &jobMove{requestedBy: by, move: move}
		f.sendReply(supervise.SendReply{To: by, State: job.ReplyAccepted, Text: "a place is looked for"})
	}
}

// searchMoveTarget begins to look for the place of a move, once no spawn is under way.
func (f *runningJob) searchMoveTarget() {
	m := f.move
	if m == nil || m.target != nil || f.search != nil {
		return
	}
	req, leaves, why := f.requestAfterMove(m.move)
	if why != "" {
		f.cancelMove(why)
		return
	}
	m.leftNodes = leaves
	wanted := reserve.MoveRequest{Request: req, CurrentPlan: f.plan, FirstRank: f.size, OwnNodes: f.ownNodes(), Standby: slices.Clone(f.standby)}
	f.startSearch(reserve.MoveGroup, f.env.TraceRow, func(ctx context.Context, env reserve.Env) (any, func()) {
		goal, err := reserve.FindMoveTarget(ctx, env, wanted)
		return moveTargetFound{m, goal, err}, goal.Abandon
	})
}

// moveTargetFound takes in the place that was found, and has a checkpoint written before the job goes there.
func (f *runningJob) moveTargetFound(e moveTargetFound) {
	m, gone := e.move, f.finishedSearch().lostNodes
	why := ""
	switch lost := slices.IndexFunc(e.target.NewNodes, func(k reserve.KeptNode) bool { return gone[k.Node] }); {
	case f.move != m || f.state.Phase != supervise.Running:
		why = "the job ends"
	case f.state.IsSuspended():
		why = "suspended meanwhile: its ranks cannot write a checkpoint"
	case e.err != nil:
		why = e.err.Error()
	case lost >= 0:
		why = "cannot be moved: lost contact with " + e.target.NewNodes[lost].Name()
	}
	if why != "" {
		e.target.Abandon()
		f.cancelMove(why)
		return
	}
	m.target = e.target
	f.standby = append(slices.Clone(f.standby), e.target.NewNodes...)
	text := fmt.Sprintf("moving to %s: checkpoint asked for", m.target.NodesText())
	f.env.Report(m.requestedBy.WithNode(fmt.Sprintf("%s (%s, --migrate)", text, m.requestedBy.Describe())))
	f.sendReply(supervise.SendReply{To: m.requestedBy, State: job.ReplyAccepted, Text: text})
	f.checkpoints.requestAndStop(f.endForMove, f.cancelMove)
}

// endForMove ends the attempt that is to be moved, unless its place was lost meanwhile.
func (f *runningJob) endForMove() {
	m := f.move
	if lost := f.lostTargetNode(m.target); lost != "" {
		f.checkpoints.handleEvent(checkpoint.StopCancelled{}, time.Now())
		f.cancelMove("cannot be moved: lost contact with " + lost)
		return
	}
	f.carryOut(f.state, f.state.Step(supervise.MoveReady{By: m.requestedBy, To: m.target.NodesText()}, time.Now()))
	if m.endsAttempt = f.state.IsMoved(); !m.endsAttempt {
		f.cancelMove("the job has ended by itself")
		return
	}
	f.sendReply(supervise.SendReply{To: m.requestedBy, State: job.ReplyDone, Text: "it moves to " + m.target.NodesText()})
}

// lostTargetNode is a node of a goal that was lost since it was claimed; empty: none was.
func (f *runningJob) lostTargetNode(g *reserve.MoveTarget) string {
	there := make(map[string]bool)
	for _, n := range f.nodes {
		there[n.Name()] = n.lost == nil
	}
	for _, s := range f.standby {
		there[s.Name()] = true
	}
	for _, np := range g.Plan.Nodes {
		if !there[np.Name] {
			return np.Name
		}
	}
	return ""
}

// cancelMove is the end of a move that is not to be: the job runs on as it was.
func (f *runningJob) cancelMove(why string) {
	m := f.move
	f.move = nil
	if m == nil {
		return
	}
	if m.target != nil {
		f.standby = slices.DeleteFunc(slices.Clone(f.standby), func(s reserve.KeptNode) bool {
			return slices.ContainsFunc(m.target.NewNodes, func(k reserve.KeptNode) bool { return k.Node == s.Node })
		})
		m.target.Abandon()
	}
	f.sendReply(supervise.SendReply{To: m.requestedBy, State: job.ReplyRefused, Text: why})
}

// abandonMove is the end of a move that has not ended the attempt, at the end of that.
func (f *runningJob) abandonMove() {
	if m := f.move; m != nil && !m.endsAttempt {
		f.cancelMove("the job ends")
	}
}

// claimedForMove is how many CPUs the job claims on which nodes for the attempt to which it is moved; nil: it is not.
func (f *runningJob) claimedForMove() map[string]int {
	if f.move == nil || !f.move.endsAttempt {
		return nil
	}
	cpus := make(map[string]int)
	for _, np := range f.move.target.Plan.Nodes {
		cpus[np.Name] = np.CPUs()
	}
	return cpus
}

// recordMove writes into an attempt that is over where the job goes, if it is moved.
func (f *runningJob) recordMove(a *job.Attempt) {
	if f.move != nil && f.move.endsAttempt {
		a.LeftNodes, a.NextNodes = f.move.leftNodes, f.move.target.Plan.Names()
	}
}
