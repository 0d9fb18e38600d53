package reserve

import (
	"context"
	"slices"
	"time"

	"remshell/job"
)

// GiveUp gives up what an attempt has claimed that was planned so, for who has asked for it (survive.md SV-33), and reports whether
// somebody has claimed a CPU of it within some time. The nodes are returned that are left, which claim nothing more.
func GiveUp(ctx context.Context, req job.Request, env Env, kept []Kept, old job.Plan, patience time.Duration) (left []Kept, claimed bool, err error) {
	ctx, done := env.Pauses.Within(ctx, patience, context.DeadlineExceeded)
	defer done()
	r := newReservation(req, env)
	defer r.queue.Settle()
	r.takeOver(kept)
	r.watchClaims()
	r.yield()
	if len(r.hosts) == 0 { // nobody can tell
		return nil, true, nil
	}
	cpus := heldBy(old)
	for ctx.Err() == nil && !claimed {
		pages, err := r.pages(ctx, "")
		if err != nil {
			break
		}
		if claimed = slices.ContainsFunc(pages, func(p job.Page) bool { return othersHave(p, req.Job, cpus[p.Node]) }); !claimed {
			r.hear(ctx, time.Now().Add(time.Second))
		}
	}
	for _, n := range r.hosts {
		if n.lost == nil {
			left = append(left, Kept{Node: n.Node})
		}
	}
	if cause := context.Cause(ctx); cause != nil && cause != context.DeadlineExceeded {
		return left, claimed, cause
	}
	return left, claimed, nil
}

// heldBy are the CPUs of a plan, by node.
func heldBy(p job.Plan) map[string]map[int]bool {
	cpus := make(map[string]map[int]bool, len(p.Nodes))
	for _, np := range p.Nodes {
		of := make(map[int]bool)
		for _, r := range np.Ranks {
			for _, cpu := range r.Held {
				of[cpu] = true
			}
		}
		cpus[np.Name] = of
	}
	return cpus
}

// othersHave reports whether others claim some CPUs of a node.
func othersHave(p job.Page, mine job.ID, cpus map[int]bool) bool {
	return slices.ContainsFunc(p.Claims, func(c job.Claim) bool {
		return c.Job != mine && slices.ContainsFunc(c.Ranks, func(r job.ClaimedRank) bool {
			return slices.ContainsFunc(r.CPUs, func(cpu int) bool { return cpus[cpu] })
		})
	})
}
