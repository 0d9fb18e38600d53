package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/restart"
	"remshell/plan"
	"remshell/wire"
)

/*
A job that runs is moved behind a place that it has already (survive.md SV-17): that is planned and claimed
beside its ranks, as spares are, and the next attempt takes it over.

	mpiexec                        nodes of the job        others
	   | connect ----------------------------------------->|
	   | Survey ------------------------->|--------------->|   what other jobs hold; ours does not count
	   |     plan.Make: elsewhere?
	   | Prepare ------------------------>|--------------->|   what it does not hold there: the claim rests
	   | <------------------------ Prepared --------- Prepared   or Taken: Release, and survey again

The gate is not asked for, as by a spawn: who runs does not wait behind others, and claims keep apart without.
*/

// MoveGroup names the claims of a place to which a job is moved: they belong to no group.
const MoveGroup = "move"

// A Move is what is looked for.
type Move struct {
	Request job.Request // of the attempt that it begins
	Old     job.Plan    // of the one that runs
	First   int         // number that no rank of the job has, nor any behind it
	Own     []Own       // nodes of the job
	Spares  []Kept      // that it has beside them
}

// A Goal is a place to which a job can be moved. What is claimed of it is claimed until the next attempt has
// taken it over, or Abandon.
type Goal struct {
	Plan job.Plan
	New  []Kept // nodes that the job had not; somebody listens to them

	r       *reservation
	claimed []*host
}

// ForMove looks for another place for a job that runs. The goal is never nil; with an error nothing is claimed, nor connected
// that was not before.
func ForMove(ctx context.Context, env Env, m Move) (*Goal, error) {
	r := newReservation(m.Request, env)
	ctx, done := r.within(ctx, &fault.Error{Text: fmt.Sprintf("cannot be moved: no place was found within %v", StartLimit(m.Request))})
	defer done()
	r.connected, r.req.Skip = true, true
	for _, n := range m.Own {
		r.add(&host{Node: n.Node.Node, def: *n.Def, probe: *n.Probe, own: true})
	}
	for _, k := range m.Spares {
		if i := slices.IndexFunc(r.req.Nodes, func(def job.NodeDef) bool { return def.Name == k.Name() }); i >= 0 {
			r.add(&host{Node: k.Node, def: r.req.Nodes[i], probe: k.Probe, own: true})
		}
	}
	g := &Goal{r: r}
	r.connectAll(ctx, r.untried(func(job.NodeDef) bool { return true }), nil)
	if err := g.find(ctx, m); err != nil {
		g.Abandon()
		return g, err
	}
	r.dismissNew()
	for _, n := range r.hosts {
		if i := slices.Index(r.chosen, n); i >= 0 && !n.own {
			g.New = append(g.New, Kept{n.Node, g.Plan.Nodes[i].CPUs()})
		}
	}
	return g, nil
}

// find plans and claims until no other job has been faster.
func (g *Goal) find(ctx context.Context, m Move) error {
	for try := 1; ; try++ {
		err := g.findOnce(ctx, m)
		var taken *claimLost
		if !errors.As(err, &taken) {
			return err
		}
		g.release()
		g.r.env.Log.Info().Msg(taken.Error())
		if try == conflicts {
			return fmt.Errorf("%v; others were faster %d times", taken, conflicts)
		}
	}
}

func (g *Goal) findOnce(ctx context.Context, m Move) error {
	r := g.r
	if err := r.survey(ctx); err != nil {
		return err
	}
	p, err := r.planAhead(ctx, r.req)
	if err != nil {
		return noGoal(err)
	}
	if restart.Stays(m.Old, p) {
		return errors.New("cannot be moved: what is free now is no other place than the one that it has")
	}
	g.Plan = p
	r.choose(p)
	return g.claim(ctx, m)
}

// noGoal is why there is no plan, in one line: who has asked reads no more.
func noGoal(err error) error {
	var failed *plan.Error
	if !errors.As(err, &failed) {
		return err
	}
	return errors.New(strings.Join(append([]string{"cannot be moved: " + failed.Text}, plan.Folded(failed.Rejected)...), "; "))
}

// claim has the nodes of the plan claim what the job does not have there.
func (g *Goal) claim(ctx context.Context, m Move) error {
	r := g.r
	had := make(map[string]job.NodePlan, len(m.Old.Nodes))
	for _, np := range m.Old.Nodes {
		had[np.Name] = np
	}
	parts := make(map[*host]job.NodePlan, len(r.chosen))
	g.claimed = nil
	for i, np := range r.plan.Nodes {
		if n := r.chosen[i]; !restart.Covers(had[np.Name], np) {
			parts[n], g.claimed = np, append(g.claimed, n)
		}
	}
	var lost error
	err := r.ask(ctx, r.answerTime(), g.claimed,
		func(n *host) wire.Message {
			return r.restingClaim(n, parts[n], wire.Group{Name: MoveGroup, First: m.First, Size: r.plan.Size, Nodes: 1})
		},
		func(n *host, answer wire.Message) bool {
			switch answer := answer.(type) {
			case *wire.Prepared:
				r.notice(n, answer.Notice)
			case *wire.Taken:
				lost = &claimLost{n.def.Name, answer.Reason}
			case *wire.Refused:
				lost = fmt.Errorf("cannot be moved: %s: %s", n.def.Name, answer.Reason)
			default:
				return false
			}
			return true
		})
	for _, n := range r.chosen {
		if n.lost != nil && lost == nil {
			lost = &claimLost{n.def.Name, "lost contact"}
		}
	}
	if err == nil {
		err = lost
	}
	if err == nil {
		err = g.apart()
	}
	return err
}

// apart is keptApart for a goal.
func (g *Goal) apart() error {
	r := g.r
	if !r.req.Exclusive && !r.req.Queue.Strict {
		return nil
	}
	for text, names := range r.notices {
		if i := slices.IndexFunc(r.chosen, func(n *host) bool { return names.has[n.def.Name] }); i >= 0 {
			return errors.New("cannot be moved: " + notApart(r.chosen[i].def.Name, text))
		}
	}
	return nil
}

// release gives back what was claimed.
func (g *Goal) release() {
	for _, n := range g.claimed {
		n.Send(&wire.Release{Group: MoveGroup})
	}
	g.claimed, g.r.chosen = nil, nil
}

// Abandon gives up the goal, with the nodes that the job had not.
func (g *Goal) Abandon() {
	g.release()
	g.r.dismissNew()
}

// Text is where it is: the nodes of the plan, folded.
func (g *Goal) Text() string { return hostlist.FoldList(g.Plan.Names()) }
