//go:build linux

package helper

import (
	"cmp"
	"fmt"
	"slices"

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
	auto := asked == "" || asked == job.OfferAuto
	if auto || g.prepare.Group.PMIx {
		verdict := s.judgeProgram(r)
		if refused := stranger(g, r, verdict); refused != nil {
			return refused
		}
		if auto {
			o.Verdict = verdict
		}
	}
	if o.Offer.PMIx() {
		if err := s.servePMIx(g); err != nil {
			if asked == job.OfferPMIx {
				return rank.Internal("PMIx cannot be offered here: "+err.Error(), "leave out --pmi pmix")
			}
			tell := s.log.warn
			if auto && !o.Speaks() { // it may be no MPI program at all
				tell = s.log.inform
			}
			tell("PMI-1 is offered alone: %v", err)
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

// speaks reports whether the program of a rank is known to say init to its helper, by what it is linked with or by the user's word.
func (r *process) speaks() bool {
	o := r.group.offers[r.plan.App]
	return o != nil && o.Offer != job.OfferNone && o.Speaks()
}

// offered is what a rank is offered: nothing, while its program is still to be staged.
func (r *process) offered() job.Offer {
	if o := r.group.offers[r.plan.App]; o != nil {
		return o.Offer
	}
	return job.OfferNone
}

// compose completes the environment of a rank's section, once for all of its ranks.
func (s *session) compose(r *process) []string {
	o := r.group.offers[r.plan.App]
	if o.env == nil {
		c := &r.command
		o.env = c.Identity.SectionEnv(c.Env, c.Argv, c.Dir)
	}
	return o.env
}

// admitPMIx lets the ranks of a group come to the PMIx server, if a section of it is offered that.
func (s *session) admitPMIx(g *group) {
	for _, o := range g.offers {
		if o.Offer.PMIx() && g.pmix == nil {
			g.pmix = s.describePMIx(g)
			s.addPMIx(g)
		}
	}
}

// describePMIx is what the ranks of a group are told of the PMIx server and of the job.
func (s *session) describePMIx(g *group) *rank.PMIx {
	m := g.prepare
	p := &rank.PMIx{Namespace: namespaceOf(m), Server: s.pmix.name + ".0;" + s.pmix.uri, Dir: s.pmix.dir.Path, Secret: m.PMI.Token,
		Universe: cmp.Or(m.PMI.Universe, m.PMI.Slots), PerCPU: s.perCPU(g), Iface: m.Node.Iface, NoFabric: m.PMI.NoFabric, Apart: m.Node.Apart}
	for _, app := range m.Apps {
		p.Sections = append(p.Sections, app.N)
	}
	return p
}

// perCPU is how many ranks of the job there are here for each CPU that they may use, rounded up, with those of
// a group that is to start.
func (s *session) perCPU(g *group) int {
	all := slices.Clone(g.ranks)
	for _, r := range s.ranks {
		if r.exit == nil && r.group != g {
			all = append(all, r)
		}
	}
	var cpus []int
	for _, r := range all {
		if r.plan.CPUs == nil {
			cpus, _ = probe.AllowedCPUs(s.sys.Root)
			break
		}
		cpus = append(cpus, r.plan.CPUs...)
	}
	have := max(1, len(idset.Of(cpus...)))
	return (len(all) + have - 1) / have
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

// stranger refuses a program that cannot speak to the rank which has spawned it, since it is
// built for another family of MPI (PMIX-43).
func stranger(g *group, r *process, v offer.Verdict) *rank.Error {
	m := g.prepare.Group
	parent := ""
	switch {
	case m.PMIx && v.Offer == job.OfferPMI1:
		parent = "PMIx"
	case m.Parent != "" && !m.PMIx && v.Offer == job.OfferPMIx:
		parent = "PMI"
	default:
		return nil
	}
	return rank.Internal(fmt.Sprintf("cannot spawn %s: it is built for %s, its parent speaks %s", r.command.Argv[0], cmp.Or(v.Family, string(v.Offer)), parent),
		"build it with the MPI of the program that spawns it")
}
