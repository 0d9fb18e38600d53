package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/restart"
	"remshell/plan"
	"remshell/usererr"
	"remshell/wire"
)

/*
A running job moves to nodes that mpiexec has claimed for it before (survive.md SV-17). mpiexec plans and claims them
while the job's ranks are still running, and the next attempt takes them over.

	mpiexec                        nodes of the job        others
	   | connect ----------------------------------------->|
	   | Survey ------------------------->|--------------->|   what other jobs hold
	   |     plan.Make: elsewhere?
	   | Prepare ------------------------>|--------------->|   what the job does not hold there: an idle claim
	   | <------------------------ Prepared --------- Prepared   or ClaimConflict: CancelPrepare, and survey again

As for a spawn, mpiexec does not take the decision lock: a running job must not wait for other jobs, and two jobs cannot
claim the same CPUs even without the lock.
*/

// MoveGroup is the group name that mpiexec sends to a node with a claim for a move. No group of ranks has this name.
const MoveGroup = "move"

// A MoveRequest describes the nodes that are needed to move a running job.
type MoveRequest struct {
	Request     job.Request // request of the next attempt
	CurrentPlan job.Plan    // plan of the running attempt
	FirstRank   int         // first number above those of all ranks of the job
	OwnNodes    []OwnNode   // nodes of the job
	Standby     []KeptNode  // the job's standby nodes
}

// A MoveTarget contains a plan for moving a running job, and claims on the plan's nodes. The claims remain until
// the next attempt (one run of all ranks) has taken them over, or until Abandon is called.
type MoveTarget struct {
	Plan     job.Plan
	NewNodes []KeptNode // nodes that are new to the job; their messages are already being read

	r       *reservation
	claimed []*host
}

// FindMoveTarget finds other nodes for a running job and claims CPUs there. The MoveTarget is never nil. If
// there is an error, all new claims are released and all new connections closed.
func FindMoveTarget(ctx context.Context, env Env, m MoveRequest) (*MoveTarget, error) {
	r := newReservation(m.Request, env)
	ctx, done := r.withinLimit(ctx, &usererr.Error{Text: fmt.Sprintf("the job cannot be moved: mpiexec found no free hosts within %v", StartTimeout(m.Request))})
	defer done()
	r.connected, r.req.SkipUnreachable = true, true
	for _, n := range m.OwnNodes {
		r.addHost(&host{Node: n.Node.Node, def: *n.Def, probe: *n.Probe, ofJob: true})
	}
	for _, k := range m.Standby {
		if i := slices.IndexFunc(r.req.Nodes, func(def job.NodeDef) bool { return def.Name == k.Name() }); i >= 0 {
			r.addHost(&host{Node: k.Node, def: r.req.Nodes[i], probe: k.Probe, ofJob: true})
		}
	}
	g := &MoveTarget{r: r}
	r.connectAll(ctx, r.untriedCandidates(func(job.NodeDef) bool { return true }), nil)
	if err := g.findTarget(ctx, m); err != nil {
		g.Abandon()
		return g, err
	}
	r.dismissNew()
	for _, n := range r.hosts {
		if i := slices.Index(r.planHosts, n); i >= 0 && !n.ofJob {
			g.NewNodes = append(g.NewNodes, KeptNode{n.Node, g.Plan.Nodes[i].CPUs()})
		}
	}
	return g, nil
}

// findTarget makes a plan and claims its nodes. It tries again if another job has claimed the same CPUs in the
// meantime.
func (g *MoveTarget) findTarget(ctx context.Context, m MoveRequest) error {
	for try := 1; ; try++ {
		err := g.findTargetOnce(ctx, m)
		var conflict *claimConflict
		if !errors.As(err, &conflict) {
			return err
		}
		g.releaseClaims()
		g.r.env.Log.Info().Msg(conflict.Error())
		if try == maxConflicts {
			return fmt.Errorf("%v; mpiexec tried %d times, and each time another job took CPUs first", conflict, maxConflicts)
		}
	}
}

