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

// A pmiOffer says which PMI versions the ranks of one app context can use, and why these were chosen.
type pmiOffer struct {
	pmidetect.Verdict
	env []string // environment of the app context, with the PMI variables; nil: not composed yet
}

// detectPMI chooses the PMI versions that the app context of a rank can use (rule PMIX-2). The rank's program must
// already be known. detectPMI returns an error if the rank must not start.
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
				return rank.InternalError("cannot start the PMIx server on this host: "+err.Error(), "leave out --pmi pmix, or choose another host")
			}
			tell := s.log.warn
			if auto && !o.UsesPMI() { // perhaps it is not an MPI program
				tell = s.log.inform
			}
			tell("cannot start the PMIx server, so ranks can use only PMI-1: %v", err)
			o.Offer = job.PMIOfferPMI1
		}
	}
	if g.pmiOffers[r.Plan.App] = o; g.Prepare.PMI.ExplainOffer {
		s.log.inform("app context %d: PMI versions for its ranks: %s", r.Plan.App+1, o.Verdict)
	}
	return nil
}

// detectLibrary finds the MPI or PMIx library that the program of a rank is linked with.
func (s *Session) detectLibrary(r *Rank) pmidetect.Verdict {
	return s.pmiDetector.Detect(r.command.Path, pmidetect.SearchOf(r.command.Env, r.command.Dir))
}

// speaksPMI reports whether the program of a rank is known to use PMI or PMIx, because of its libraries or because
// the user said so.
func (r *Rank) speaksPMI() bool {
	o := r.group.pmiOffers[r.Plan.App]
	return o != nil && o.Offer != job.PMIOfferNone && o.UsesPMI()
}

// pmiOffered returns the PMI versions that a rank can use. Until the rank's program has been copied to this node, it
// returns PMIOfferNone.
func (r *Rank) pmiOffered() job.PMIOffer {
	if o := r.group.pmiOffers[r.Plan.App]; o != nil {
		return o.Offer
	}
	return job.PMIOfferNone
}

// composeAppEnv returns the environment of a rank's app context. It composes the environment only once for
// all ranks of the app context.
func (s *Session) composeAppEnv(r *Rank) []string {
	o := r.group.pmiOffers[r.Plan.App]
	if o.env == nil {
		c := &r.command
		o.env = c.Identity.AppEnv(c.Env, c.Argv, c.Dir)
	}
	return o.env
}

// admitPMIx adds a group to the PMIx server, if at least one of its app contexts uses PMIx.
func (s *Session) admitPMIx(g *Group) {
	for _, o := range g.pmiOffers {
		if o.Offer.OffersPMIx() && g.pmix == nil {
			g.pmix = s.describePMIx(g)
			s.addPMIx(g)
		}
	}
}

// describePMIx returns the data about the PMIx server and the job that the environment of the group's ranks contains.
func (s *Session) describePMIx(g *Group) *rank.PMIx {
	m := g.Prepare
	p := &rank.PMIx{Namespace: namespaceOf(m), Server: s.pmix.name + ".0;" + s.pmix.uri, SessionDir: s.pmix.dir.Path, Secret: m.PMI.Token,
		Universe: cmp.Or(m.PMI.Universe, m.PMI.Slots), RanksPerCPU: s.ranksPerCPU(g), Iface: m.Node.Interface, NoFabric: m.PMI.NoFabric, SharesMachine: m.Node.SharedMachine}
	for _, app := range m.Apps {
		p.AppSizes = append(p.AppSizes, app.N)
	}
	return p
}

// ranksPerCPU returns how many ranks of the job share each CPU on this node, rounded up. It counts the ranks
// of g, although they have not started yet.
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

// builtForLibrary returns the PMI or PMIx library with which a rank's program is linked, or "". It is used to
// explain why rank 0 has not used a PMI server (rules REP-5, PMIX-6).
func (s *Session) builtForLibrary(r *Rank) (library string) {
	v := r.group.pmiOffers[r.Plan.App].Verdict
	if v.Library == "" {
		v = s.detectLibrary(r)
	}
	return v.Library
}

// checkSpawnedLibrary returns an error if a spawned program and the rank that spawns it were built with
// different MPI libraries (rule PMIX-43). Such programs cannot communicate. Otherwise it returns nil.
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
	return rank.InternalError(fmt.Sprintf("cannot spawn program %s: it is built for %s, but the program that spawns it uses %s", r.command.Argv[0], cmp.Or(v.Family, string(v.Offer)), parent),
		"build both programs with the same MPI library")
}
