package node

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/job"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// This file is what a validator knows of ranks: a host is believed about its own alone (TRUST-3).

// findRank finds a rank of the node; nil: it has no such rank.
func (v *validator) findRank(rank int) *rankRecord { return v.ranks.Load().find(rank) }

// A rankTable is the ranks of a node, by their numbers in the job. Mostly they are neighbours,
// and then finding one is looking into a list.
type rankTable struct {
	all        []*rankRecord
	denseFirst int                 // number of row[0]
	dense      []*rankRecord       // nil where the node has no such rank; all, if there are no gaps
	sparse     map[int]*rankRecord // of ranks that are too far apart for a row; nil: they are not
}

// maxDenseFactor is how long a row may be, in times of the ranks in it.
const maxDenseFactor = 4

func newRankTable(all []*rankRecord) *rankTable {
	t := &rankTable{all: all}
	if len(all) == 0 {
		return t
	}
	last := slices.MaxFunc(all, byRank).rank
	t.denseFirst = slices.MinFunc(all, byRank).rank
	if last-t.denseFirst+1 == len(all) && slices.IsSortedFunc(all, byRank) {
		t.dense = all
		return t
	}
	if span := last - t.denseFirst + 1; span <= maxDenseFactor*len(all) {
		t.dense = make([]*rankRecord, span)
		for _, s := range all {
			t.dense[s.rank-t.denseFirst] = s
		}
		return t
	}
	t.sparse = make(map[int]*rankRecord, len(all))
	for _, s := range all {
		t.sparse[s.rank] = s
	}
	return t
}

func byRank(a, b *rankRecord) int { return a.rank - b.rank }

// find finds a rank; nil: there is none.
func (t *rankTable) find(rank int) *rankRecord {
	if t.sparse != nil {
		return t.sparse[rank]
	}
	if i := uint(rank) - uint(t.denseFirst); i < uint(len(t.dense)) {
		return t.dense[i]
	}
	return nil
}

// checkOutput judges a piece of a rank's output. A rank that is over may have left somebody
// behind who still writes.
func (v *validator) checkOutput(m *wire.Data) error {
	s := v.findRank(m.Rank)
	if s == nil {
		return errNotOurRank(m.Rank)
	}
	if m.Stream != wire.Stdout && m.Stream != wire.Stderr {
		return errValue(m, "stream", int(m.Stream))
	}
	switch s.phase.Load() {
	case rankPlanned, rankReleased:
		return errEarly(m)
	case rankFailed:
		return errEnded(m.Rank)
	}
	i := m.Stream - wire.Stdout
	if s.outputEnded[i] || s.credit[i].Add(-int64(len(m.Bytes))) < 0 {
		return errTooMuch
	}
	s.outputEnded[i] = len(m.Bytes) == 0
	return nil
}

// checkStdinClosed hears that nobody reads what is sent to a rank any more.
func (v *validator) checkStdinClosed(m *wire.Data) (wire.Message, error) {
	s, err := v.findStdinReader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case len(m.Bytes) > 0:
		return nil, errValue(m, "stream", int(m.Stream))
	case s.stdinClosed:
		return nil, errNotAsked
	}
	s.stdinClosed = true
	if s.phase.Load() == rankEnded {
		return nil, nil
	}
	return m, nil
}

// checkCredit hears that a rank has read, never more than it was sent.
func (v *validator) checkCredit(m *wire.Credit) (wire.Message, error) {
	s, err := v.findStdinReader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case m.Stream != wire.Stdin:
		return nil, errValue(m, "stream", int(m.Stream))
	case m.Bytes < 0 || m.Bytes > s.stdinUncredited:
		return nil, errValue(m, "bytes", m.Bytes)
	}
	s.stdinUncredited -= m.Bytes
	if s.phase.Load() == rankEnded || s.stdinClosed {
		return nil, nil
	}
	return m, nil
}

// findStdinReader finds a rank that gets our standard input. It may be over by now: what it read
// before is told by another goroutine there.
func (v *validator) findStdinReader(m wire.Message, rank int) (*rankRecord, error) {
	s := v.findRank(rank)
	switch {
	case s == nil:
		return nil, errNotOurRank(rank)
	case s.phase.Load() < rankRunning:
		return nil, errEarly(m)
	case s.phase.Load() == rankFailed:
		return nil, errEnded(rank)
	case !s.stdin:
		return nil, errNotAsked
	}
	return s, nil
}

