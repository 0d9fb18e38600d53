package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
)

// This file places ranks that were told where to go (rank file, -rankmap; cli.md 4.3).
// Nothing is chosen: a rank goes where it was told, or there is no plan.

// byRankFile places every rank.
func (s *placement) byRankFile(usable [][]bool) *Error {
	s.books, s.held, s.each = make(map[int]*book), make(map[int][]int), make(map[[2]int]int)
	rank := 0
	for a, app := range s.req.Apps {
		among := s.among(app.Hosts)
		for range app.N {
			if rank == len(s.req.RankFile) {
				return &Error{Code: NotEnough, Text: fmt.Sprintf("nobody says where rank %d is to go", rank), Permanent: true}
			}
			if err := s.settle(rank, a, usable[a], among); err != nil {
				return err
			}
			rank++
		}
	}
	return nil
}

// among tells which candidates are some of the hosts a section is confined to.
func (s *placement) among(hosts []string) []bool {
	set := setOf(hosts)
	may := make([]bool, len(s.candidates))
	for i := range s.candidates {
		may[i] = s.candidates[i].isOne(set)
	}
	return may
}

// settle puts a rank at its spot. usable and among are by candidate.
func (s *placement) settle(rank, a int, usable, among []bool) *Error {
	spot := &s.req.RankFile[rank]
	i := s.of[spot.Node]
	n, app := &s.candidates[i], s.req.Apps[a]
	width := max(1, app.Threads)
	switch limit, by := s.limit(i, app); {
	case !among[i]:
		return refuse(spot, NoNodes, "rank %d runs another program than %s is for: that is to run on %s only", rank, n.Name, hostlist.Brief(app.Hosts))
	case !usable[i]:
		w := wishOf(s.req, app)
		code, detail := dropped(n, &w)
		return refuse(spot, NoNodes, "rank %d cannot run on %s: %s", rank, n.Name, inWords(code, detail))
	case limit <= 0:
		return refuse(spot, Limits, "rank %d is one too many on %s: %s allows %d there", rank, n.Name, by, s.mine[i])
	case app.PerNode > 0 && s.each[[2]int{a, i}] >= app.PerNode:
		return refuse(spot, Limits, "rank %d is one too many on %s: -ppn allows %d there", rank, n.Name, app.PerNode)
	case spot.Picks != nil:
		width = 1
		if err := s.pick(rank, i); err != nil {
			return err
		}
	}
	if crowded := s.free[i] < width; crowded && (spot.Picks == nil || n.Slots > 0) && !s.lends(i, width) {
		if err := s.share(spot, n, fmt.Sprintf("rank %d finds no free slot on %s, which has %d", rank, n.Name, n.free)); err != nil {
			return err
		}
	}
	s.put(a, i, 1)
	s.free[i] += max(1, app.Threads) - width
	s.each[[2]int{a, i}]++
	return nil
}

// share lets ranks have the same CPUs if that is welcome.
func (s *placement) share(spot *job.Spot, n *candidate, what string) *Error {
	welcome := s.req.Overbook || s.req.Crowd || s.req.Home && spot.Picks == nil && n.Slots == 0
	if n.NoOverbook || s.req.Forbid || !welcome {
		e := refuse(spot, NotEnough, "%s", what)
		e.Way = "give it another place, or share CPUs with --oversubscribe"
		if n.NoOverbook {
			e.Way = "give it another place; this node may not be overbooked"
		}
		return e
	}
	s.over = true
	return nil
}

// pick finds the CPUs that were written down for a rank, and sees that it may have them.
func (s *placement) pick(rank, i int) *Error {
	n, spot := &s.candidates[i], &s.req.RankFile[rank]
	book := s.bookOf(i)
	cpus, err := book.numbers.CPUs(spot.Picks)
	if err != nil {
		return refuse(spot, NotEnough, "rank %d: %s %w", rank, n.Name, err)
	}
	for _, cpu := range cpus {
		if slot, is := book.slot[cpu]; is && n.busy[book.slots[slot].Number] {
			if s.others() {
				s.over = true
				continue
			}
			return refuse(spot, NotEnough, "rank %d: CPU %d of %s is in use by another job", rank, cpu, n.Name)
		}
		if other, taken := book.owner[cpu]; taken {
			if err := s.share(spot, n, fmt.Sprintf("ranks %d and %d are both to have CPU %d of %s", other, rank, cpu, n.Name)); err != nil {
				return err
			}
		}
		book.owner[cpu] = rank
	}
	slices.Sort(cpus)
	s.held[rank] = cpus
	return nil
}

// picked reports whether CPUs were written down, and not nodes alone.
func (s *placement) picked() bool { return len(s.req.RankFile) > 0 && s.req.RankFile[0].Picks != nil }

// A book is what a node has, and who of this job has it.
type book struct {
	numbers *pin.Numbering
	slots   []pin.Unit
	slot    map[int]int // of a CPU
	owner   map[int]int // the last rank that was given a CPU
}

func (s *placement) bookOf(i int) *book {
	if b := s.books[i]; b != nil {
		return b
	}
	n := &s.candidates[i]
	b := &book{numbers: n.Topology.Numbering(n.CountThreads), slots: n.slots(n.CPUMap),
		slot: make(map[int]int), owner: make(map[int]int)}
	for slot, u := range b.slots {
		for _, cpu := range u.CPUs {
			b.slot[cpu] = slot
		}
	}
	s.books[i] = b
	return b
}

// bindPicked gives the ranks of a node the CPUs that were written down for them, and
// of its slots those they touch.
func (s *placement) bindPicked(i int, ranks []job.RankPlan) {
	n, book := &s.candidates[i], s.bookOf(i)
	for k := range ranks {
		cpus := s.held[ranks[k].Rank]
		var mine []int
		for _, cpu := range cpus {
			mine = append(mine, book.slot[cpu])
		}
		slices.Sort(mine)
		assigned := pin.NewSeat(book.slots, slices.Compact(mine))
		assigned.CPUs = cpus
		s.give(n, &ranks[k], assigned)
	}
}

// refuse is the error about one spot, with the line where it was written.
func refuse(spot *job.Spot, code, format string, args ...any) *Error {
	reason := fmt.Errorf(format, args...).Error()
	if spot.At.File == "" {
		return &Error{Code: code, Text: reason}
	}
	m := spot.At
	at := &hostlist.SyntaxError{File: m.File, Line: m.Line, Col: m.Col, Width: m.Width, Source: m.Source, Reason: reason}
	return &Error{Code: code, Text: at.Where() + ": " + reason, At: at}
}
