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

// rank finds a rank of the node; nil: it has no such rank.
func (v *validator) rank(rank int) *rankRecord { return v.ranks.Load().find(rank) }

// A rankTable is the ranks of a node, by their numbers in the job. Mostly they are neighbours,
// and then finding one is looking into a list.
type rankTable struct {
	all   []*rankRecord
	first int                 // number of row[0]
	row   []*rankRecord       // nil where the node has no such rank; all, if there are no gaps
	far   map[int]*rankRecord // of ranks that are too far apart for a row; nil: they are not
}

// maxGaps is how long a row may be, in times of the ranks in it.
const maxGaps = 4

func newRankTable(all []*rankRecord) *rankTable {
	t := &rankTable{all: all}
	if len(all) == 0 {
		return t
	}
	last := slices.MaxFunc(all, byRank).rank
	t.first = slices.MinFunc(all, byRank).rank
	if last-t.first+1 == len(all) && slices.IsSortedFunc(all, byRank) {
		t.row = all
		return t
	}
	if span := last - t.first + 1; span <= maxGaps*len(all) {
		t.row = make([]*rankRecord, span)
		for _, s := range all {
			t.row[s.rank-t.first] = s
		}
		return t
	}
	t.far = make(map[int]*rankRecord, len(all))
	for _, s := range all {
		t.far[s.rank] = s
	}
	return t
}

func byRank(a, b *rankRecord) int { return a.rank - b.rank }

// find finds a rank; nil: there is none.
func (t *rankTable) find(rank int) *rankRecord {
	if t.far != nil {
		return t.far[rank]
	}
	if i := uint(rank) - uint(t.first); i < uint(len(t.row)) {
		return t.row[i]
	}
	return nil
}

// output judges a piece of a rank's output. A rank that is over may have left somebody
// behind who still writes.
func (v *validator) output(m *wire.Data) error {
	s := v.rank(m.Rank)
	if s == nil {
		return errStranger(m.Rank)
	}
	if m.Stream != wire.Stdout && m.Stream != wire.Stderr {
		return errValue(m, "stream", int(m.Stream))
	}
	switch s.life.Load() {
	case planned, going:
		return errEarly(m)
	case failed:
		return errEnded(m.Rank)
	}
	i := m.Stream - wire.Stdout
	if s.shut[i] || s.room[i].Add(-int64(len(m.Bytes))) < 0 {
		return errTooMuch
	}
	s.shut[i] = len(m.Bytes) == 0
	return nil
}

// noInput hears that nobody reads what is sent to a rank any more.
func (v *validator) noInput(m *wire.Data) (wire.Message, error) {
	s, err := v.reader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case len(m.Bytes) > 0:
		return nil, errValue(m, "stream", int(m.Stream))
	case s.deaf:
		return nil, errUnasked
	}
	s.deaf = true
	if s.life.Load() == over {
		return nil, nil
	}
	return m, nil
}

// credit hears that a rank has read, never more than it was sent.
func (v *validator) credit(m *wire.Credit) (wire.Message, error) {
	s, err := v.reader(m, m.Rank)
	switch {
	case err != nil:
		return nil, err
	case m.Stream != wire.Stdin:
		return nil, errValue(m, "stream", int(m.Stream))
	case m.Bytes < 0 || m.Bytes > s.fed:
		return nil, errValue(m, "bytes", m.Bytes)
	}
	s.fed -= m.Bytes
	if s.life.Load() == over || s.deaf {
		return nil, nil
	}
	return m, nil
}

// reader finds a rank that gets our standard input. It may be over by now: what it read
// before is told by another goroutine there.
func (v *validator) reader(m wire.Message, rank int) (*rankRecord, error) {
	s := v.rank(rank)
	switch {
	case s == nil:
		return nil, errStranger(rank)
	case s.life.Load() < running:
		return nil, errEarly(m)
	case s.life.Load() == failed:
		return nil, errEnded(rank)
	case !s.stdin:
		return nil, errUnasked
	}
	return s, nil
}

