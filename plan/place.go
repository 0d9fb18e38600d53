package plan

import (
	"math"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/sort"
)

// An assignment is where one rank goes: a candidate, and the app it runs.
type assignment struct{ candidate, app int }

// A placement is the ranks of a job that have been placed so far.
type placement struct {
	req        job.Request
	candidates []candidate
	of         []int // candidate of a node of the request
	order      []int // turns in filling order; candidates may repeat
	widest     int   // the largest TPP of the job (5.7)

	at       int          // the turn at which the walk goes on
	free     []int        // slots left, by candidate
	gpus     []int        // GPUs left, by candidate
	mine     []int        // ranks of this job, by candidate
	assigned []assignment // by rank
	over     bool         // ranks share CPUs
	unshared bool         // they must not
	ranks    int          // of the lot that is being filled; 0: all of the job

	layer    *dealing // nil: there is no layout to follow
	portions portions

	books map[int]*book  // by candidate, of ranks that were told where to go
	held  map[int][]int  // the CPUs of a rank that was told
	each  map[[2]int]int // their number, by app and candidate
}

func newPlacement(req job.Request, candidates []candidate, of, order []int) *placement {
	s := &placement{req: req, candidates: candidates, of: of, order: order, free: make([]int, len(candidates)), gpus: make([]int, len(candidates)), mine: make([]int, len(candidates)), portions: make(portions)}
	for i := range candidates {
		s.free[i], s.gpus[i] = candidates[i].free, len(candidates[i].gpus)
	}
	for _, app := range req.Apps {
		s.widest = max(s.widest, app.Threads, 1)
	}
	if !s.picked() && s.deals() {
		s.layer = newLayer(s)
	}
	return s
}

// place places the ranks on the lots, one after the other, each in the order of its nodes: all or
// nothing. Lots share no node.
func (s *placement) place(lots []lot, usable [][]bool, mode sort.Mode) *Error {
	var order []int
	for _, l := range lots {
		s.order, s.at, s.ranks = l.turns, 0, l.ranks
		if !l.inLine {
			s.order = ordered(s.candidates, l.turns, mode)
		}
		if failed := s.all(usable); failed != nil {
			return failed
		}
		order = append(order, s.order...)
	}
	s.order = order
	return nil
}

// all places every part of the job, in order, on one state (5.7): all or nothing.
func (s *placement) all(usable [][]bool) *Error {
	if s.req.RankFile != nil {
		return s.byRankFile(usable)
	}
	for a := range s.req.Apps {
		if err := s.part(a, s.apart(usable[a])); err != nil {
			return err
		}
	}
	return nil
}

// apart are the candidates that a section may use where none shares a node with another.
func (s *placement) apart(usable []bool) []bool {
	if !s.req.Separate || len(s.assigned) == 0 {
		return usable
	}
	usable = slices.Clone(usable)
	for _, a := range s.assigned {
		usable[a.candidate] = false
	}
	return usable
}

// part places the ranks of one app on the candidates it may use.
func (s *placement) part(a int, usable []bool) *Error {
	s.confine(s.req.Apps[a].NUMA)
	app := s.req.Apps[a]
	if s.ranks > 0 {
		app.N = s.ranks
	}
	area := s.eligible(app, usable)
	if len(area.candidates) == 0 {
		if failed := s.without(app); failed != nil {
			return failed
		}
		return nowhere(app, len(s.req.Apps) == 1)
	}
	n := s.wanted(area)
	if n == 0 {
		return s.noMember(area)
	}
	s.refill(area, n)
	first := len(s.assigned)
	if err := s.distribute(area, a, n); err != nil {
		return err
	}
	s.rerank(first)
	return s.overloaded()
}

// distribute places n ranks of an app.
func (s *placement) distribute(area *eligible, a, n int) *Error {
	if area.app.Shape > 0 {
		return s.shaped(area, a, n)
	}
	quota, err := s.quota(area, n)
	if err == nil {
		s.walk(area, a, n, quota)
	}
	return err
}

// walk puts n ranks of an app on candidates, none more than its quota.
func (s *placement) walk(area *eligible, a, n int, quota []int) {
	switch {
	case s.req.Loop:
		s.cyclic(a, n, quota)
	case s.req.Layout.Map.Span:
		s.span(area, a, n, quota)
	default:
		s.fill(a, n, quota)
	}
}

// quota is the most ranks each candidate takes of n: its room while nobody has to share
// a CPU (5.2), else its share of them all or, in turns, its bound (5.4, 5.5).
func (s *placement) quota(a *eligible, n int) ([]int, *Error) {
	if n <= a.unused() {
		return a.room, nil
	}
	if failed := s.fewGPUs(a, n); failed != nil {
		return nil, failed
	}
	if !s.mayShare(a, n) {
		return nil, s.mapped(a, n, s.shortfall(a, n))
	}
	s.over = true
	bounds := s.bounds(a, n)
	if sum(bounds) < n {
		return nil, s.limited(a, n, sum(bounds))
	}
	if s.req.Loop {
		return bounds, nil
	}
	return s.shares(a, n, bounds), nil
}

