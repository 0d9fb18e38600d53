package reserve

import (
	"context"
	"slices"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A GivenUp is what came of giving up what an attempt had claimed.
type GivenUp struct {
	Left    []Kept   // the nodes that are left, which claim nothing more
	Claimed bool     // somebody has claimed some of it, or nobody can tell
	Unread  []string // what could not be read of who has, in words, by node
}

// GiveUp gives up what an attempt has claimed that was planned so, for a job that has asked for it (survive.md SV-33), and waits for some
// time until somebody has claimed a CPU of it, or that job anything there, however short.
func GiveUp(ctx context.Context, req job.Request, env Env, kept []Kept, old job.Plan, by job.Whose, patience time.Duration) (given GivenUp, err error) {
	ctx, done := env.Pauses.Within(ctx, patience, context.DeadlineExceeded)
	defer done()
	r := newReservation(req, env)
	defer r.queue.Settle()
	r.takeOver(kept)
	for _, n := range r.hosts {
		n.watched = true
		n.Send(&wire.Watch{Ledger: req.Queue.Ledger, For: by.Job, UID: by.UID})
	}
	r.yield()
	if len(r.hosts) == 0 {
		return GivenUp{Claimed: true}, nil
	}
	cpus := heldBy(old)
	for ctx.Err() == nil && !given.Claimed {
		pages, err := r.pages(ctx, nil)
		if err != nil {
			break
		}
		given.Claimed, given.Unread = r.claimedOf(pages, req.Job, cpus)
		if !given.Claimed {
			r.hear(ctx, time.Now().Add(time.Second))
		}
	}
	for _, n := range r.hosts {
		if n.lost == nil {
			given.Left = append(given.Left, Kept{Node: n.Node})
		}
	}
	if cause := context.Cause(ctx); cause != nil && cause != context.DeadlineExceeded {
		return given, cause
	}
	return given, nil
}

// claimedOf reports whether others have claimed some of what a job had, as far as nodes tell.
func (r *reservation) claimedOf(pages []job.Page, mine job.ID, cpus map[string]map[int]bool) (claimed bool, unread []string) {
	lost := 0
	for i, p := range pages {
		if r.hosts[i].had || othersHave(p, mine, cpus[p.Node]) {
			return true, nil
		}
		if p.Err != "" {
			unread = append(unread, p.Node+": "+p.Err)
		}
		if r.hosts[i].lost != nil {
			lost++
		}
	}
	return lost == len(pages), unread
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
