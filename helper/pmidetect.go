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

// A pmiOffer is the PMI protocol offered to the ranks of one app context of a group, and why.
type pmiOffer struct {
	pmidetect.Verdict
	env []string // environment of the app context, with the offer; nil: not composed yet
}

// detectPMI decides which PMI the app context of a rank is offered (PMIX-2). The rank's program must be found.
func (s *session) detectPMI(g *group, r *rankProcess) *rank.Error {
	if g.pmiOffers[r.plan.App] != nil {
		return nil
	}
	asked := g.prepare.Apps[r.plan.App].PMIOffer
	o := &pmiOffer{Verdict: pmidetect.Verdict{Offer: asked, Why: "--pmi"}}
	auto := asked == "" || asked == job.PMIOfferAuto
	if auto || g.prepare.Group.PMIx {
		verdict := s.detectLibrary(r)
		if refused := checkSpawnedLibrary(g, r, verdict); refused != nil {
			return refused
		}
		if auto {
			o.Verdict = verdict
		}
	}
	if o.Offer.OffersPMIx() {
		if err := s.servePMIx(g); err != nil {
			if asked == job.PMIOfferPMIx {
				return rank.InternalError("PMIx cannot be offered here: "+err.Error(), "leave out --pmi pmix")
			}
			tell := s.log.warn
			if auto && !o.Speaks() { // it may not be an MPI program
				tell = s.log.inform
			}
			tell("PMI-1 is offered alone: %v", err)
			o.Offer = job.PMIOfferPMI1
		}
	}
	if g.pmiOffers[r.plan.App] = o; g.prepare.PMI.ExplainOffer {
		s.log.inform("app %d: pmi  %s", r.plan.App+1, o.Verdict)
	}
	return nil
}

// detectLibrary finds the MPI library that a rank's program is linked with.
func (s *session) detectLibrary(r *rankProcess) pmidetect.Verdict {
	return s.pmiDetector.Verdict(r.command.Path, pmidetect.SearchOf(r.command.Env, r.command.Dir))
}

// speaksPMI reports whether a rank is expected to initialize PMI: its program is linked with an MPI library, or the
// user said so.
func (r *rankProcess) speaksPMI() bool {
	o := r.group.pmiOffers[r.plan.App]
	return o != nil && o.Offer != job.PMIOfferNone && o.Speaks()
}

// pmiOffered returns the PMI that a rank is offered. It is PMIOfferNone while the program is still to be staged.
func (r *rankProcess) pmiOffered() job.PMIOffer {
	if o := r.group.pmiOffers[r.plan.App]; o != nil {
		return o.Offer
	}
	return job.PMIOfferNone
}

// composeAppEnv returns the environment of a rank's app context. It is composed once for all its ranks.
func (s *session) composeAppEnv(r *rankProcess) []string {
	o := r.group.pmiOffers[r.plan.App]
	if o.env == nil {
		c := &r.command
		o.env = c.Identity.AppEnv(c.Env, c.Argv, c.Dir)
	}
	return o.env
}

// admitPMIx registers a group with the PMIx server, if an app context of it is offered PMIx.
func (s *session) admitPMIx(g *group) {
	for _, o := range g.pmiOffers {
		if o.Offer.OffersPMIx() && g.pmix == nil {
			g.pmix = s.describePMIx(g)
			s.addPMIx(g)
		}
	}
}

// describePMIx returns what the environment tells a group's ranks about the PMIx server and the job.
func (s *session) describePMIx(g *group) *rank.PMIx {
	m := g.prepare
	p := &rank.PMIx{Namespace: namespaceOf(m), Server: s.pmix.name + ".0;" + s.pmix.uri, SessionDir: s.pmix.dir.Path, Secret: m.PMI.Token,
		Universe: cmp.Or(m.PMI.Universe, m.PMI.Slots), RanksPerCPU: s.ranksPerCPU(g), Iface: m.Node.Interface, NoFabric: m.PMI.NoFabric, SharesMachine: m.Node.SharedMachine}
	for _, app := range m.Apps {
		p.AppSizes = append(p.AppSizes, app.N)
	}
	return p
}

// ranksPerCPU returns how many ranks of the job run here for each CPU that they may use, rounded up. It counts the
// ranks of g, which is about to start.
func (s *session) ranksPerCPU(g *group) int {
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
	have := max(1, len(idset.New(cpus...)))
	return (len(all) + have - 1) / have
}

// builtForLibrary names the MPI library of a rank that has contacted no PMI server (REP-5, PMIX-6). It is empty if
// none was found.
func (s *session) builtForLibrary(r *rankProcess) (library string) {
	v := r.group.pmiOffers[r.plan.App].Verdict
	if v.Library == "" {
		v = s.detectLibrary(r)
	}
	return v.Library
}

// checkSpawnedLibrary refuses a spawned program that is built for another MPI family than its parent, since they could
// not communicate (PMIX-43).
func checkSpawnedLibrary(g *group, r *rankProcess, v pmidetect.Verdict) *rank.Error {
	m := g.prepare.Group
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
