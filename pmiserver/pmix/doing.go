package pmix

import (
	"fmt"
	"maps"
	"slices"

	"remshell/pmiserver/fence"
)

// A Waiter is a rank of this node that waits for something.
type Waiter struct {
	Group string
	Rank  int
}

// Waiting tells in words for what ranks of this node wait; of several things for one of them (PMIX-65).
// The others are not in it.
func (s *Server) Waiting() map[Waiter]string {
	s.mu.Lock()
	groups, meetings := slices.Clone(s.groups), slices.Collect(maps.Values(s.meetings))
	s.mu.Unlock()
	all := make(map[Waiter]string)
	for _, g := range groups {
		g.tellWaiting(all)
	}
	for _, m := range meetings {
		m.tellWaiting(all)
	}
	return all
}

// tellWaiting tells of those of a group that spawn, or wait for names, and of those that wait for ranks of it.
func (g *group) tellWaiting(all map[Waiter]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.byRank {
		switch {
		case r.spawns.Load() > 0:
			all[Waiter{g.Name, r.number}] = "spawning"
		case len(r.awaited) > 0:
			all[Waiter{g.Name, r.number}] = "waits for name " + r.awaited[0]
		}
		r.waiting.each(func(w *pendingGet) { w.tell(all, r.number) })
	}
	for of, some := range g.far.open {
		for _, f := range some {
			f.waiting.each(func(w *pendingGet) { w.tell(all, of.rank) })
		}
	}
}

func (w *pendingGet) tell(all map[Waiter]string, of int) {
	switch {
	case w.asker == nil:
	case w.key == "":
		all[Waiter{w.asker.Name, w.by}] = fmt.Sprintf("waits for rank %d", of)
	default:
		all[Waiter{w.asker.Name, w.by}] = fmt.Sprintf("waits for key %s of rank %d", w.key, of)
	}
}

// doings are what the kinds of meetings are called.
var doings = map[fence.Kind]string{fence.Collective: "in fence", fence.Connect: "connecting", fence.Disconnect: "disconnecting",
	fence.Construct: "making a group", fence.Destruct: "ending a group"}

// tellWaiting tells of those that are in a fence, and how many of this node are.
func (m *meeting) tellWaiting(all map[Waiter]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	where := ""
	if len(m.members) < m.set.count() {
		where = " of this node"
	}
	for i, x := range m.members {
		if len(x.calls) > 0 {
			all[Waiter{x.group.Name, x.rank.number}] = fmt.Sprintf("%s %d (%d of %d%s there)", doings[m.local.Kind], m.local.Next(i)+1, m.inside, len(m.members), where)
		}
	}
}
