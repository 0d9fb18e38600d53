package launch

import (
	"fmt"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/wire"
)

// A waiting is a rank that waits for all others of its group by PMI, or by PMIx.
type waiting struct {
	who     string // it and its host, for people
	host    string
	section int // of the command line, from 0
	program string
}

// waits notes a rank that waits for all of its group by PMI or by PMIx. If ranks wait by both, it is news that neither are ever
// released (PMIX-4).
func (f *runningJob) waits(n *jobNode, m *wire.PMIReport) []supervise.Event {
	g, number := f.groupOf(m.Rank)
	by := m.Event - wire.PMIWaits
	if g == nil || g.killed || g.waiting[by] != nil {
		return nil
	}
	section := sectionOf(g.plan, number)
	g.waiting[by] = &waiting{f.state.RankOnNode(m.Rank), n.Name(), section, g.apps[section].Argv[0]}
	pmi, pmix := g.waiting[0], g.waiting[1]
	if pmi == nil || pmix == nil {
		return nil
	}
	return []supervise.Event{twoLibraries(*pmi, *pmix, len(g.apps))}
}

// sectionOf is the section of a rank of a plan.
func sectionOf(p job.Plan, rank int) int {
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			if r.Rank == rank {
				return r.App
			}
		}
	}
	return 0
}

// twoLibraries is the news that ranks of a group of so many sections wait for each other: MPI libraries that speak PMI cannot meet those
// that speak PMIx.
func twoLibraries(pmi, pmix waiting, sections int) supervise.Failure {
	name := func(w waiting) string {
		if sections > 1 {
			return fmt.Sprintf("%s (app context %d: %s)", w.who, w.section+1, w.program)
		}
		return fmt.Sprintf("%s (%s)", w.who, w.program)
	}
	hint := fmt.Sprintf("let all ranks that %s runs use the same MPI library", pmi.program)
	switch {
	case pmi.section != pmix.section:
		hint = fmt.Sprintf("start two jobs, one for %s and one for %s, or build both with the same MPI library", pmi.program, pmix.program)
	case pmi.host != pmix.host:
		hint = fmt.Sprintf("all hosts need the same MPI library: that on %s speaks PMI, that on %s PMIx", pmi.host, pmix.host)
	}
	return supervise.Failure{Kind: supervise.PMIBarrierBroken, Hint: hint,
		Text: fmt.Sprintf("%s speaks PMI, as MPICH does, and %s speaks PMIx, as Open MPI does: they cannot be in one MPI_COMM_WORLD", name(pmi), name(pmix))}
}
