//go:build linux

package helper

import (
	"cmp"
	"errors"
	"fmt"

	"remshell/helper/offer"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/idset"
	"remshell/job"
)

// An offering is by what the ranks of one section of a group find their helper here, and why.
type offering struct {
	offer.Verdict
	env []string // of the section, with what its ranks are told of that; nil: not composed yet
}

// offer decides what the section of a rank whose program is found is offered (PMIX-2).
func (s *session) offer(g *group, r *process) *rank.Error {
	if g.offers[r.plan.App] != nil {
		return nil
	}
	asked := g.prepare.Apps[r.plan.App].PMI
	o := &offering{Verdict: offer.Verdict{Offer: asked, Why: "--pmi"}}
	if asked == "" || asked == job.OfferAuto {
		o.Verdict = s.judgeProgram(r)
	}
	if o.Offer.PMIx() {
		if err := s.servePMIx(g); err != nil {
			if asked == job.OfferPMIx {
				return rank.Internal("PMIx cannot be offered here: "+err.Error(), "leave out --pmi pmix")
			}
			if asked == job.OfferBoth {
				s.log.warn("PMI-1 is offered alone: %v", err)
			}
			o.Offer = job.OfferPMI1
		}
	}
	if g.offers[r.plan.App] = o; g.prepare.PMI.Told {
		s.log.inform("section %d: pmi  %s", r.plan.App+1, o.Verdict)
	}
	return nil
}

// judgeProgram looks at what the program of a rank is linked with.
func (s *session) judgeProgram(r *process) offer.Verdict {
	return s.judge.Verdict(r.command.Path, offer.SearchOf(r.command.Env, r.command.Dir))
}

// offered is what a rank is offered.
func (r *process) offered() job.Offer { return r.group.offers[r.plan.App].Offer }

// compose completes the environment of a rank's section, once for all of its ranks.
func (s *session) compose(r *process) []string {
	o := r.group.offers[r.plan.App]
	if o.env == nil {
		c := &r.command
		o.env = c.Identity.SectionEnv(c.Env, c.Argv, c.Dir)
	}
	return o.env
}

// tellPMIx is what the ranks of a group are told of the PMIx server and of the job.
func (s *session) tellPMIx(g *group) *rank.PMIx {
	m := g.prepare
	if g.pmix == nil {
		p := s.addressPMIx(g)
		p.Universe, p.Crowded = cmp.Or(m.PMI.Universe, m.PMI.Slots), s.crowded()
		for _, app := range m.Apps {
			p.Sections = append(p.Sections, app.N)
		}
		if m.PMI.Hints {
			p.Iface, p.NoFabric = m.Node.Iface, m.PMI.NoFabric
		}
		g.pmix = &p
	}
	return g.pmix
}

// crowded reports whether the ranks of the job here have fewer CPUs than they are.
func (s *session) crowded() bool {
	ranks, bound, free := 0, []int(nil), false
	for _, r := range s.ranks {
		if r.exit != nil {
			continue
		}
		ranks++
		bound = append(bound, r.plan.CPUs...)
		free = free || r.plan.CPUs == nil
	}
	if free {
		bound, _ = probe.AllowedCPUs(s.sys.Root)
	}
	return ranks > len(idset.Of(bound...))
}

// builtFor names what rank 0 is linked with that speaks to a launcher, if it has spoken to none
// (REP-5, PMIX-6).
func (s *session) builtFor(r *process) (library string) {
	v := r.group.offers[r.plan.App].Verdict
	if v.Library == "" {
		v = s.judgeProgram(r)
	}
	return v.Library
}

var errNoPMIx = errors.New("there is no PMIx server yet")

func (s *session) servePMIx(*group) error { return errNoPMIx }

func (s *session) addressPMIx(g *group) rank.PMIx {
	return rank.PMIx{Secret: g.prepare.PMI.Token, Namespace: fmt.Sprintf("rs-%s-%d", g.prepare.PMI.Token, g.prepare.Group.Number)}
}
