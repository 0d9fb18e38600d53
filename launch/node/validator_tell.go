package node

import (
	"slices"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

// tell notes what is about to be said to the helper, and what it may say because of that.
func (v *validator) tell(m wire.Message) {
	if credit, ok := m.(*wire.Credit); ok {
		v.grant(credit)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if key := answerTo(m); key != "" {
		v.questions.ask(key)
	}
	switch m := m.(type) {
	case *wire.Prepare:
		v.plan(m)
	case *wire.Release:
		v.release(m.Group)
	case *wire.Start:
		v.letGo(m.Group)
	case *wire.Prune:
		if p := v.groups[m.Group]; p != nil {
			p.phase = pruned
		}
	case *wire.Stage:
		v.cargo = &cargoHold{parcels: len(m.Parcels), here: m.Here}
	case *wire.End:
		if v.course.ended.IsZero() {
			v.course.ended = v.now()
		}
	case *wire.Bye, *wire.Renew:
		v.course.left = v.now()
	case *wire.Answer:
		v.course.asking = false
	case *wire.Enqueue:
		v.queue.waiting = true
	case *wire.Dequeue:
		v.queue.waiting, v.queue.dequeued = false, v.now()
	case *wire.Watch:
		v.queue.watched = true
	case *wire.Data:
		v.feed(m.Rank, m.Len())
	case *wire.Feed:
		for _, rank := range m.Ranks {
			v.feed(rank, len(m.Bytes))
		}
	case *wire.Named, *wire.Spawned, *wire.Peered:
		v.requests.unheard--
	case *wire.Notified:
		v.notices.unheard--
	case *wire.Uttered:
		v.texts.unheard--
	case *wire.Fetch:
		v.fetches.asked[m.ID] = true
	case *wire.Fetched:
		v.fetches.unheard--
	}
}

// feed notes that a rank is sent so many bytes of our standard input.
func (v *validator) feed(rank, bytes int) {
	if s := v.rank(rank); s != nil {
		s.fed += bytes
	}
}

// tellFenced is tell for the answer to a fence, which is encoded once for all.
func (v *validator) tellFenced(id fence.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id.Kind != fence.Barrier {
		if name := id.String(); !v.closeFence(name) {
			v.lateFences[name] = true
		}
		return
	}
	if p := v.groups[id.Members.Group()]; p != nil {
		p.fencing = false
	}
}

// closeFence forgets a fence of PMIx; false: the node has not come to it.
func (v *validator) closeFence(id string) bool {
	open := v.fences[id]
	if open {
		delete(v.fences, id)
		v.naming -= len(id)
	}
	return open
}

// grant notes leave for more output.
func (v *validator) grant(m *wire.Credit) {
	if s := v.rank(m.Rank); s != nil {
		s.room[m.Stream-wire.Stdout].Add(int64(m.Bytes))
	}
}

// giveUp notes that nobody waits for the answer to a question any more.
func (v *validator) giveUp(question wire.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.questions.giveUp(answerTo(question))
}

// plan gives the node its part of a group.
func (v *validator) plan(m *wire.Prepare) {
	v.forget(m.Group.Name)
	p := &localGroup{first: m.Group.First, size: m.Group.Size, meets: m.Group.Nodes > 1, trace: m.PMI.Trace, address: m.Node.Address, torch: slices.Contains(m.Process.Compat, "torch")}
	v.samples = v.samples || m.Supervision.Samples
	v.sessions = v.sessions || m.Supervision.Sessions
	reads := make(map[int]bool, len(m.Streams.Stdin))
	for _, rank := range m.Streams.Stdin {
		reads[rank] = true
	}
	ranks := make([]rankRecord, len(m.Ranks))
	p.ranks = make([]*rankRecord, 0, len(ranks))
	for i, r := range m.Ranks {
		s := &ranks[i]
		s.rank, s.group, s.stdin = m.Group.First+r.Rank, p, reads[r.Rank]
		for i := range s.room {
			s.room[i].Store(int64(windowOf(m)))
		}
		p.root = p.root || r.Rank == 0
		p.ranks = append(p.ranks, s)
	}
	if m.Node.Name != "" && !slices.Contains(v.names, m.Node.Name) {
		v.names = append(v.names, m.Node.Name)
	}
	v.groups[m.Group.Name] = p
	all := p.ranks
	if others := v.ranks.Load().all; len(others) > 0 {
		all = slices.Concat(others, p.ranks)
	}
	v.ranks.Store(newRankTable(all))
}

// windowOf is how many bytes of a stream Prepare lets a rank have under way.
func windowOf(m *wire.Prepare) int {
	if m.Streams.Window > 0 {
		return m.Streams.Window
	}
	return wire.Window
}

// forget takes a part away that was not let go.
func (v *validator) forget(group string) {
	p := v.groups[group]
	if p == nil || p.phase >= letGo {
		return
	}
	delete(v.groups, group)
	v.ranks.Store(newRankTable(slices.DeleteFunc(slices.Clone(v.ranks.Load().all), func(s *rankRecord) bool { return s.group == p })))
}

// release takes a Prepare back; nobody waits for the answer.
func (v *validator) release(group string) {
	v.questions.giveUpAll(groupKey(group))
	v.forget(group)
}

// letGo lets the ranks of a part go.
func (v *validator) letGo(group string) {
	p := v.groups[group]
	if p == nil {
		return
	}
	v.course.starts++
	p.phase = letGo
	for _, s := range p.ranks {
		s.life.Store(going)
	}
}

// postpones reports whether something new is kept for the next second, and notes that its end
// is waited for.
func (v *validator) postpones() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.queue.postpones()
}

// postponed returns what was kept for a second that has come.
func (v *validator) postponed() []wire.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.queue.postponed()
}

// unseen is how many lines of the helper's log were not let through since it was last asked.
func (v *validator) unseen() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.logs.missed
	v.logs.missed, v.logs.kept = 0, nil
	return n
}