// checkRankStarted hears, once, that a rank runs, or why it does not.
func (v *validator) checkRankStarted(m *wire.Started) (wire.Message, error) {
	s := v.findRank(m.Rank)
	if s == nil {
		return nil, errNotOurRank(m.Rank)
	}
	switch s.phase.Load() {
	case rankPlanned:
		return nil, errEarly(m)
	case rankReleased:
	default:
		return nil, errEnded(m.Rank)
	}
	if m.Err != "" {
		m.Code = job.StartFailureCode(m.Code)
		s.phase.Store(rankFailed)
		return m, nil
	}
	if m.PID <= 0 {
		return nil, errValue(m, "PID", m.PID)
	}
	s.phase.Store(rankRunning)
	return m, nil
}

// checkExited hears, once, how a rank that ran has ended.
func (v *validator) checkExited(m *wire.Exited) error {
	e := &m.Exit
	if err := v.checkAlive(m, e.Rank); err != nil {
		return err
	}
	switch {
	case e.Code < 0 || e.Code > 255:
		return errValue(m, "code", e.Code)
	case e.Signal < 0 || e.Signal > 64:
		return errValue(m, "signal", e.Signal)
	case e.Code > 0 && e.Signal > 0:
		return errValue(m, "code", fmt.Sprint(e.Code, " and signal ", e.Signal))
	}
	v.findRank(e.Rank).phase.Store(rankEnded)
	return nil
}

// checkAlive sees that a rank is the node's, runs and has not ended.
func (v *validator) checkAlive(m wire.Message, rank int) error {
	s := v.findRank(rank)
	if s == nil {
		return errNotOurRank(rank)
	}
	switch s.phase.Load() {
	case rankPlanned, rankReleased:
		return errEarly(m)
	case rankFailed, rankEnded:
		return errEnded(rank)
	}
	return nil
}

// checkPMI hears what the PMI server there has noticed: about a rank, or, that a barrier can never
// be complete, about several.
func (v *validator) checkPMI(m *wire.PMIReport) error {
	switch {
	case m.Event < wire.PMIAborted || m.Event > wire.PMIxWaits:
		return errValue(m, "event", int(m.Event))
	case m.Code < 0 || m.Code > 255:
		return errValue(m, "code", m.Code)
	case m.Event == wire.PMIBarrierBroken && m.Rank == -1:
		return v.progress.checkStarted(m)
	}
	return v.checkAlive(m, m.Rank)
}

// checkTrace hears what a rank said on PMI, if that is wanted; also what it said at its very end.
func (v *validator) checkTrace(m *wire.PMITrace) error {
	s := v.findRank(m.Rank)
	switch {
	case s == nil:
		return errNotOurRank(m.Rank)
	case !s.group.trace:
		return errNotAsked
	case s.phase.Load() == rankPlanned:
		return errEarly(m)
	}
	return nil
}

// checkFence hears what the ranks here bring to a fence.
func (v *validator) checkFence(m *wire.Fence) (wire.Message, error) {
	id, err := fence.ParseID(m.ID)
	switch {
	case err != nil:
		return nil, errValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)]))
	case m.Joined && !m.Late, m.Late && (id.Kind == fence.Barrier || len(m.Blob) > 0):
		return nil, errValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)])+", which is late")
	case id.Kind == fence.Barrier:
		return v.checkPMIBarrier(m, id)
	}
	return v.checkPMIxFence(m, id)
}

// Bounds of the fences of PMIx that a node may have open (TRUST-29).
const (
	maxOpenFences     = 1 << 10
	maxFenceNameBytes = 4 << 20 // bytes of their names
)

// checkPMIxFence hears of a fence of PMIx: of any ranks of groups that have some here, and each once.
// That all members are there, and in which groups, the hub sees.
func (v *validator) checkPMIxFence(m *wire.Fence, id fence.ID) (wire.Message, error) {
	here, groups := false, id.Members.Groups()
	made := id.Kind.WithoutTag() == fence.Construct // also of ranks of one node: mpiexec has its number
	for _, group := range groups {
		p := v.groups[group]
		here = here || p != nil && (p.hasOtherNodes || len(groups) > 1 || made) && p.phase >= startSent
		if p != nil && p.phase == killSent {
			return nil, nil
		}
	}
	switch {
	case !here:
		return nil, errNotAsked
	case m.Joined && !v.fences[m.ID]: // the answer has crossed it
		return nil, nil
	case m.Joined:
		return v.unlessDrained(v.unlessEnding(m))
	case v.givenUpFences[m.ID]: // it has come to it after all, or says that it will not
		delete(v.givenUpFences, m.ID)
		return v.unlessDrained(v.unlessEnding(m))
	case v.fences[m.ID]:
		return nil, violation("it sent 2 fences at once")
	case len(v.fences) >= maxOpenFences:
		return nil, violation("it sent %d fences at once", len(v.fences)+1)
	case v.openFenceBytes+len(m.ID) > maxFenceNameBytes:
		return nil, violation("it sent fences with names of %d bytes", v.openFenceBytes+len(m.ID))
	}
	answer, err := v.unlessDrained(v.unlessEnding(m))
	if answer != nil {
		v.fences[m.ID] = true
		v.openFenceBytes += len(m.ID)
	}
	return answer, err
}

