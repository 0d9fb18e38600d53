package pmix

import (
	"fmt"
	"maps"
	"slices"

	"remshell/pmiserver/fence"
)

// A WaitingRank identifies a rank of this node that waits in a PMIx call.
type WaitingRank struct {
	Group string
	Rank  int
}

// WaitingRanks returns, for each rank of this node that waits, a phrase that says what it waits for (rule PMIX-65). If
// a rank waits for several events, the phrase describes one of them.
func (s *Server) WaitingRanks() map[WaitingRank]string {
	s.mu.Lock()
	groups, collectives := slices.Clone(s.groups), slices.Collect(maps.Values(s.collectives))
	s.mu.Unlock()
	all := make(map[WaitingRank]string)
	for _, g := range groups {
		g.listWaiting(all)
	}
	for _, m := range collectives {
		m.listWaiting(all)
	}
	return all
}

// listWaiting adds to all an entry for each rank of the group that waits for a spawn or a name. It also adds an entry
// for each rank of any group that waits for data of this group.
func (g *group) listWaiting(all map[WaitingRank]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.byRank {
		switch {
		case r.spawns.Load() > 0:
			all[WaitingRank{g.Name, r.number}] = "spawning"
		case len(r.awaitedNames) > 0:
			all[WaitingRank{g.Name, r.number}] = "waits for the published name " + r.awaitedNames[0]
		}
		r.waitingGets.forEach(func(w *pendingGet) { w.listWaiting(all, r.number) })
	}
	for of, some := range g.remote.inFlight {
		for _, f := range some {
			f.waiting.forEach(func(w *pendingGet) { w.listWaiting(all, of.rank) })
		}
	}
}

func (w *pendingGet) listWaiting(all map[WaitingRank]string, waitingRank int) {
	switch {
	case w.asker == nil:
	case w.key == "":
		all[WaitingRank{w.asker.Name, w.askerRank}] = fmt.Sprintf("waits for rank %d", waitingRank)
	default:
		all[WaitingRank{w.asker.Name, w.askerRank}] = fmt.Sprintf("waits for key %s of rank %d", w.key, waitingRank)
	}
}

// collectiveTexts contains, for each kind of collective, the phrase for a rank that waits in it.
var collectiveTexts = map[fence.Kind]string{fence.PMIxFence: "in fence", fence.Connect: "connecting", fence.Disconnect: "disconnecting",
	fence.Construct: "making a group", fence.Destruct: "ending a group"}

// listWaiting adds to all an entry for each rank that waits in the collective. Each entry says how many participants on
// this node wait.
func (m *collective) listWaiting(all map[WaitingRank]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	where := ""
	if len(m.participants) < m.set.size() {
		where = " on this host"
	}
	for i, x := range m.participants {
		if len(x.calls) > 0 {
			inCollective, number, entered := collectiveTexts[m.local.Kind], m.local.NextNumber(i)+1, m.waitingCount
			all[WaitingRank{x.group.Name, x.rank.number}] = fmt.Sprintf("%s %d (%d of %d ranks%s have entered)", inCollective, number, entered, len(m.participants), where)
		}
	}
}
