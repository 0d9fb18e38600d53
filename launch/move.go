package launch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/control"
	"remshell/launch/node"
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
	requestedBy control.Request
	move        restart.Move
	leftNodes   []string            // nodes that the job must not use after the move
	target      *reserve.MoveTarget // the claimed nodes; nil: still searching
	endsAttempt bool                // the attempt was ended for this move
}

// startMove handles a request to move the job by a user who has the permission.
func (j *Job) startMove(by control.Request) {
	refuse := func(why string) { j.sendReply(by, job.ReplyRefused, why) }
	move, err := restart.ParseMove(by.Args)
	switch why := restart.WhyUnmovable(j.Request); {
	case err != nil:
		refuse(err.Error())
	case why != "":
		refuse(why)
	case !j.State.IsRunning():
		refuse(job.StartingText)
	case j.move != nil:
		refuse("it is being moved already")
	default:
		j.move = &jobMove{requestedBy: by, move: move}
		j.sendReply(by, job.ReplyAccepted, "a place is looked for")
	}
}

// searchMoveTarget starts the search for the target of a move, once no spawn is in progress.
func (j *Job) searchMoveTarget() {
	m := j.move
	if m == nil || m.target != nil || j.search != nil {
		return
	}
	req, leftNodes, why := j.requestAfterMove(m.move)
	if why != "" {
		j.cancelMove(why)
		return
	}
	m.leftNodes = leftNodes
	wanted := reserve.MoveRequest{Request: req, CurrentPlan: j.Plan, FirstRank: j.Size, OwnNodes: j.OwnNodes(), Standby: slices.Clone(j.standby)}
	j.StartSearch(reserve.MoveGroup, j.Env.TraceRow, func(ctx context.Context, env reserve.Env) Found {
		target, err := reserve.FindMoveTarget(ctx, env, wanted)
		return Found{Abandon: target.Abandon, Use: func(lost map[*node.Node]bool) []supervise.Event {
			j.moveTargetFound(m, target, err, lost)
			return nil
		}}
	})
}

// moveTargetFound handles the end of the search. If a target was found, it requests the checkpoint
// before the move.
func (j *Job) moveTargetFound(m *jobMove, target *reserve.MoveTarget, err error, gone map[*node.Node]bool) {
	why := ""
	switch lost := slices.IndexFunc(target.NewNodes, func(k reserve.KeptNode) bool { return gone[k.Node] }); {
	case j.move != m || j.State.Phase != supervise.Running:
		why = "the job ends"
	case j.State.IsSuspended():
		why = "suspended meanwhile: its ranks cannot write a checkpoint"
	case err != nil:
		why = err.Error()
	case lost >= 0:
		why = "cannot be moved: lost contact with " + target.NewNodes[lost].Name()
	}
	if why != "" {
		target.Abandon()
		j.cancelMove(why)
		return
	}
	m.target = target
	j.standby = append(slices.Clone(j.standby), target.NewNodes...)
	text := fmt.Sprintf("moving to %s: checkpoint asked for", m.target.NodesText())
	j.Env.Report(m.requestedBy.MovingText(text))
	j.sendReply(m.requestedBy, job.ReplyAccepted, text)
	j.checkpoints.requestAndStop(j.endForMove, j.cancelMove)
}

// endForMove ends the attempt, unless a node of the target was lost meanwhile.
func (j *Job) endForMove() {
	m := j.move
	if lost := j.lostTargetNode(m.target); lost != "" {
		j.checkpoints.handleEvent(checkpoint.StopCancelled{}, time.Now())
		j.cancelMove("cannot be moved: lost contact with " + lost)
		return
	}
	j.step(supervise.MoveReady{Text: m.requestedBy.MovedText(m.target.NodesText())}, time.Now())
	if m.endsAttempt = j.State.IsMoved(); !m.endsAttempt {
		j.cancelMove("the job has ended by itself")
		return
	}
	j.sendReply(m.requestedBy, job.ReplyDone, "it moves to "+m.target.NodesText())
}

// lostTargetNode returns a node of the target that was lost since it was claimed, or "".
func (j *Job) lostTargetNode(target *reserve.MoveTarget) string {
	connected := make(map[string]bool)
	for _, n := range j.Nodes {
		connected[n.Name()] = n.Lost == nil
	}
	for _, s := range j.standby {
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
func (j *Job) cancelMove(why string) {
	m := j.move
	j.move = nil
	if m == nil {
		return
	}
	if m.target != nil {
		j.standby = slices.DeleteFunc(slices.Clone(j.standby), func(s reserve.KeptNode) bool {
			return slices.ContainsFunc(m.target.NewNodes, func(k reserve.KeptNode) bool { return k.Node == s.Node })
		})
		m.target.Abandon()
	}
	j.sendReply(m.requestedBy, job.ReplyRefused, why)
}

// abandonMove cancels a move that has not ended the attempt, when the attempt ends for another
// reason.
func (j *Job) abandonMove() {
	if m := j.move; m != nil && !m.endsAttempt {
		j.cancelMove("the job ends")
	}
}

// claimedForMove returns how many CPUs the job claims on each node of the target. It returns nil if
// the job is not moved.
func (j *Job) claimedForMove() map[string]int {
	if j.move == nil || !j.move.endsAttempt {
		return nil
	}
	cpus := make(map[string]int)
	for _, np := range j.move.target.Plan.Nodes {
		cpus[np.Name] = np.CPUs()
	}
	return cpus
}

// recordMove records in an attempt that is over where the job moves to, if it is moved.
func (j *Job) recordMove(a *job.Attempt) {
	if j.move != nil && j.move.endsAttempt {
		a.LeftNodes, a.NextNodes = j.move.leftNodes, j.move.target.Plan.Names()
	}
}
