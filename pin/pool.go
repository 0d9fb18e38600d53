package pin

import (
	"cmp"
	"fmt"
	"slices"

	"remshell/idset"
)

// A Pool is the free slots of one node, sorted by the things to which ranks are dealt.
//
//	slots 0 1 2 3 | 4 5 6 7       two sockets, slot 1 busy
//	pool  0 2 3   | 4 5 6 7       Take(1): 0, 4, 2, 5, ...; with ppr:2 0, 2, 4, 5
//
// Each rank gets as many slots as it is wide, all of one thing.
type Pool struct {
	things []thing
	each   int   // ranks for each thing; 0: no limit
	next   int   // the thing whose turn it is
	numa   []int // the numbers of the things, of NewNUMAPool; else nil

	whole []thing        // as it was before anybody took
	again map[int][]Take // by width: what ranks get when nothing is left, in turns
	round map[int]int    // by width: how many did
}

// A thing has slots that are free, in slot order, and ranks that got some.
type thing struct {
	free  []int
	size  int // slots, free or not
	ranks int

	closed bool // no rank may go there
}

// A Take is what one rank is given.
type Take struct {
	Slots []int
	Thing int // index of the thing they lie in
}

// NewPool sorts the free slots of a node that lacks nothing. slots are all of it, in slot
// order; width is that of the widest rank.
func NewPool(t Topology, slots []Unit, free []int, l Layout, width int, threads bool) *Pool {
	p := &Pool{each: l.Map.Each, again: make(map[int][]Take), round: make(map[int]int)}
	size := len(slots)
	if only := l.only(); only != nil {
		listed, _ := listedSlots(t, slots, only, threads)
		size, free = len(listed), keep(listed, free)
	}
	single := l.Map.Level == ByThread || l.Map.Level == ByCore && !threads
	switch {
	case l.Map.Level <= ByNode, single && p.each == 0 && width > max(1, l.Map.Count):
		p.things = []thing{{size: size, free: slices.Clone(free)}}
	case single:
		p.split(placeOf(t, slots, threads), free, max(1, l.Map.Count))
	default:
		p.sort(t, slots, free, l.Map)
	}
	p.keepWhole()
	return p
}

// keepWhole notes what there was before anybody took.
func (p *Pool) keepWhole() {
	p.whole = make([]thing, len(p.things))
	for i := range p.things {
		p.whole[i] = thing{free: p.things[i].free, size: p.things[i].size}
	}
}

// only are the CPUs that a layout keeps to; nil: all.
func (l Layout) only() []Pick {
	if l.Map.Only != nil {
		return l.Map.Only
	}
	return l.Bind.Only
}

// Names reports whether a layout says by their numbers which CPUs ranks get.
func (l Layout) Names() bool { return l.only() != nil || l.Bind.Sets != nil }

// Lacks says what a node has not that a layout needs; the text goes on after the node's
// name. slots are all of the node.
func (t Topology) Lacks(slots []Unit, busy Busy, l Layout, threads bool) error {
	bind := l.Bind.Level
	if l.Bind.IfSupported && !t.Knows(bind) {
		bind = BySlot
	}
	for _, level := range []Level{l.Map.Level, bind} {
		if !t.Knows(level) {
			return fmt.Errorf("does not tell its %s", plural(level))
		}
	}
	if l.Bind.Count > 1 && bind != BySlot {
		if _, group := t.things(bind, 1); len(group) < l.Bind.Count {
			return fmt.Errorf("has %d %s, not %d", len(group), plural(bind), l.Bind.Count)
		}
	}
	if only := l.only(); only != nil {
		if _, err := listedSlots(t, slots, only, threads); err != nil {
			return err
		}
	}
	if err := t.lacksMemory(l.Mem); err != nil {
		return err
	}
	return t.lacksCPU(slots, busy, l.Bind.Sets)
}

// lacksMemory sees that the NUMA nodes that were written down are there.
func (t Topology) lacksMemory(m Memory) error {
	has := t.NUMANodes()
	if m.Mode == Interleave && len(has) == 0 {
		return fmt.Errorf("does not tell its %s", plural(ByNUMA))
	}
	for _, n := range m.Nodes {
		if !slices.Contains(has, n) {
			return fmt.Errorf("has no NUMA node %d: it has %s", n, cmp.Or(idset.Text(has), "none"))
		}
	}
	return nil
}

// NUMANodes lists the NUMA nodes the cores are in, as far as they are known, ascending.
func (t Topology) NUMANodes() []int {
	numbers, _ := t.things(ByNUMA, 1)
	return numbers
}

// lacksCPU sees that the CPUs of some sets are there and free.
func (t Topology) lacksCPU(slots []Unit, busy Busy, sets [][]int) error {
	if sets == nil {
		return nil
	}
	has := make(map[int]bool) // a usable CPU: whether it is free
	for _, u := range slots {
		for _, cpu := range u.CPUs {
			has[cpu] = !busy[u.Number]
		}
	}
	for _, set := range sets {
		for _, cpu := range set {
			if free, usable := has[cpu]; !usable {
				return fmt.Errorf("has no CPU %d that may be used: it has %s", cpu, cmp.Or(idset.Text(t.Usable()), "none"))
			} else if !free {
				return fmt.Errorf("has CPU %d in use by another job", cpu)
			}
		}
	}
	return nil
}

// keep drops what is not among others.
func keep(list, others []int) []int {
	among := make(map[int]bool, len(others))
	for _, n := range others {
		among[n] = true
	}
	return slices.DeleteFunc(list, func(n int) bool { return !among[n] })
}

