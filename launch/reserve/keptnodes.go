package reserve

import (
	"context"
	"errors"
	"slices"

	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/wire"
)

// This file is about the nodes that an attempt of a job takes over from the previous attempt (survive.md SV-2). They
// are connected, and their helpers keep the job's claims. In all other respects, they are candidates like all others: the
// plan need not use them.

// A KeptNode is a node that the previous attempt of a job has used and on which the job still has its claim.
type KeptNode struct {
	*node.Node      // its messages are already being read
	ClaimedCPUs int // number of CPUs that its helper claims for the job
}

// takeOverKept adds to the reservation the nodes that are still connected after the previous attempt (one run of all
// ranks). It disconnects nodes that are not candidates, such as nodes that were added for a spawn.
func (r *reservation) takeOverKept(kept []KeptNode) {
	byName := make(map[string]KeptNode, len(kept))
	for _, k := range kept {
		byName[k.Name()] = k
	}
	for _, def := range r.req.Nodes {
		if k, had := byName[def.Name]; had {
			delete(byName, def.Name)
			r.addHost(&host{Node: k.Node, def: def, probe: k.Probe, kept: &k})
		}
	}
	for _, k := range byName {
		k.Send(&wire.Bye{})
		go k.Close()
	}
}

// CloseNewNodes disconnects all nodes except those that were taken over from the previous attempt (one run of all
// ranks). It returns the nodes that remain connected.
func (r *Reservation) CloseNewNodes() (kept []KeptNode) {
	others := slices.Clone(r.r.hosts)
	r.r.hosts = slices.DeleteFunc(others, func(n *host) bool {
		keep := n.kept != nil && n.lost == nil
		if keep {
			kept = append(kept, *n.kept)
		}
		return keep
	})
	r.Close()
	return kept
}

// releaseEarlier releases the claims of the previous attempt (one run of all ranks), because a job must not
// hold CPUs while it waits in the queue (survive.md SV-5).
func (r *reservation) releaseEarlier() {
	for _, n := range r.hosts {
		if n.kept != nil {
			n.kept = nil
			n.Send(&wire.ReleaseClaims{})
		}
	}
}

// tryBypass makes a plan that ignores the queue, if plan p was refused because other requests are waiting. It accepts
// this plan only if the plan uses only CPUs that the job's previous attempt (one run of all ranks) still claims. No
// waiting request could use these CPUs, and some may be waiting for this job to end. Otherwise it returns p and
// refused.
func (r *reservation) tryBypass(ctx context.Context, p job.Plan, refused error) (job.Plan, error) {
	var failed *plan.Error
	if !errors.As(refused, &failed) || failed.Code != plan.CodeQueueBusy {
		return p, refused
	}
	bypass, err := r.planWithoutQueue(ctx, r.req)
	if err != nil || !r.usesOnlyKept(bypass) {
		return p, refused
	}
	return bypass, nil
}

// planWithoutQueue plans a request as if it were the first in the queue.
func (r *reservation) planWithoutQueue(ctx context.Context, req job.Request) (job.Plan, error) {
	snap := r.snap
	snap.Ahead = 0
	return makePlan(ctx, req, snap)
}

// usesOnlyKept reports whether a plan needs only nodes and CPUs that the previous attempt (one run of all
// ranks) still claims.
func (r *reservation) usesOnlyKept(p job.Plan) bool {
	return !slices.ContainsFunc(p.Nodes, func(np job.NodePlan) bool {
		kept := r.snapHosts[np.Node].kept
		return kept == nil || np.CPUs() > kept.ClaimedCPUs
	})
}
