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
A spare is a node that is claimed and has a helper, but no ranks (survive.md SV-7). Spares are planned
as ranks would be, on the nodes that the plan has left, and claimed behind it: what is not free
now is done without.

	mpiexec                                      helper of a spare
	   | Prepare --------------------------------->   its claim rests: nothing is made ready
	   | <-------------------------------- Prepared   or Taken, Refused
*/

// spareGroup names the claims of spares: they belong to no group.
const spareGroup = "spare"

// A spare is a node with its claim.
type spare struct {
	*host
	part job.NodePlan
}

// claimSpares claims the nodes that the job wants beside those of its plan, as far as there are any.
func (r *reservation) claimSpares(ctx context.Context) error {
	r.spares = nil
	req, wants := restart.Spares(r.req, r.plan)
	if !wants || r.spawn != nil {
		return nil
	}
	p, err := r.planAhead(ctx, req)
	if err != nil {
		return ctx.Err()
	}
	parts := make(map[*host]job.NodePlan, len(p.Nodes))
	var hosts []*host
	for _, np := range p.Nodes {
		n := r.seen[np.Node]
		parts[n], hosts = np, append(hosts, n)
	}
	claimed := make(map[*host]bool, len(hosts))
	err = r.ask(ctx, r.answerTime(), hosts,
		func(n *host) wire.Message {
			return r.restingClaim(n, parts[n], wire.Group{Name: spareGroup, First: r.plan.Size, Size: p.Size, Nodes: 1})
		},
		func(n *host, m wire.Message) bool {
			switch m := m.(type) {
			case *wire.Prepared:
				r.notice(n, m.Notice)
				claimed[n] = true
			case *wire.Taken, *wire.Refused: // somebody was faster: it is done without
			default:
				return false
			}
			return true
		})
	for _, n := range hosts { // in the order of the plan, not of the answers
		if claimed[n] && n.lost == nil {
			r.spares = append(r.spares, spare{n, parts[n]})
		}
	}
	return err
}

// restingClaim is what the helper of a node has to know that is claimed for an attempt that may follow: what it claims, as
// ranks behind those that there are, and how long it waits for us.
func (r *reservation) restingClaim(n *host, np job.NodePlan, group wire.Group) *wire.Prepare {
	req := r.req
	m := &wire.Prepare{
		Job: r.plan.Job, Group: group, Node: wire.Member{Name: np.Name}, Ranks: np.Ranks, Process: wire.Process{Umask: -1},
		Supervision: wire.Supervision{Held: req.RM.Holds(), Twice: req.RM.TellsRanks(), Grace: req.Limits.Grace, Silence: n.Silence(r.env.Silence)},
		Claim:       wire.Claim{Entry: claimOf(req, r.plan, n), Ledger: req.Queue.Ledger, Noted: req.Queue.Noted, Most: -1},
	}
	for _, app := range req.Apps {
		m.Apps = append(m.Apps, job.App{Argv: app.Argv})
	}
	m.Claim.Entry.Resting, m.Claim.Entry.Since = job.Spare, time.Now()
	if n.def.MaxProcs != nil {
		m.Claim.Most = *n.def.MaxProcs
	}
	return m
}

// Without is a request without some of its candidates.
func Without(req job.Request, out func(job.NodeDef) bool) job.Request {
	if slices.ContainsFunc(req.Nodes, out) {
		req.KeepNodes(func(def job.NodeDef) bool { return !out(def) })
	}
	return req
}

// sayTooFewSpares tells of spares that the job does without.
func (r *reservation) sayTooFewSpares() {
	if wanted, got := r.req.Restart.Spares, len(r.spares); r.spawn == nil && got < wanted {
		r.env.Say(fmt.Sprintf("%d of %s %s free now", got, text.Count(wanted, "spare node"), map[bool]string{true: "is", false: "are"}[got == 1 || wanted == 1]))
	}
}
