/*
Package migrate is the feature of mpiexec that moves a running job to other nodes (--migrate). It ends the job's
attempt (one run of all ranks), and the next attempt runs on the other nodes (survive.md SV-17). It finds and
reserves the target nodes before it ends the attempt:

	requested --> search --> claimed --> checkpoint --> ended --> next attempt, which starts at once
	   |          | while      |          | with --ckpt-required:
	   |          | ranks run  |          | if it failed
	   '----------'------------'----------'--> refused: the job runs on unchanged

During a move the job has additional reservations on its own nodes. A Start message to such a node would release
them, so mpiexec starts no spawned ranks during a move.
*/
package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/supervise"
)

func init() {
	launch.Register(launch.Feature{Name: "migrate", Attach: attach})
	control.Register(job.VerbMigrate, control.Terms{Suspended: job.CannotSaveText})
}

// A mover moves one attempt of a job (one run of all ranks). At most one move is in progress.
type mover struct {
	job  *launch.Job
	move *move // nil: no move is requested
}

func attach(j *launch.Job) {
	m := &mover{job: j}
	j.OnRequest(job.VerbMigrate, func(r control.Request) []supervise.Event {
		m.start(r)
		return nil
	})
	j.Hooks.Due.Add(func(time.Time) time.Time {
		m.searchTarget()
		return time.Time{}
	})
	j.Hooks.Ended.Add(m.abandon)
	j.Hooks.AttemptEnds.Add(m.record)
	j.Hooks.NextClaims.Add(m.claimedCPUs)
}

// A move is the state of a move to other nodes that a user has requested.
type move struct {
	requestedBy control.Request
	wanted      restart.Move
	leftNodes   []string            // nodes that the job must not use after the move
	target      *reserve.MoveTarget // the claimed nodes; nil: still searching
	endsAttempt bool                // the attempt was ended for this move
}

// start handles the request of an authorized user to move the job.
func (m *mover) start(request control.Request) {
	refuse := func(why string) { m.job.Reply(request, job.ReplyRefused, why) }
	wanted, err := restart.ParseMove(request.Args)
	switch why := restart.WhyUnmovable(m.job.Request); {
	case err != nil:
		refuse(err.Error())
	case why != "":
		refuse(why)
	case !m.job.State.IsRunning():
		refuse(job.StartingText)
	case m.move != nil:
		refuse("the job is already being moved")
	default:
		m.move = &move{requestedBy: request, wanted: wanted}
		m.job.StartsBarred = true // a Start would release the claims of the move
		m.job.Reply(request, job.ReplyAccepted, "mpiexec looks for other hosts")
	}
}

// searchTarget starts the search for the target nodes of a move. It does nothing if there is no move that needs a
// search, or if another search, such as that of a spawn, is in progress.
func (m *mover) searchTarget() {
	current := m.move
	if current == nil || current.target != nil || m.job.Searching() {
		return
	}
	req, leftNodes, why := m.job.RequestAfterMove(current.wanted)
	if why != "" {
		m.cancel(why)
		return
	}
	current.leftNodes = leftNodes
	wanted := reserve.MoveRequest{Request: req, CurrentPlan: m.job.Plan, FirstRank: m.job.Size, OwnNodes: m.job.OwnNodes(), Standby: slices.Clone(m.job.Standby)}
	m.job.StartSearch(reserve.MoveGroup, m.job.Env.TraceRow, func(ctx context.Context, env reserve.Env) launch.Found {
		target, err := reserve.FindMoveTarget(ctx, env, wanted)
		return launch.Found{Abandon: target.Abandon, Use: func(lost map[*node.Node]bool) []supervise.Event {
			m.endSearch(current, target, err, lost)
			return nil
		}}
	})
}

