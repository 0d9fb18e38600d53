package launch

import (
	"fmt"

	"remshell/launch/supervise"
	"remshell/wire"
)

// A waitingRank is a rank that waits in a PMI barrier or PMIx fence for all other ranks of its group.
type waitingRank struct {
	rank    string // the rank and its host, for messages
	host    string
	app     int // index of its app context
	program string
}

// noteWaitingRank records that a rank waits in a PMI barrier or PMIx fence for all ranks of its group. If some ranks
// use PMI and others PMIx, neither the barrier nor the fence can ever complete. noteWaitingRank then returns an
// event that says so (rule PMIX-4).
func (j *Job) noteWaitingRank(n *Node, m *wire.PMIReport) []supervise.Event {
	g, _ := j.GroupOf(m.Rank)
	by := m.Event - wire.PMIWaits
	if g == nil || g.Killed || g.waiting[by] != nil {
		return nil
	}
	_, rank, app := j.RankPlan(m.Rank)
	g.waiting[by] = &waitingRank{j.State.RankOnNode(m.Rank), n.Name(), rank.App, app.Argv[0]}
	pmi, pmix := g.waiting[0], g.waiting[1]
	if pmi == nil || pmix == nil {
		return nil
	}
	return []supervise.Event{twoLibraries(*pmi, *pmix, len(g.Apps))}
}

// twoLibraries returns the Failure for a group in which some ranks use PMI and others PMIx. A barrier of such a group
// never completes, because it waits for all ranks. apps is the number of app contexts of the group.
func twoLibraries(pmi, pmix waitingRank, apps int) supervise.Failure {
	name := func(w waitingRank) string {
		if apps > 1 {
			return fmt.Sprintf("%s (app context %d: %s)", w.rank, w.app+1, w.program)
		}
		return fmt.Sprintf("%s (%s)", w.rank, w.program)
	}
	hint := fmt.Sprintf("use the same MPI library to build %s and all programs that it starts", pmi.program)
	switch {
	case pmi.app != pmix.app:
		hint = fmt.Sprintf("start two jobs, one for %s and one for %s, or build both with the same MPI library", pmi.program, pmix.program)
	case pmi.host != pmix.host:
		hint = fmt.Sprintf("all hosts need the same MPI library: the library on %s uses PMI, but the library on %s uses PMIx", pmi.host, pmix.host)
	}
	return supervise.Failure{Kind: supervise.PMIBarrierBroken, Hint: hint,
		Text: fmt.Sprintf("%s uses PMI, as MPICH does, and %s uses PMIx, as Open MPI does: they cannot be in one MPI_COMM_WORLD", name(pmi), name(pmix))}
}
