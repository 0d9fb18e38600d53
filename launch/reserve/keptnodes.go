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

// This file is about the nodes that an attempt of a job takes over from the one before (survive.md
// SV-2). They are connected, and their helpers hold what the job had there. To everything else they
// are candidates like any: the plan is free to leave them.

// A KeptNode node is one that the job has had, and still claims.
type KeptNode struct {
	*node.Node      // somebody listens to it
	ClaimedCPUs int // that its helper claims for the job
}

// takeOverKept takes in nodes of the attempt before. One that is no candidate is let go: a spawn had
// brought it.
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

// CloseNewNodes is Close but for the nodes that were taken over, of which it returns those that are left.
func (r *Reservation) CloseNewNodes() (left []KeptNode) {
	others := slices.Clone(r.r.hosts)
	r.r.hosts = slices.DeleteFunc(others, func(n *host) bool {
		keeps := n.kept != nil && n.lost == nil
		if keeps {
			left = append(left, *n.kept)
		}
		return keeps
	})
	r.Close()
	return left
}

// releaseEarlier gives up what an earlier attempt has claimed: who waits holds nothing (survive.md SV-5).
func (r *reservation) releaseEarlier() {
	for _, n := range r.hosts {
		if n.kept != nil {
			n.kept = nil
			n.Send(&wire.ReleaseClaims{})
		}
	}
}

// tryBypass lets an attempt that was refused since others wait go before them, if it goes only where the
// one before was and takes no more there: nobody who waits could have had that, and some may wait
// for it.
func (r *reservation) tryBypass(ctx context.Context, p job.Plan, refused error) (job.Plan, error) {
	var failed *plan.Error
	if !errors.As(refused, &failed) || failed.Code != plan.CodeQueueBusy {
		return p, refused
	}
	passing, err := r.planWithoutQueue(ctx, r.req)
	if err != nil || !r.usesOnlyKept(passing) {
		return p, refused
	}
	return passing, nil
}

// planWithoutQueue plans a request as if nobody waited before it.
func (r *reservation) planWithoutQueue(ctx context.Context, req job.Request) (job.Plan, error) {
	snap := r.snap
	snap.Ahead = 0
	return makePlan(ctx, req, snap)
}

// usesOnlyKept reports whether a plan needs nothing but what the attempt before has left.
func (r *reservation) usesOnlyKept(p job.Plan) bool {
	return !slices.ContainsFunc(p.Nodes, func(np job.NodePlan) bool {
		kept := r.snapHosts[np.Node].kept
		return kept == nil || np.CPUs() > kept.ClaimedCPUs
	})
}