// endSearch handles the end of the search for target nodes, which returned target and err. If the search was
// successful, endSearch requests the checkpoint before the move. Otherwise, or if a target node is in lostNodes, it
// cancels the move.
func (m *mover) endSearch(current *move, target *reserve.MoveTarget, err error, lostNodes map[*node.Node]bool) {
	why := ""
	switch lost := slices.IndexFunc(target.NewNodes, func(k reserve.KeptNode) bool { return lostNodes[k.Node] }); {
	case m.move != current || m.job.State.Phase != supervise.Running:
		why = "the job is already ending"
	case m.job.State.IsSuspended():
		why = "the job was suspended, so its ranks cannot write a checkpoint"
	case err != nil:
		why = err.Error()
	case lost >= 0:
		why = "the job cannot be moved: mpiexec lost contact with " + target.NewNodes[lost].Name()
	}
	if why != "" {
		target.Abandon()
		m.cancel(why)
		return
	}
	current.target = target
	m.job.Standby = append(slices.Clone(m.job.Standby), target.NewNodes...)
	text := fmt.Sprintf("the job moves to %s after a checkpoint", current.target.NodesText())
	m.job.Env.Report(movingText(current.requestedBy, text))
	m.job.Reply(current.requestedBy, job.ReplyAccepted, text)
	m.job.Checkpoints.RequestAndStop(m.endForMove, m.cancel)
}

// endForMove ends the attempt (one run of all ranks), unless the connection to a target node was lost
// meanwhile.
func (m *mover) endForMove() {
	current := m.move
	if lost := m.lostNode(current.target); lost != "" {
		m.job.Checkpoints.CancelStop()
		m.cancel("the job cannot be moved: mpiexec lost contact with " + lost)
		return
	}
	m.job.Step(supervise.MoveReady{Text: movedText(current.requestedBy, current.target.NodesText())})
	if current.endsAttempt = m.job.State.IsMoved(); !current.endsAttempt {
		m.cancel("the job has ended before the move")
		return
	}
	m.job.Reply(current.requestedBy, job.ReplyDone, "the job moves now to "+current.target.NodesText())
}

// lostNode returns the name of a target node to which mpiexec has lost the connection. It returns "" if there is
// none.
func (m *mover) lostNode(target *reserve.MoveTarget) string {
	connected := make(map[string]bool)
	for _, n := range m.job.Nodes {
		connected[n.Name()] = n.Lost == nil
	}
	for _, s := range m.job.Standby {
		connected[s.Name()] = true
	}
	for _, np := range target.Plan.Nodes {
		if !connected[np.Name] {
			return np.Name
		}
	}
	return ""
}

// cancel cancels the move and sends the reason to the user who requested it. The job runs on unchanged.
func (m *mover) cancel(reason string) {
	current := m.move
	m.move, m.job.StartsBarred = nil, false
	if current == nil {
		return
	}
	if current.target != nil {
		m.job.Standby = slices.DeleteFunc(slices.Clone(m.job.Standby), func(s reserve.KeptNode) bool {
			return slices.ContainsFunc(current.target.NewNodes, func(k reserve.KeptNode) bool { return k.Node == s.Node })
		})
		current.target.Abandon()
	}
	m.job.Reply(current.requestedBy, job.ReplyRefused, reason)
}

// abandon cancels a move when the attempt (one run of all ranks) ends for another reason.
func (m *mover) abandon() {
	if current := m.move; current != nil && !current.endsAttempt {
		m.cancel("the job is already ending")
	}
}

// claimedCPUs returns how many CPUs the job has reserved on each target node. It returns nil unless the attempt ends
// because the job is being moved.
func (m *mover) claimedCPUs() map[string]int {
	if m.move == nil || !m.move.endsAttempt {
		return nil
	}
	cpus := make(map[string]int)
	for _, np := range m.move.target.Plan.Nodes {
		cpus[np.Name] = np.CPUs()
	}
	return cpus
}

// record adds the nodes that the job leaves, and the nodes to which it moves, to the record of an attempt (one run of
// all ranks) that has ended. If the job is not being moved, record does nothing.
func (m *mover) record(a *job.Attempt) {
	if m.move != nil && m.move.endsAttempt {
		a.LeftNodes, a.NextNodes = m.move.leftNodes, m.move.target.Plan.Names()
	}
}
