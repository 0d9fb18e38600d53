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
A job is moved by ending its attempt, so that the next one runs elsewhere (survive.md SV-17). The
target is found and claimed before anything is ended:

	requested --> search --> claimed --> checkpoint --> ended --> next attempt
	   |          | while      |          | --ckpt-required     no pause, no fence
	   |          | ranks run  |          |
	   '----------'------------'----------'--> refused: the job runs on unchanged

During a move the job holds additional claims on its own nodes. A Start there would release them, so
spawns wait.
*/
type jobMove struct {
	requestedBy supervise.ControlRequested
	move        restart.Move
	leftNodes   []string            // nodes that the job must not use after the move
	target      *reserve.MoveTarget // the claimed nodes; nil: still searching
	endsAttempt bool                // the attempt was ended for this move
}

// moveTargetFound is the event that the search for a move's target has ended.
type moveTargetFound struct {
	move   *jobMove
	target *reserve.MoveTarget
	err    error
}

// startMove handles a request to move the job by a user who has the permission.
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

// searchMoveTarget starts the search for the target of a move, once no spawn is in progress.
func (f *runningJob) searchMoveTarget() {
	m := f.move
	if m == nil || m.target != nil || f.search != nil {
		return
	}
	req, leftNodes, why := f.requestAfterMove(m.move)
	if why != "" {
		f.cancelMove(why)
		return
	}
	m.leftNodes = leftNodes
	wanted := reserve.MoveRequest{Request: req, CurrentPlan: f.plan, FirstRank: f.size, OwnNodes: f.ownNodes(), Standby: slices.Clone(f.standby)}
	f.startSearch(reserve.MoveGroup, f.env.TraceRow, func(ctx context.Context, env reserve.Env) (any, func()) {
		target, err := reserve.FindMoveTarget(ctx, env, wanted)
		return moveTargetFound{m, target, err}, target.Abandon
	})
}

// moveTargetFound handles the end of the search. If a target was found, it requests the checkpoint
// before the move.
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

// endForMove ends the attempt, unless a node of the target was lost meanwhile.
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

// lostTargetNode returns a node of the target that was lost since it was claimed, or "".
func (f *runningJob) lostTargetNode(target *reserve.MoveTarget) string {
	connected := make(map[string]bool)
	for _, n := range f.nodes {
		connected[n.Name()] = n.lost == nil
	}
	for _, s := range f.standby {
		connected[s.Name()] = true
	}
	for _, np := range target.Plan.Nodes {
		if !connected[np.Name] {
			return np.Name
		}
	}
	return ""
}

// cancelMove cancels the move and tells the requester why. The job runs on unchanged.
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

// abandonMove cancels a move that has not ended the attempt, when the attempt ends for another
// reason.
func (f *runningJob) abandonMove() {
	if m := f.move; m != nil && !m.endsAttempt {
		f.cancelMove("the job ends")
	}
}

// claimedForMove returns how many CPUs the job claims on each node of the target. It returns nil if
// the job is not moved.
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

// recordMove records in an attempt that is over where the job moves to, if it is moved.
func (f *runningJob) recordMove(a *job.Attempt) {
	if f.move != nil && f.move.endsAttempt {
		a.LeftNodes, a.NextNodes = f.move.leftNodes, f.move.target.Plan.Names()
	}
}