// started hears, once, that a rank runs, or why it does not.
func (v *validator) started(m *wire.Started) (wire.Message, error) {
	s := v.rank(m.Rank)
	if s == nil {
		return nil, errStranger(m.Rank)
	}
	switch s.life.Load() {
	case planned:
		return nil, errEarly(m)
	case going:
	default:
		return nil, errEnded(m.Rank)
	}
	if m.Err != "" {
		m.Code = job.StartCode(m.Code)
		s.life.Store(failed)
		return m, nil
	}
	if m.PID <= 0 {
		return nil, errValue(m, "PID", m.PID)
	}
	s.life.Store(running)
	return m, nil
}

// exited hears, once, how a rank that ran has ended.
func (v *validator) exited(m *wire.Exited) error {
	e := &m.Exit
	if err := v.alive(m, e.Rank); err != nil {
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
	v.rank(e.Rank).life.Store(over)
	return nil
}

// alive sees that a rank is the node's, runs and has not ended.
func (v *validator) alive(m wire.Message, rank int) error {
	s := v.rank(rank)
	if s == nil {
		return errStranger(rank)
	}
	switch s.life.Load() {
	case planned, going:
		return errEarly(m)
	case failed, over:
		return errEnded(rank)
	}
	return nil
}

// pmi hears what the PMI server there has noticed: about a rank, or, that a barrier can never
// be complete, about several.
func (v *validator) pmi(m *wire.PMI) error {
	switch {
	case m.Event < wire.PMIAborted || m.Event > wire.PMIxWaits:
		return errValue(m, "event", int(m.Event))
	case m.Code < 0 || m.Code > 255:
		return errValue(m, "code", m.Code)
	case m.Event == wire.PMIBroken && m.Rank == -1:
		return v.course.begun(m)
	}
	return v.alive(m, m.Rank)
}

// trace hears what a rank said on PMI, if that is wanted; also what it said at its very end.
func (v *validator) trace(m *wire.Trace) error {
	s := v.rank(m.Rank)
	switch {
	case s == nil:
		return errStranger(m.Rank)
	case !s.group.trace:
		return errUnasked
	case s.life.Load() == planned:
		return errEarly(m)
	}
	return nil
}

// fence hears what the ranks here bring to a fence.
func (v *validator) fence(m *wire.Fence) (wire.Message, error) {
	id, err := fence.ParseID(m.ID)
	switch {
	case err != nil:
		return nil, errValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)]))
	case m.Joined && !m.Late, m.Late && (id.Kind == fence.Barrier || len(m.Blob) > 0):
		return nil, errValue(m, "ID", strconv.Quote(m.ID[:min(len(m.ID), 256)])+", which is late")
	case id.Kind == fence.Barrier:
		return v.barrier(m, id)
	}
	return v.collective(m, id)
}

// Bounds of the fences of PMIx that a node may have open (TRUST-29).
const (
	openFences = 1 << 10
	fenceNames = 4 << 20 // bytes of their names
)

// collective hears of a fence of PMIx: of any ranks of groups that have some here, and each once.
// That all members are there, and in which groups, the hub sees.
func (v *validator) collective(m *wire.Fence, id fence.ID) (wire.Message, error) {
	here, groups := false, id.Members.Groups()
	made := id.Kind.Base() == fence.Construct // also of ranks of one node: mpiexec has its number
	for _, group := range groups {
		p := v.groups[group]
		here = here || p != nil && (p.meets || len(groups) > 1 || made) && p.phase >= letGo
		if p != nil && p.phase == pruned {
			return nil, nil
		}
	}
	switch {
	case !here:
		return nil, errUnasked
	case m.Joined && !v.fences[m.ID]: // the answer has crossed it
		return nil, nil
	case m.Joined:
		return v.unlessGone(v.unlessEnding(m))
	case v.lateFences[m.ID]: // it has come to it after all, or says that it will not
		delete(v.lateFences, m.ID)
		return v.unlessGone(v.unlessEnding(m))
	case v.fences[m.ID]:
		return nil, violation("it sent 2 fences at once")
	case len(v.fences) >= openFences:
		return nil, violation("it sent %d fences at once", len(v.fences)+1)
	case v.naming+len(m.ID) > fenceNames:
		return nil, violation("it sent fences with names of %d bytes", v.naming+len(m.ID))
	}
	answer, err := v.unlessGone(v.unlessEnding(m))
	if answer != nil {
		v.fences[m.ID] = true
		v.naming += len(m.ID)
	}
	return answer, err
}

