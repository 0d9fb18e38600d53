package reserve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/restart"
	"remshell/text"
	"remshell/wire"
)

/*
A standby node is claimed and has a helper, but no ranks (survive.md SV-7). Standby nodes are planned like
ranks, on the nodes that the plan does not use, and claimed after it. If fewer are free now, the job starts
with fewer.

	mpiexec                                      helper of a standby node
	   | Prepare --------------------------------->   an idle claim: nothing is set up for ranks
	   | <-------------------------------- Prepared   or ClaimConflict, Refused
*/

// standbyGroup is the group name that mpiexec sends to a standby node with a claim. No group of ranks has this name.
const standbyGroup = "spare"

// A standbyNode is a node that the job holds in reserve for a restart, with its claim.
type standbyNode struct {
	*host
	plan job.NodePlan
}

// claimStandby claims free nodes as standby nodes, which the job holds in reserve for a restart. It claims as
// many as requested, or fewer if not enough are free.
func (r *reservation) claimStandby(ctx context.Context) error {
	r.standby = nil
	req, wants := restart.StandbyRequest(r.req, r.plan)
	if !wants || r.spawnGroup != nil {
		return nil
	}
	req.Gang = false // nothing runs there that could take turns
	p, err := r.planWithoutQueue(ctx, req)
	if err != nil {
		return ctx.Err()
	}
	parts := make(map[*host]job.NodePlan, len(p.Nodes))
	var hosts []*host
	for _, np := range p.Nodes {
		n := r.snapHosts[np.Node]
		parts[n], hosts = np, append(hosts, n)
	}
	claimed := make(map[*host]bool, len(hosts))
	err = call(ctx, r, r.replyTimeout(), hosts,
		func(n *host) *wire.Prepare {
			return r.idleClaim(n, parts[n], wire.Group{Name: standbyGroup, First: r.plan.Size, Size: p.Size, NodeCount: 1}, nil)
		},
		func(n *host, m wire.PrepareReply) { // if another job was faster, the job starts with fewer standby nodes
			if m, ok := m.(*wire.Prepared); ok {
				r.addNotice(n, m.Notice)
				claimed[n] = true
			}
		})
	for _, n := range hosts { // in the order of the plan, not of the answers
		if claimed[n] && n.lost == nil {
			r.standby = append(r.standby, standbyNode{n, parts[n]})
		}
	}
	return err
}

// idleClaim returns a Prepare message that makes a node's helper claim CPUs without starting ranks. The claim is
// for a later attempt (one run of all ranks).
func (r *reservation) idleClaim(n *host, np job.NodePlan, group wire.Group, gang *job.Gang) *wire.Prepare {
	req, p := r.req, r.plan
	p.Gang = gang
	m := &wire.Prepare{
		Job: r.plan.Job, Group: group, Node: wire.GroupNode{Name: np.Name}, Ranks: np.Ranks, Process: wire.Process{Umask: -1},
		Supervision: wire.Supervision{BatchStarted: req.RM.ControlsHelpers(), BatchSignalsRanks: req.RM.SignalsRanks(), Grace: req.TimeLimits.Grace, Silence: n.MaxSilence(r.env.SilenceLimit)},
		Claim:       wire.Claim{Entry: claimOf(req, p, n, len(np.Ranks)), Ledger: req.Queue.LedgerDir, ClusterLedger: req.Queue.ClusterLedgerDir, MaxProcs: -1},
	}
	for _, app := range req.Apps {
		m.Apps = append(m.Apps, job.App{Argv: app.Argv})
	}
	m.Claim.Entry.IdleReason, m.Claim.Entry.Since = job.IdleStandby, time.Now()
	if n.def.MaxProcs != nil {
		m.Claim.MaxProcs = *n.def.MaxProcs
	}
	return m
}

// WithoutNodes returns the request without the candidate hosts for which out returns true.
func WithoutNodes(req job.Request, out func(job.NodeDef) bool) job.Request {
	if slices.ContainsFunc(req.Nodes, out) {
		req.KeepNodes(func(def job.NodeDef) bool { return !out(def) })
	}
	return req
}

// reportTooFewStandby warns the user if the job has fewer standby nodes than requested.
func (r *reservation) reportTooFewStandby() {
	if wanted, got := r.req.Restart.StandbyNodes, len(r.standby); r.spawnGroup == nil && got < wanted {
		r.env.Report(fmt.Sprintf("mpiexec could reserve only %d of %s", got, text.Count(wanted, "standby node")))
	}
}
