package node

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/job"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// This file checks messages about ranks: a host may send them only about its own (rule TRUST-3).

// FindRank returns the record of a rank by its number in the job. It returns nil if the rank is not on
// the node.
func (v *Validator) FindRank(rank int) *RankRecord { return v.ranks.Load().find(rank) }

// A rankTable maps rank numbers of the job to the records of a node's ranks. The numbers are usually consecutive. In
// that case a rankTable uses a slice.
type rankTable struct {
	all        []*RankRecord
	denseFirst int                 // number of dense[0]
	dense      []*RankRecord       // nil where the node has no such rank; the same slice as all if there are no gaps
	sparse     map[int]*RankRecord // used instead of dense if the ranks are too far apart; else nil
}

// maxDenseFactor is the largest length of rankTable.dense, as a multiple of the number of ranks on the node.
const maxDenseFactor = 4

func newRankTable(all []*RankRecord) *rankTable {
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
		t.dense = make([]*RankRecord, span)
		for _, s := range all {
			t.dense[s.rank-t.denseFirst] = s
		}
		return t
	}
	t.sparse = make(map[int]*RankRecord, len(all))
	for _, s := range all {
		t.sparse[s.rank] = s
	}
	return t
}

func byRank(a, b *RankRecord) int { return a.rank - b.rank }

// find returns the record of a rank, or nil if there is none.
func (t *rankTable) find(rank int) *RankRecord {
	if t.sparse != nil {
		return t.sparse[rank]
	}
	if i := uint(rank) - uint(t.denseFirst); i < uint(len(t.dense)) {
		return t.dense[i]
	}
	return nil
}

// checkOutput checks a piece of a rank's output. There may be output after the rank has exited, because
// processes that it started may still write.
func (v *Validator) checkOutput(m *wire.Data) error {
	s := v.FindRank(m.Rank)
	if s == nil {
		return NotOurRank(m.Rank)
	}
	if m.Stream != wire.Stdout && m.Stream != wire.Stderr {
		return InvalidValue(m, "stream", int(m.Stream))
	}
	switch s.phase.Load() {
	case rankPlanned, rankReleased:
		return TooEarly(m)
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

// checkStdinClosed checks the report that a rank no longer reads its stdin.
func (v *Validator) checkStdinClosed(m *wire.Data) (wire.Message, error) {
	s, err := v.findStdinReader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case len(m.Bytes) > 0:
		return nil, InvalidValue(m, "stream", int(m.Stream))
	case s.stdinClosed:
		return nil, ErrNotAsked
	}
	s.stdinClosed = true
	if s.phase.Load() == rankEnded {
		return nil, nil
	}
	return m, nil
}

// checkCredit checks that a rank does not report more bytes of stdin as read than were sent to it.
func (v *Validator) checkCredit(m *wire.Credit) (wire.Message, error) {
	s, err := v.findStdinReader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case m.Stream != wire.Stdin:
		return nil, InvalidValue(m, "stream", int(m.Stream))
	case m.Bytes < 0 || m.Bytes > s.stdinUncredited:
		return nil, InvalidValue(m, "bytes", m.Bytes)
	}
	s.stdinUncredited -= m.Bytes
	if s.phase.Load() == rankEnded || s.stdinClosed {
		return nil, nil
	}
	return m, nil
}

// findStdinReader returns the record of a rank that receives mpiexec's stdin. The rank may have exited. The helper
// sends m from another goroutine than the report of the exit, so m may arrive after it.
func (v *Validator) findStdinReader(m wire.Message, rank int) (*RankRecord, error) {
	s := v.FindRank(rank)
	if s == nil {
		return nil, NotOurRank(rank)
	}
	err := s.CheckStarted(m)
	if err == nil && !s.stdin {
		err = ErrNotAsked
	}
	return s, err
}

// checkRankStarted checks the report that a rank runs or could not be started. There is one such report for each rank.
func (v *Validator) checkRankStarted(m *wire.Started) (wire.Message, error) {
	s := v.FindRank(m.Rank)
	if s == nil {
		return nil, NotOurRank(m.Rank)
	}
	switch s.phase.Load() {
	case rankPlanned:
		return nil, TooEarly(m)
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
		return nil, InvalidValue(m, "PID", m.PID)
	}
	s.phase.Store(rankRunning)
	return m, nil
}