// checkPMIBarrier hears of one of PMI: one at a time of each group, in their order, and only of whole
// groups.
func (v *validator) checkPMIBarrier(m *wire.Fence, id fence.ID) (wire.Message, error) {
	n, p := id.Number, v.groups[id.Members.Group()]
	switch {
	case p == nil || !p.hasOtherNodes:
		return nil, errNotAsked
	case p.phase < startSent:
		return nil, errEarly(m)
	case p.phase == groupDrained:
		return nil, errLate(m)
	case p.fenceOpen || n != p.nextFence:
		return nil, violation("it sent %d fences at once", p.openFenceCount(n))
	}
	p.nextFence++
	p.fenceOpen = true
	if p.phase == killSent {
		return nil, nil
	}
	return v.unlessEnding(m)
}

// openFenceCount is how many fences a node has begun when it comes to one that it may not begin.
func (p *localGroup) openFenceCount(n int) int {
	first := p.nextFence
	if p.fenceOpen {
		first--
	}
	return max(2, n-first+1)
}

// unlessEnding drops what nobody wants to hear at the end. It may have crossed that.
func (v *validator) unlessEnding(m wire.Message) (wire.Message, error) {
	if v.progress.endSent.IsZero() {
		return m, nil
	}
	return nil, v.checkLate(m, v.progress.endSent)
}

// checkRequest hears what a rank asks for.
func (v *validator) checkRequest(m wire.Message, id int) (wire.Message, error) {
	if err := v.progress.checkStarted(m); err != nil {
		return nil, err
	}
	if err := v.requests.checkNext(m, id); err != nil {
		return nil, err
	}
	m, err := v.unlessDrained(v.unlessEnding(m))
	if m != nil {
		v.requests.unanswered++
	}
	return m, err
}

// checkSpawn hears that a rank wants others to be started. One that has ended meanwhile wants
// nothing any more.
func (v *validator) checkSpawn(m *wire.Spawn) (wire.Message, error) {
	p := v.groups[m.Request.Group]
	if p == nil {
		return nil, errNotOurRank(m.Request.Rank)
	}
	rank := p.first + m.Request.Rank
	s := v.findRank(rank)
	switch {
	case s == nil || s.group != p:
		return nil, errNotOurRank(rank)
	case s.phase.Load() < rankRunning:
		return nil, errEarly(m)
	case s.phase.Load() == rankFailed:
		return nil, errEnded(rank)
	}
	answer, err := v.checkRequest(m, m.ID)
	if answer != nil && s.phase.Load() == rankEnded {
		v.requests.unanswered--
		return nil, nil
	}
	return answer, err
}

// checkDrained hears that nothing of the job is left here, after the end of each rank: all that were
// let go have run, unless we have ended the job, or their group, before.
func (v *validator) checkDrained(m *wire.Drained) error {
	if err := v.progress.countEnd(m, &v.progress.drained); err != nil {
		return err
	}
	ranks := v.ranks.Load()
	for _, s := range ranks.all {
		life := s.phase.Load()
		if life == rankRunning || life == rankReleased && v.progress.endSent.IsZero() && s.group.phase != killSent {
			return violation("it sent Drained before the end of rank %d", s.rank)
		}
	}
	if len(m.KeptSessions) > 0 && !v.sessions {
		return errNotAsked
	}
	for _, o := range m.Orphans {
		if o.Rank != -1 && ranks.find(o.Rank) == nil {
			return errNotOurRank(o.Rank)
		}
	}
	v.clearGroups()
	return nil
}

// clearGroups notes that nothing of what was let go is left: an early end has kept some ranks from
// starting.
func (v *validator) clearGroups() {
	for _, p := range v.groups {
		if p.phase < startSent {
			continue
		}
		p.phase = groupDrained
		for _, s := range p.ranks {
			s.phase.CompareAndSwap(rankReleased, rankFailed)
		}
	}
}

// unlessDrained drops what no rank can mean any more.
func (v *validator) unlessDrained(m wire.Message, err error) (wire.Message, error) {
	if err != nil || v.progress.drained == v.progress.groupsStarted {
		return nil, err
	}
	return m, nil
}