// barrier hears of one of PMI: one at a time of each group, in their order, and only of whole
// groups.
func (v *validator) barrier(m *wire.Fence, id fence.ID) (wire.Message, error) {
	n, p := id.Number, v.groups[id.Members.Group()]
	switch {
	case p == nil || !p.meets:
		return nil, errUnasked
	case p.phase < letGo:
		return nil, errEarly(m)
	case p.phase == gone:
		return nil, errLate(m)
	case p.fencing || n != p.fence:
		return nil, violation("it sent %d fences at once", p.atOnce(n))
	}
	p.fence++
	p.fencing = true
	if p.phase == pruned {
		return nil, nil
	}
	return v.unlessEnding(m)
}

// atOnce is how many fences a node has begun when it comes to one that it may not begin.
func (p *localGroup) atOnce(n int) int {
	first := p.fence
	if p.fencing {
		first--
	}
	return max(2, n-first+1)
}

// unlessEnding drops what nobody wants to hear at the end. It may have crossed that.
func (v *validator) unlessEnding(m wire.Message) (wire.Message, error) {
	if v.course.ended.IsZero() {
		return m, nil
	}
	return nil, v.late(m, v.course.ended)
}

// request hears what a rank asks for.
func (v *validator) request(m wire.Message, id int) (wire.Message, error) {
	if err := v.course.begun(m); err != nil {
		return nil, err
	}
	if err := v.requests.next(m, id); err != nil {
		return nil, err
	}
	m, err := v.unlessGone(v.unlessEnding(m))
	if m != nil {
		v.requests.unheard++
	}
	return m, err
}

// spawn hears that a rank wants others to be started. One that has ended meanwhile wants
// nothing any more.
func (v *validator) spawn(m *wire.Spawn) (wire.Message, error) {
	p := v.groups[m.Request.Group]
	if p == nil {
		return nil, errStranger(m.Request.Rank)
	}
	rank := p.first + m.Request.Rank
	s := v.rank(rank)
	switch {
	case s == nil || s.group != p:
		return nil, errStranger(rank)
	case s.life.Load() < running:
		return nil, errEarly(m)
	case s.life.Load() == failed:
		return nil, errEnded(rank)
	}
	answer, err := v.request(m, m.ID)
	if answer != nil && s.life.Load() == over {
		v.requests.unheard--
		return nil, nil
	}
	return answer, err
}

// drain hears that nothing of the job is left here, after the end of each rank: all that were
// let go have run, unless we have ended the job, or their group, before.
func (v *validator) drain(m *wire.Drained) error {
	if err := v.course.over(m, &v.course.drained); err != nil {
		return err
	}
	ranks := v.ranks.Load()
	for _, s := range ranks.all {
		life := s.life.Load()
		if life == running || life == going && v.course.ended.IsZero() && s.group.phase != pruned {
			return violation("it sent Drained before the end of rank %d", s.rank)
		}
	}
	if len(m.Sessions) > 0 && !v.sessions {
		return errUnasked
	}
	for _, o := range m.Orphans {
		if o.Rank != -1 && ranks.find(o.Rank) == nil {
			return errStranger(o.Rank)
		}
	}
	v.clear()
	return nil
}

// clear notes that nothing of what was let go is left: an early end has kept some ranks from
// starting.
func (v *validator) clear() {
	for _, p := range v.groups {
		if p.phase < letGo {
			continue
		}
		p.phase = gone
		for _, s := range p.ranks {
			s.life.CompareAndSwap(going, failed)
		}
	}
}

// unlessGone drops what no rank can mean any more.
func (v *validator) unlessGone(m wire.Message, err error) (wire.Message, error) {
	if err != nil || v.course.drained == v.course.starts {
		return nil, err
	}
	return m, nil
}