// checkExited checks the report that a rank has exited. There is one such report for each rank that ran.
func (v *Validator) checkExited(m *wire.Exited) error {
	e := &m.Exit
	if err := v.checkAlive(m, e.Rank); err != nil {
		return err
	}
	switch {
	case e.Code < 0 || e.Code > 255:
		return InvalidValue(m, "code", e.Code)
	case e.Signal < 0 || e.Signal > 64:
		return InvalidValue(m, "signal", e.Signal)
	case e.Code > 0 && e.Signal > 0:
		return InvalidValue(m, "code", fmt.Sprint(e.Code, " and signal ", e.Signal))
	}
	v.FindRank(e.Rank).phase.Store(rankEnded)
	return nil
}

// checkAlive checks that a rank is on the node, was started and has not exited.
func (v *Validator) checkAlive(m wire.Message, rank int) error {
	s := v.FindRank(rank)
	if s == nil {
		return NotOurRank(rank)
	}
	switch s.phase.Load() {
	case rankPlanned, rankReleased:
		return TooEarly(m)
	case rankFailed, rankEnded:
		return errEnded(rank)
	}
	return nil
}

// checkPMI checks a report of the node's PMI server. The report concerns one rank or, if it says that a barrier can
// never complete, several ranks.
func (v *Validator) checkPMI(m *wire.PMIReport) error {
	switch {
	case m.Event < wire.PMIAborted || m.Event > wire.PMIxWaits:
		return InvalidValue(m, "event", int(m.Event))
	case m.Code < 0 || m.Code > 255:
		return InvalidValue(m, "code", m.Code)
	case m.Event == wire.PMIBarrierBroken && m.Rank == -1:
		return v.CheckStarted(m)
	}
	return v.checkAlive(m, m.Rank)
}

// checkFence checks a message about a fence. In this message, the node contributes data of its ranks, or gives up the
// fence.
func (v *Validator) checkFence(m *wire.Fence) (wire.Message, error) {
	id, err := fence.ParseID(m.ID)
	switch {
	case err != nil:
		return nil, InvalidValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)]))
	case m.Joined && !m.GivenUp, m.GivenUp && (id.Kind == fence.Barrier || len(m.Blob) > 0):
		return nil, InvalidValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)])+" (too late)")
	case id.Kind == fence.Barrier:
		return v.checkPMIBarrier(m, id)
	}
	return v.checkPMIxFence(m, id)
}

// These are the largest number of PMIx fences that a node may have open, and the largest total size of
// their IDs (rule TRUST-29).
const (
	maxOpenFences     = 1 << 10
	maxFenceNameBytes = 4 << 20 // bytes of their IDs
)

// checkPMIxFence checks a contribution to a PMIx fence. At least one group in the fence must have ranks on the
// node, and the node may contribute only once. The fence coordinator checks that all members exist and to which
// groups they belong.
func (v *Validator) checkPMIxFence(m *wire.Fence, id fence.ID) (wire.Message, error) {
	member, groups := false, id.Members.Groups()
	construct := id.Kind.WithoutTag() == fence.Construct // goes to mpiexec even if all ranks are on one node: mpiexec assigns the number
	for _, group := range groups {
		p := v.groups[group]
		member = member || p != nil && (p.hasOtherNodes || len(groups) > 1 || construct) && p.phase >= startSent
		if p != nil && p.phase == killSent {
			return nil, nil
		}
	}
	switch {
	case !member:
		return nil, ErrNotAsked
	case m.Joined && !v.fences[m.ID]: // the fence's result has crossed it
		return nil, nil
	case m.Joined:
		return v.UnlessDrained(v.UnlessEnding(m))
	case v.givenUpFences[m.ID]: // the node joins the closed fence after all, or reports that it will not
		delete(v.givenUpFences, m.ID)
		return v.UnlessDrained(v.UnlessEnding(m))
	case v.fences[m.ID]:
		return nil, Violationf("the host opened 2 fences at once")
	case len(v.fences) >= maxOpenFences:
		return nil, Violationf("the host opened %d fences at once", len(v.fences)+1)
	case v.openFenceBytes+len(m.ID) > maxFenceNameBytes:
		return nil, Violationf("the host opened fences whose names have %d bytes in total", v.openFenceBytes+len(m.ID))
	}
	admitted, err := v.UnlessDrained(v.UnlessEnding(m))
	if admitted != nil {
		v.fences[m.ID] = true
		v.openFenceBytes += len(m.ID)
	}
	return admitted, err
}