// An eligible is the candidates that one app may use, and the room there is.
type eligible struct {
	app        job.App
	candidates []int // in filling order, each once
	names      []string
	size       int      // slots of all of them, free or not
	limit      []int    // most ranks, by candidate, for other reasons than CPUs
	by         []string // what that limit is called
	room       []int    // most ranks, by candidate, that share no CPU
}

func (s *placement) eligible(app job.App, usable []bool) *eligible {
	a := &eligible{app: app, limit: make([]int, len(s.candidates)), by: make([]string, len(s.candidates)), room: make([]int, len(s.candidates))}
	for _, i := range distinct(s.order, len(s.candidates)) {
		if !usable[i] {
			continue
		}
		a.candidates = append(a.candidates, i)
		a.names = append(a.names, s.candidates[i].Name)
		a.size += s.candidates[i].Size()
		a.limit[i], a.by[i] = s.limit(i, app)
		a.room[i] = s.roomIn(i, a)
	}
	if s.granted(app) {
		for _, i := range a.candidates {
			a.room[i] = min(a.room[i], max(0, s.candidates[i].Tasks-s.mine[i]))
		}
	}
	return a
}

// granted reports whether an app goes where a batch system meant its tasks to: nobody has said
// otherwise, and it has counted them (RM-6).
func (s *placement) granted(app job.App) bool {
	return app.N == 0 && app.Soft == nil && app.PerNode == 0 && s.req.Layout.Map.Each == 0 &&
		slices.ContainsFunc(s.candidates, func(c candidate) bool { return c.Tasks > 0 })
}

// roomIn is how many ranks of an app find free slots on a candidate.
func (s *placement) roomIn(i int, a *eligible) int {
	width := max(1, a.app.Threads)
	room := min(s.ranksIn(i, s.free[i], width), a.limit[i])
	switch l := s.layer; {
	case l == nil:
	case s.candidates[i].Slots == 0:
		room = min(room, l.pools[i].Room(width, l.rounds))
	case l.Map.Each > 0:
		room = min(room, l.pools[i].Left(l.rounds))
	}
	return room
}

// limit is what maxproc, max_slots, ppn and GPUs leave of a candidate, min(M-P, ppn) in 5.1,
// and which of them that is.
func (s *placement) limit(i int, app job.App) (limit int, by string) {
	n, limit := &s.candidates[i], math.MaxInt
	tighten := func(most int, name string) {
		if most < limit {
			limit, by = max(0, most), name
		}
	}
	if n.MaxProcs != nil {
		name := "maxproc of the cluster file"
		if n.ownMost {
			name = "maxproc of its node.toml"
		}
		tighten(*n.MaxProcs-n.Procs-s.mine[i], name)
	}
	if n.MaxSlots > 0 {
		tighten(n.MaxSlots-s.mine[i], "max_slots of the host file")
	}
	if size := s.req.Memory; size > 0 && n.Memory.Available > 0 {
		tighten(int(n.Memory.Available/size)-s.mine[i], "--mem-per-rank")
	}
	if s.req.Huge == job.HugeNeeded && n.Memory.Huge.Known {
		tighten(int(n.Memory.Huge.Room(s.req.Memory))-s.mine[i], "--mem-per-rank, in huge pages,")
	}
	if app.NUMA.Confines() && s.layer != nil && s.layer.pools[i] != nil {
		tighten(s.layer.pools[i].Room(max(1, app.Threads), 1), app.NUMA.Option())
	}
	if app.PerNode > 0 {
		tighten(app.PerNode, "-ppn")
	}
	if want := wantedGPUs(app); want > 0 {
		tighten(s.gpus[i]/want, option(want))
	}
	return limit, by
}

// ranksIn is how many ranks of so many threads a number of slots holds.
func (s *placement) ranksIn(i, slots, threads int) int {
	if s.req.Home && s.candidates[i].Slots == 0 {
		threads = min(threads, max(1, s.candidates[i].Size()))
	}
	return max(0, slots) / threads
}

// unused is U of 5.1.
func (a *eligible) unused() int { return sum(a.room) }

// wanted is the number of ranks; when the user gave none (PLACE-1), the limit on
// every node, else every slot that is left. It is 0 if there is a choice, and all of it
// too large.
func (s *placement) wanted(a *eligible) int {
	if a.app.N > 0 {
		return a.app.N
	}
	if a.app.Soft != nil {
		room := a.unused()
		i := slices.IndexFunc(a.app.Soft, func(n int) bool { return n <= room })
		switch {
		case i < 0 && s.mayShare(a, a.app.Soft[len(a.app.Soft)-1]):
			i = len(a.app.Soft) - 1 // sharing CPUs is welcome
		case i < 0:
			return 0
		}
		return a.app.Soft[i]
	}
	if a.app.Shape > 0 {
		return max(a.app.Shape, a.shapeRoom())
	}
	if each := s.req.Layout.Map.Each; each > 0 {
		n := 0
		for _, i := range a.candidates {
			n += each * s.layer.pools[i].Things()
		}
		return n
	}
	if a.app.PerNode > 0 {
		return a.app.PerNode * len(a.candidates)
	}
	n := 0
	for _, i := range a.candidates {
		n += max(a.room[i], s.written(i, a))
	}
	return max(1, n)
}

