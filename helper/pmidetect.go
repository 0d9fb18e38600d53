//go:build linux

package helper

import (
	"cmp"
	"fmt"
	"slices"

	"remshell/helper/pmidetect"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/idset"
	"remshell/job"
)

// A pmiOffer is by what the ranks of one section of a group find their helper here, and why.
type pmiOffer struct {
	pmidetect.Verdict
	env []string // of the section, with what its ranks are told of that; nil: not composed yet
}

// detectPMI decides what the section of a rank whose program is found is offered (PMIX-2).
func (s *Session) detectPMI(g *Group, r *Rank) *rank.Error {
	if g.pmiOffers[r.Plan.App] != nil {
		return nil
	}
	asked := g.Prepare.Apps[r.Plan.App].PMIOffer
	o := &pmiOffer{Verdict: pmidetect.Verdict{Offer: asked, Why: "--pmi"}}
	auto := asked == "" || asked == job.PMIOfferAuto
	if auto || g.Prepare.Group.PMIx {
		verdict := s.detectLibrary(r)
		if refused := checkSpawnedLibrary(g, r, verdict); refused != nil {
			return refused
		}
		if auto {
			o.Verdict = verdict
		}
	}
	if o.Offer.OffersPMIx() {
		if err := s.startPMIxServer(g); err != nil {
			if asked == job.PMIOfferPMIx {
				return rank.InternalError("PMIx cannot be offered here: "+err.Error(), "leave out --pmi pmix")
			}
			tell := s.log.warn
			if auto && !o.UsesPMI() { // it may be no MPI program at all
				tell = s.log.inform
			}
			tell("PMI-1 is offered alone: %v", err)
			o.Offer = job.PMIOfferPMI1
		}
	}
	if g.pmiOffers[r.Plan.App] = o; g.Prepare.PMI.ExplainOffer {
		s.log.inform("app context %d: pmi  %s", r.Plan.App+1, o.Verdict)
	}
	return nil
}

// detectLibrary looks at what the program of a rank is linked with.
func (s *Session) detectLibrary(r *Rank) pmidetect.Verdict {
	return s.pmiDetector.Detect(r.command.Path, pmidetect.SearchOf(r.command.Env, r.command.Dir))
}

// speaksPMI reports whether the program of a rank is known to say init to its helper, by what it is linked with or by the user's word.
func (r *Rank) speaksPMI() bool {
	o := r.group.pmiOffers[r.Plan.App]
	return o != nil && o.Offer != job.PMIOfferNone && o.UsesPMI()
}

// pmiOffered is what a rank is offered: nothing, while its program is still to be staged.
func (r *Rank) pmiOffered() job.PMIOffer {
	if o := r.group.pmiOffers[r.Plan.App]; o != nil {
		return o.Offer
	}
	return job.PMIOfferNone
}

// composeAppEnv completes the environment of a rank's section, once for all of its ranks.
func (s *Session) composeAppEnv(r *Rank) []string {
	o := r.group.pmiOffers[r.Plan.App]
	if o.env == nil {
		c := &r.command
		o.env = c.Identity.AppEnv(c.Env, c.Argv, c.Dir)
	}
	return o.env
}

// admitPMIx lets the ranks of a group come to the PMIx server, if a section of it is offered that.
func (s *Session) admitPMIx(g *Group) {
	for _, o := range g.pmiOffers {
		if o.Offer.OffersPMIx() && g.pmix == nil {
			g.pmix = s.describePMIx(g)
			s.addPMIx(g)
		}
	}
}

// describePMIx is what the ranks of a group are told of the PMIx server and of the job.
func (s *Session) describePMIx(g *Group) *rank.PMIx {
	m := g.Prepare
	p := &rank.PMIx{Namespace: namespaceOf(m), Server: s.pmix.name + ".0;" + s.pmix.uri, SessionDir: s.pmix.dir.Path, Secret: m.PMI.Token,
		Universe: cmp.Or(m.PMI.Universe, m.PMI.Slots), RanksPerCPU: s.ranksPerCPU(g), Iface: m.Node.Interface, NoFabric: m.PMI.NoFabric, SharesMachine: m.Node.SharedMachine}
	for _, app := range m.Apps {
		p.AppSizes = append(p.AppSizes, app.N)
	}
	return p
}

// ranksPerCPU is how many ranks of the job there are here for each CPU that they may use, rounded up, with those of
// a group that is to start.
func (s *Session) ranksPerCPU(g *Group) int {
	all := slices.Clone(g.ranks)
	for _, r := range s.ranks {
		if r.Exit == nil && r.group != g {
			all = append(all, r)
		}
	}
	var cpus []int
	for _, r := range all {
		if r.Plan.CPUs == nil {
			cpus, _ = probe.AllowedCPUs(s.sys.Root)
			break
		}
		cpus = append(cpus, r.Plan.CPUs...)
	}
	have := max(1, len(idset.New(cpus...)))
	return (len(all) + have - 1) / have
}

// builtForLibrary names what rank 0 is linked with that speaks to a launcher, if it has spoken to none
// (REP-5, PMIX-6).
func (s *Session) builtForLibrary(r *Rank) (library string) {
	v := r.group.pmiOffers[r.Plan.App].Verdict
	if v.Library == "" {
		v = s.detectLibrary(r)
	}
	return v.Library
}

// checkSpawnedLibrary refuses a program that cannot speak to the rank which has spawned it, since it is
// built for another family of MPI (PMIX-43).
func checkSpawnedLibrary(g *Group, r *Rank, v pmidetect.Verdict) *rank.Error {
	m := g.Prepare.Group
	parent := ""
	switch {
	case m.PMIx && v.Offer == job.PMIOfferPMI1:
		parent = "PMIx"
	case m.Parent != "" && !m.PMIx && v.Offer == job.PMIOfferPMIx:
		parent = "PMI"
	default:
		return nil
	}
	return rank.InternalError(fmt.Sprintf("cannot spawn %s: it is built for %s, its parent speaks %s", r.command.Argv[0], cmp.Or(v.Family, string(v.Offer)), parent),
		"build it with the MPI of the program that spawns it")
}