// checkPMIBarrier checks a contribution to a PMI barrier. The barriers of a group come in order, one at a time, and all
// ranks of the group take part in each.
func (v *Validator) checkPMIBarrier(m *wire.Fence, id fence.ID) (wire.Message, error) {
	n, p := id.Number, v.groups[id.Members.Group()]
	switch {
	case p == nil || !p.hasOtherNodes:
		return nil, ErrNotAsked
	case p.phase < startSent:
		return nil, TooEarly(m)
	case p.phase == groupDrained:
		return nil, errLate(m)
	case p.fenceOpen || n != p.nextFence:
		return nil, Violationf("the host opened %d fences at once", p.openFenceCount(n))
	}
	p.nextFence++
	p.fenceOpen = true
	if p.phase == killSent {
		return nil, nil
	}
	return v.UnlessEnding(m)
}

// openFenceCount returns how many fences the node would have open if it opened fence n as well, for the text of a
// violation.
func (p *LocalGroup) openFenceCount(n int) int {
	first := p.nextFence
	if p.fenceOpen {
		first--
	}
	return max(2, n-first+1)
}

// UnlessEnding returns m if mpiexec has not ordered the helper to end the job. Otherwise it returns nil, because
// the helper may have sent m before it received the order. If m is too late for that, it returns a violation.
func (v *Validator) UnlessEnding(m wire.Message) (wire.Message, error) {
	if v.progress.endSent.IsZero() {
		return m, nil
	}
	return nil, v.checkLate(m, v.progress.endSent)
}

// CheckRankRequest checks a request of a rank. All kinds of requests that it checks share one sequence of
// IDs and one limit of requests without a reply.
func (v *Validator) CheckRankRequest(m wire.Message, id int) (wire.Message, error) {
	if err := v.CheckStarted(m); err != nil {
		return nil, err
	}
	if err := v.requests.CheckNext(m, id, maxUnanswered, "requests"); err != nil {
		return nil, err
	}
	return v.requests.Count(v.UnlessDrained(v.UnlessEnding(m)))
}

// CountRankReply records the reply to a request that CheckRankRequest has accepted. Call it before the
// reply is sent.
func (v *Validator) CountRankReply() { v.requests.CountReply() }

// checkDrained checks the report that no process and no output of the job is left on the node. All started
// ranks must have exited. Unless mpiexec has ended the job or the group, ranks that were told to start must have exited,
// too.
func (v *Validator) checkDrained(m *wire.Drained) error {
	if err := v.CountEnd(m, &v.progress.drained); err != nil {
		return err
	}
	ranks := v.ranks.Load()
	for _, s := range ranks.all {
		phase := s.phase.Load()
		if phase == rankRunning || phase == rankReleased && v.progress.endSent.IsZero() && s.group.phase != killSent {
			return Violationf("the host sent the message Drained before it reported the end of rank %d", s.rank)
		}
	}
	if len(m.KeptSessions) > 0 && !v.sessions {
		return ErrNotAsked
	}
	for _, o := range m.Orphans {
		if o.Rank != -1 && ranks.find(o.Rank) == nil {
			return NotOurRank(o.Rank)
		}
	}
	v.clearGroups()
	return nil
}

// clearGroups marks all started groups as drained. Ranks that did not start because the job ended early are
// recorded as failed.
func (v *Validator) clearGroups() {
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

// UnlessDrained returns nil and err if err is not nil, and nil and nil if no rank is left on the node. Otherwise it
// returns m and nil.
func (v *Validator) UnlessDrained(m wire.Message, err error) (wire.Message, error) {
	if err != nil || v.progress.drained == v.progress.groupsStarted {
		return nil, err
	}
	return m, nil
}