// written is how many ranks the slots hold that the user wrote down for a host (HOST:N), whoever has its CPUs now. It
// is 0 for a mere candidate, which may have fewer.
func (s *placement) written(i int, a *eligible) int {
	if !s.req.Home && (!s.req.AllHosts || s.req.Skip) {
		return 0
	}
	return min(a.limit[i], s.ranksIn(i, s.candidates[i].Slots, max(1, a.app.Threads)))
}

// fill walks the turns and fills one node after the other.
func (s *placement) fill(app, n int, quota []int) {
	for {
		i := s.order[s.at]
		take := min(quota[i], n)
		s.put(app, i, take)
		quota[i] -= take
		if n -= take; n == 0 {
			return
		}
		s.at = (s.at + 1) % len(s.order)
	}
}

// cyclic walks the turns of one region after the other again and again, one rank at each; where CPUs
// are shared, regions are one (which-hosts.md 10).
func (s *placement) cyclic(app, n int, quota []int) {
	for n > 0 {
		from, to := s.stretch()
		room := 0
		for _, i := range distinct(s.order[from:to], len(s.candidates)) {
			room += quota[i]
		}
		take := min(n, room)
		s.circle(app, take, quota, from, to)
		if n -= take; n > 0 {
			s.at = to % len(s.order)
		}
	}
}

// stretch is the turns of the region at which the walk goes on.
func (s *placement) stretch() (from, to int) {
	if s.over || contiguous(s.req) {
		return 0, len(s.order)
	}
	same := func(t int) bool { return s.candidates[s.order[t]].region == s.candidates[s.order[s.at]].region }
	for from = s.at; from > 0 && same(from-1); {
		from--
	}
	for to = s.at + 1; to < len(s.order) && same(to); {
		to++
	}
	return from, to
}

// circle walks a stretch of turns again and again. Turns of full nodes are taken out of the ring, so
// that a walk costs no more than its ranks and turns.
func (s *placement) circle(app, n int, quota []int, from, to int) {
	turns := to - from
	next := make([]int, turns)
	for t := range next {
		next[t] = (t + 1) % turns
	}
	stride := 1
	if m := s.req.Layout.Map; m.Level == pin.ByNode {
		stride = max(1, m.Count)
	}
	t := s.at - from
	last := (t + turns - 1) % turns
	for n > 0 {
		i := s.order[from+t]
		if quota[i] == 0 {
			next[last] = next[t]
			t = next[t]
			continue
		}
		stay := min(stride, quota[i], n)
		s.put(app, i, stay)
		quota[i] -= stay
		n -= stay
		s.at = from + (t+1)%turns
		last, t = t, next[t]
	}
}

// put places ranks of an app on a candidate.
func (s *placement) put(app, i, ranks int) {
	for range ranks {
		if s.layer != nil {
			s.layer.take(i, max(1, s.req.Apps[app].Threads))
		}
		s.assigned = append(s.assigned, assignment{i, app})
	}
	s.mine[i] += ranks
	s.free[i] -= ranks * max(1, s.req.Apps[app].Threads)
	s.gpus[i] -= ranks * wantedGPUs(s.req.Apps[app])
}

// sit places one rank, which has its slots.
func (s *placement) sit(app, i int) {
	s.assigned = append(s.assigned, assignment{i, app})
	s.mine[i]++
	s.free[i] -= max(1, s.req.Apps[app].Threads)
	s.gpus[i] -= wantedGPUs(s.req.Apps[app])
}

// places is the candidate of every rank.
func (s *placement) places() []int {
	candidates := make([]int, len(s.assigned))
	for i, assigned := range s.assigned {
		candidates[i] = assigned.candidate
	}
	return candidates
}

// unbound is the portion of ranks until they get one, and of those on a node without any slot.
var unbound = new(job.Portion)

// assign gathers the ranks by node, in the order in which the nodes were filled.
func (s *placement) assign() []job.NodePlan {
	var plans []job.NodePlan
	at := make([]int, len(s.candidates)) // index in plans, from 1
	for rank, assigned := range s.assigned {
		if at[assigned.candidate] == 0 {
			n := &s.candidates[assigned.candidate]
			ranks := make([]job.RankPlan, 0, s.mine[assigned.candidate])
			plans = append(plans, job.NodePlan{Node: n.source, Name: n.Name, ID: n.ID, Ranks: ranks})
			at[assigned.candidate] = len(plans)
		}
		p := &plans[at[assigned.candidate]-1]
		p.Ranks = append(p.Ranks, job.RankPlan{Rank: rank, Local: len(p.Ranks), App: assigned.app, Portion: unbound})
	}
	return plans
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
