package node

import (
	"slices"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

// NoteSent records a message that is about to be sent to the helper, and what the helper may send because
// of it.
func (v *Validator) NoteSent(m wire.Message) {
	if credit, ok := m.(*wire.Credit); ok {
		v.noteCreditSent(credit)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requestsSent.addRequest(m)
	for _, note := range rules[wire.NumberOf(m)].sent {
		note(v, m)
	}
}

// noteStdinSent records that bytes of mpiexec's stdin are sent to a rank.
func (v *Validator) noteStdinSent(rank, bytes int) {
	if s := v.FindRank(rank); s != nil {
		s.stdinUncredited += bytes
	}
}

// noteFenceResultSent records that the result of a fence is about to be sent. NoteSent does not see it,
// because the frame is encoded once for all nodes.
func (v *Validator) noteFenceResultSent(id fence.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id.Kind != fence.Barrier {
		if name := id.String(); !v.closeFence(name) {
			v.givenUpFences[name] = true
		}
		return
	}
	if p := v.groups[id.Members.Group()]; p != nil {
		p.fenceOpen = false
	}
}

// closeFence removes an open PMIx fence. It returns false if the node has not contributed to it.
func (v *Validator) closeFence(id string) bool {
	open := v.fences[id]
	if open {
		delete(v.fences, id)
		v.openFenceBytes -= len(id)
	}
	return open
}

// noteCreditSent records that a rank gets credit for more output.
func (v *Validator) noteCreditSent(m *wire.Credit) {
	if s := v.FindRank(m.Rank); s != nil {
		s.credit[m.Stream-wire.Stdout].Add(int64(m.Bytes))
	}
}

// stopWaitingFor records that mpiexec no longer waits for the reply to a request.
func (v *Validator) stopWaitingFor(request wire.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requestsSent.abandon(request)
}

// noteGroupPlanned records the ranks that the message m plans for the node.
func (v *Validator) noteGroupPlanned(m *wire.Prepare) {
	v.forgetGroup(m.Group.Name)
	p := &LocalGroup{first: m.Group.First, size: m.Group.Size, hasOtherNodes: m.Group.NodeCount > 1, address: m.Node.Address, torchRendezvous: slices.Contains(m.Process.Compat, "torch")}
	v.settings = m.Settings
	v.sessions = v.sessions || m.Supervision.KeepSessions
	reads := make(map[int]bool, len(m.Streams.Stdin))
	for _, rank := range m.Streams.Stdin {
		reads[rank] = true
	}
	ranks := make([]RankRecord, len(m.Ranks))
	p.ranks = make([]*RankRecord, 0, len(ranks))
	for i, r := range m.Ranks {
		s := &ranks[i]
		s.rank, s.group, s.stdin = m.Group.First+r.Rank, p, reads[r.Rank]
		for i := range s.credit {
			s.credit[i].Store(int64(windowOf(m)))
		}
		p.hasRankZero = p.hasRankZero || r.Rank == 0
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

// windowOf returns how many bytes of one output stream of a rank may be in flight without new credit.
func windowOf(m *wire.Prepare) int {
	if m.Streams.Window > 0 {
		return m.Streams.Window
	}
	return wire.Window
}

// forgetGroup removes a group that was not started.
func (v *Validator) forgetGroup(group string) {
	p := v.groups[group]
	if p == nil || p.phase >= startSent {
		return
	}
	delete(v.groups, group)
	v.ranks.Store(newRankTable(slices.DeleteFunc(slices.Clone(v.ranks.Load().all), func(s *RankRecord) bool { return s.group == p })))
}

// noteGroupCancelled removes a group that CancelPrepare withdraws. mpiexec no longer waits for the reply
// to its Prepare.
func (v *Validator) noteGroupCancelled(group string) {
	v.requestsSent.abandonGroup(group)
	v.forgetGroup(group)
}

// noteGroupStarted records that mpiexec is sending Start, the message that starts the ranks of a group.
func (v *Validator) noteGroupStarted(group string) {
	p := v.groups[group]
	if p == nil {
		return
	}
	v.progress.groupsStarted++
	p.phase = startSent
	for _, s := range p.ranks {
		s.phase.Store(rankReleased)
	}
}

// noteGroupKilled records that mpiexec has ordered the ranks of a group to end.
func (v *Validator) noteGroupKilled(m *wire.KillGroup) {
	if p := v.groups[m.Group]; p != nil {
		p.phase = killSent
	}
}

// noteEndSent records that mpiexec has ordered the helper to end the job.
func (v *Validator) noteEndSent(*wire.EndJob) {
	if v.progress.endSent.IsZero() {
		v.progress.endSent = v.now()
	}
}

// mustStartTimer calls queueState.mustStartTimer with the lock held.
func (v *Validator) mustStartTimer() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.queue.mustStartTimer()
}

// takePostponed calls queueState.takePostponed with the lock held.
func (v *Validator) takePostponed() []wire.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.queue.takePostponed()
}

// takeDroppedLogs returns how many lines of the helper's log were dropped since the last call.
func (v *Validator) takeDroppedLogs() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.logs.dropped
	v.logs.dropped, v.logs.postponed = 0, nil
	return n
}