func (g *MoveTarget) findTargetOnce(ctx context.Context, m MoveRequest) error {
	r := g.r
	if err := r.surveyNodes(ctx); err != nil {
		return err
	}
	p, err := r.planWithoutQueue(ctx, r.req)
	if err != nil {
		return noTargetReason(err)
	}
	if restart.IsSamePlan(m.CurrentPlan, p) {
		return errors.New("the job cannot be moved: it would start on the same CPUs as now")
	}
	g.Plan = p
	r.setPlan(p)
	return g.claimTarget(ctx, m)
}

// noTargetReason returns a one-line error that says why the job cannot be moved. The user who requested the move
// sees only this line.
func noTargetReason(err error) error {
	var failed *plan.Error
	if !errors.As(err, &failed) {
		return err
	}
	return errors.New(strings.Join(append([]string{"the job cannot be moved: " + failed.Text}, plan.FoldReasons(failed.Rejected)...), "; "))
}

// claimTarget tells the nodes of the plan to claim CPUs that the job does not have yet.
func (g *MoveTarget) claimTarget(ctx context.Context, m MoveRequest) error {
	r := g.r
	had := make(map[string]job.NodePlan, len(m.CurrentPlan.Nodes))
	for _, np := range m.CurrentPlan.Nodes {
		had[np.Name] = np
	}
	parts := make(map[*host]job.NodePlan, len(r.planHosts))
	g.claimed = nil
	for i, np := range r.plan.Nodes {
		if n := r.planHosts[i]; !restart.IsCovered(had[np.Name], np) {
			parts[n], g.claimed = np, append(g.claimed, n)
		}
	}
	var lost error
	err := call(ctx, r, r.replyTimeout(), g.claimed,
		func(n *host) *wire.Prepare {
			return r.idleClaim(n, parts[n], wire.Group{Name: MoveGroup, First: m.FirstRank, Size: r.plan.Size, NodeCount: 1}, r.plan.Gang)
		},
		func(n *host, answer wire.PrepareReply) {
			switch answer := answer.(type) {
			case *wire.Prepared:
				r.addNotice(n, answer.Notice)
			case *wire.ClaimConflict:
				lost = &claimConflict{n.def.Name, answer.Reason}
			case *wire.Refused:
				lost = fmt.Errorf("the job cannot be moved: %s: %s", n.def.Name, answer.Reason)
			}
		})
	for _, n := range r.planHosts {
		if n.lost != nil && lost == nil {
			lost = &claimConflict{n.def.Name, "lost contact"}
		}
	}
	if err == nil {
		err = lost
	}
	if err == nil {
		err = g.checkSeparation()
	}
	return err
}

// checkSeparation returns an error if the request keeps other jobs off its nodes, but a node of the plan has no
// reliable ledger (directory of claims) and so cannot keep them off.
func (g *MoveTarget) checkSeparation() error {
	r := g.r
	if !r.req.Exclusive && !r.req.Queue.Strict {
		return nil
	}
	for text, names := range r.notices {
		if i := slices.IndexFunc(r.planHosts, func(n *host) bool { return names.has[n.def.Name] }); i >= 0 {
			return errors.New("the job cannot be moved: " + separationError(r.planHosts[i].def.Name, text))
		}
	}
	return nil
}

// releaseClaims releases the claims made for the move.
func (g *MoveTarget) releaseClaims() {
	for _, n := range g.claimed {
		n.Send(&wire.CancelPrepare{Group: MoveGroup})
	}
	g.claimed, g.r.planHosts = nil, nil
}

// Abandon releases the claims made for the move, and closes the connections to nodes that the job did not
// have before.
func (g *MoveTarget) Abandon() {
	g.releaseClaims()
	g.r.dismissNew()
}

// NodesText returns the nodes of the plan as a folded host list.
func (g *MoveTarget) NodesText() string { return hostlist.FoldList(g.Plan.Names()) }