// placeOf is the place of each slot in the order of dealing: slot order or, if they are
// threads, core by core.
func placeOf(t Topology, slots []Unit, threads bool) []int {
	core := t.coreOf()
	order, place := make([]int, len(slots)), make([]int, len(slots))
	for i := range order {
		order[i] = i
	}
	if threads {
		slices.SortStableFunc(order, func(a, b int) int {
			i, k := core[slots[a].CPUs[0]], core[slots[b].CPUs[0]]
			return cmp.Or(cmp.Compare(t.Cores[i].Package, t.Cores[k].Package), cmp.Compare(i, k))
		})
	}
	for i, slot := range order {
		place[slot] = i
	}
	return place
}

// split makes so many neighbouring slots a thing.
func (p *Pool) split(place, free []int, count int) {
	p.things = make([]thing, (len(place)+count-1)/count)
	for i := range place {
		p.things[i/count].size++
	}
	for _, slot := range free {
		t := &p.things[place[slot]/count]
		t.free = append(t.free, slot)
	}
}

func plural(l Level) string {
	if l == ByNUMA {
		return "numa nodes"
	}
	return l.String() + "s"
}

// sort deals the free slots to the things they lie in.
func (p *Pool) sort(t Topology, slots []Unit, free []int, m Mapping) {
	firsts, group := t.things(m.Level, m.Count)
	p.things = make([]thing, len(firsts))
	of := t.groupsOf(slots, m.Level, group)
	for _, i := range of {
		if i >= 0 {
			p.things[i].size++
		}
	}
	for _, slot := range free {
		if i := of[slot]; i >= 0 {
			p.things[i].free = append(p.things[i].free, slot)
		}
	}
}

// groupsOf finds the group of things in which each slot lies; -1: in none.
func (t Topology) groupsOf(slots []Unit, l Level, group map[int]int) []int {
	core := t.coreOf()
	byCore := make([]int, len(t.Cores))
	for i := range t.Cores {
		byCore[i] = -1
		if n := t.at(i, l); n >= 0 {
			byCore[i] = group[n]
		}
	}
	of := make([]int, len(slots))
	for slot, u := range slots {
		of[slot] = byCore[core[u.CPUs[0]]]
	}
	return of
}

// listedSlots are the slots of the CPUs that were written down, in their order.
func listedSlots(t Topology, slots []Unit, picks []Pick, threads bool) ([]int, error) {
	cpus, err := t.Numbering(threads).CPUs(picks)
	if err != nil {
		return nil, err
	}
	of := make(map[int]int)
	for slot, u := range slots {
		for _, cpu := range u.CPUs {
			of[cpu] = slot
		}
	}
	var listed []int
	seen := make(map[int]bool)
	for _, cpu := range cpus {
		if slot := of[cpu]; !seen[slot] {
			seen[slot] = true
			listed = append(listed, slot)
		}
	}
	return listed, nil
}

// Things is the number of things.
func (p *Pool) Things() int { return len(p.things) }

// Room is how many ranks of a width find slots. rounds multiplies the limit of each
// thing.
func (p *Pool) Room(width, rounds int) int {
	if p.crosses() {
		return p.unused() / width
	}
	room := 0
	for i := range p.things {
		room += p.room(i, width, rounds)
	}
	return room
}

func (p *Pool) room(i, width, rounds int) int {
	if p.things[i].closed {
		return 0
	}
	room := len(p.things[i].free) / width
	if p.each > 0 {
		room = min(room, max(0, p.each*rounds-p.things[i].ranks))
	}
	return room
}

// Left is how many ranks the limits of the things leave, whatever slots there are.
func (p *Pool) Left(rounds int) int {
	left := 0
	for i := range p.things {
		left += max(0, p.each*rounds-p.things[i].ranks)
	}
	return left
}

// Take gives the next rank its slots: round the things or, where each has its limit,
// one thing after the other, and round again with the next limit.
func (p *Pool) Take(width, rounds int) (Take, bool) {
	if p.crosses() {
		return p.takeLowest(width)
	}
	for round := 1; round <= rounds; round++ {
		first := p.next
		if p.each > 0 {
			first = 0
		}
		for k := range p.things {
			i := (first + k) % len(p.things)
			if take, ok := p.TakeFrom(i, width, round); ok {
				p.next = (i + 1) % len(p.things)
				return take, true
			}
		}
	}
	return Take{}, false
}

// TakeFrom gives a rank slots of one thing.
func (p *Pool) TakeFrom(i, width, rounds int) (Take, bool) {
	t := &p.things[i]
	if p.room(i, width, rounds) == 0 {
		return Take{}, false
	}
	take := Take{Slots: t.free[:width:width], Thing: i}
	t.free = t.free[width:]
	t.ranks++
	return take, true
}

// Share gives a rank slots that others have: those that ranks of its width would get
// on the empty node, round after round.
func (p *Pool) Share(width int) Take {
	if p.again[width] == nil {
		fresh := &Pool{things: make([]thing, len(p.whole)), numa: p.numa}
		var all []int
		for i := range p.whole {
			fresh.things[i].free = p.whole[i].free
			all = append(all, p.whole[i].free...)
		}
		for take, ok := fresh.Take(width, 1); ok; take, ok = fresh.Take(width, 1) {
			p.again[width] = append(p.again[width], take)
		}
		if p.again[width] == nil { // wider than anything
			p.again[width] = []Take{{Slots: all[:min(width, len(all))]}}
		}
	}
	k := p.round[width]
	p.round[width]++
	return p.again[width][k%len(p.again[width])]
}
