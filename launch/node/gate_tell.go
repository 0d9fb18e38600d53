package node

import (
	"slices"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

// tell notes what is about to be said to the helper, and what it may say because of that.
func (g *gate) tell(m wire.Message) {
	if credit, ok := m.(*wire.Credit); ok {
		g.grant(credit)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if key := answerTo(m); key != "" {
		g.ask(key)
	}
	switch m := m.(type) {
	case *wire.Prepare:
		g.plan(m)
	case *wire.Release:
		g.release(m.Group)
	case *wire.Start:
		g.letGo(m.Group)
	case *wire.Prune:
		if p := g.groups[m.Group]; p != nil {
			p.phase = pruned
		}
	case *wire.Stage:
		g.cargo = &cargoHold{parcels: len(m.Parcels), here: m.Here}
	case *wire.End:
		if g.ended.IsZero() {
			g.ended = g.now()
		}
	case *wire.Bye:
		g.left = g.now()
	case *wire.Enqueue:
		g.waiting = true
	case *wire.Dequeue:
		g.waiting, g.dequeued = false, g.now()
	case *wire.Watch:
		g.watched = true
	case *wire.Data:
		if s := g.rank(m.Rank); s != nil {
			s.fed += len(m.Bytes)
		}
	case *wire.Named, *wire.Spawned, *wire.Peered:
		g.unheard--
	}
}

// tellFenced is tell for the answer to a fence, which is encoded once for all.
func (g *gate) tellFenced(id fence.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id.Kind != fence.Barrier {
		delete(g.fences, id.String())
		return
	}
	if p := g.groups[id.Members.Group()]; p != nil {
		p.fencing = false
	}
}

// grant notes leave for more output.
func (g *gate) grant(m *wire.Credit) {
	if s := g.rank(m.Rank); s != nil {
		s.room[m.Stream-wire.Stdout].Add(int64(m.Bytes))
	}
}

// answerTo is what a question is answered by; empty: it is no question.
func answerTo(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Gate:
		return "Gated"
	case *wire.Survey:
		return "Surveyed"
	case *wire.Enqueue, *wire.Pass:
		return "Queued"
	case *wire.List:
		return "Listed"
	case *wire.Alert:
		return "Alerted"
	case *wire.Evict:
		return "Evicted"
	case *wire.Lay:
		return "Laid"
	case *wire.Seek:
		return "Sought"
	case *wire.Examine:
		return "Examined"
	case *wire.Listen:
		return "Listening"
	case *wire.ProbePeers:
		return "PeersProbed"
	case *wire.Inspect:
		return "States"
	case *wire.Prepare:
		return groupKey(m.Group.Name)
	}
	return ""
}

func (g *gate) ask(key string) {
	q := g.open[key]
	if q == nil {
		q = new(questions)
		g.open[key] = q
	}
	q.open++
}

// giveUp notes that nobody waits for the answer to a question any more.
func (g *gate) giveUp(question wire.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.open[answerTo(question)]; q != nil && q.given < q.open {
		q.given++
	}
}

// plan gives the node its part of a group.
func (g *gate) plan(m *wire.Prepare) {
	g.forget(m.Group.Name)
	p := &localGroup{first: m.Group.First, meets: m.Group.Nodes > 1, trace: m.PMI.Trace, address: m.Node.Address, torch: slices.Contains(m.Process.Compat, "torch")}
	reads := make(map[int]bool, len(m.Streams.Stdin))
	for _, rank := range m.Streams.Stdin {
		reads[rank] = true
	}
	ranks := make([]rankRecord, len(m.Ranks))
	for i, r := range m.Ranks {
		s := &ranks[i]
		s.rank, s.group, s.stdin = m.Group.First+r.Rank, p, reads[r.Rank]
		for i := range s.room {
			s.room[i].Store(int64(windowOf(m)))
		}
		p.root = p.root || r.Rank == 0
		p.ranks = append(p.ranks, s)
	}
	if m.Node.Name != "" && !slices.Contains(g.names, m.Node.Name) {
		g.names = append(g.names, m.Node.Name)
	}
	g.groups[m.Group.Name] = p
	g.ranks.Store(newRankTable(slices.Concat(g.ranks.Load().all, p.ranks)))
}

// windowOf is how many bytes of a stream Prepare lets a rank have under way.
func windowOf(m *wire.Prepare) int {
	if m.Streams.Window > 0 {
		return m.Streams.Window
	}
	return wire.Window
}

// forget takes a part away that was not let go.
func (g *gate) forget(group string) {
	p := g.groups[group]
	if p == nil || p.phase >= letGo {
		return
	}
	delete(g.groups, group)
	g.ranks.Store(newRankTable(slices.DeleteFunc(slices.Clone(g.ranks.Load().all), func(s *rankRecord) bool { return s.group == p })))
}

// release takes a Prepare back; nobody waits for the answer.
func (g *gate) release(group string) {
	if q := g.open[groupKey(group)]; q != nil {
		q.given = q.open
	}
	g.forget(group)
}

// letGo lets the ranks of a part go.
func (g *gate) letGo(group string) {
	p := g.groups[group]
	if p == nil {
		return
	}
	g.starts++
	p.phase = letGo
	for _, s := range p.ranks {
		s.life.Store(going)
	}
}

// postpones reports whether something new is kept for the next second, and notes that its end
// is waited for.
func (g *gate) postpones() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range []*pace{&g.positions, &g.changes} {
		if p.kept != nil && !p.awaited {
			p.awaited = true
			return true
		}
	}
	return false
}

// postponed returns what was kept for a second that has come.
func (g *gate) postponed() (all []wire.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range []*pace{&g.positions, &g.changes} {
		if p.kept != nil {
			all = append(all, p.kept)
		}
		p.kept, p.awaited = nil, false
	}
	return all
}

// unseen is how many lines of the helper's log were not let through since it was last asked.
func (g *gate) unseen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.logs.missed
	g.logs.missed, g.logs.kept = 0, nil
	return n
}
