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
	objects    []poolObject
	perObject  int   // ranks for each thing; 0: no limit
	nextObject int   // the thing whose turn it is
	numaNodes  []int // the numbers of the things, of NewNUMAPool; else nil

	initial     []poolObject        // as it was before anybody took
	sharedSlots map[int][]RankSlots // by width: what ranks get when nothing is left, in turns
	sharedCount map[int]int         // by width: how many did
}

// A poolObject has slots that are free, in slot order, and ranks that got some.
type poolObject struct {
	freeSlots []int
	slots     int // slots, free or not
	ranks     int

	closed bool // no rank may go there
}

// A RankSlots is what one rank is given.
type RankSlots struct {
	Slots  []int
	Object int // index of the thing they lie in
}

// NewPool sorts the free slots of a node that lacks nothing. slots are all of it, in slot
// order; width is that of the widest rank.
func NewPool(t Topology, slots []Unit, free []int, l Layout, width int, threads bool) *Pool {
	p := &Pool{perObject: l.Map.PerObject, sharedSlots: make(map[int][]RankSlots), sharedCount: make(map[int]int)}
	size := len(slots)
	if only := l.cpuList(); only != nil {
		listed, _ := slotsOfRanges(t, slots, only, threads)
		size, free = len(listed), intersect(listed, free)
	}
	single := l.Map.Level == ByThread || l.Map.Level == ByCore && !threads
	switch {
	case l.Map.Level <= ByNode, single && p.perObject == 0 && width > max(1, l.Map.Count):
		p.objects = []poolObject{{slots: size, freeSlots: slices.Clone(free)}}
	case single:
		p.splitByCount(dealOrder(t, slots, threads), free, max(1, l.Map.Count))
	default:
		p.splitByObject(t, slots, free, l.Map)
	}
	p.saveInitial()
	return p
}

// saveInitial notes what there was before anybody took.
func (p *Pool) saveInitial() {
	p.initial = make([]poolObject, len(p.objects))
	for i := range p.objects {
		p.initial[i] = poolObject{freeSlots: p.objects[i].freeSlots, slots: p.objects[i].slots}
	}
}

// cpuList are the CPUs that a layout keeps to; nil: all.
func (l Layout) cpuList() []CPURange {
	if l.Map.PEList != nil {
		return l.Map.PEList
	}
	return l.Bind.CPUList
}

// NamesCPUs reports whether a layout says by their numbers which CPUs ranks get.
func (l Layout) NamesCPUs() bool { return l.cpuList() != nil || l.Bind.Sets != nil }

// CheckLayout says what a node has not that a layout needs; the text goes on after the node's
// name. slots are all of the node.
func (t Topology) CheckLayout(slots []Unit, busy BusyUnits, l Layout, threads bool) error {
	bind := l.Bind.Level
	if l.Bind.IfSupported && !t.KnowsLevel(bind) {
		bind = BySlot
	}
	for _, level := range []Level{l.Map.Level, bind} {
		if !t.KnowsLevel(level) {
			return fmt.Errorf("does not tell its %s", levelPlural(level))
		}
	}
	if l.Bind.Count > 1 && bind != BySlot {
		if _, group := t.objects(bind, 1); len(group) < l.Bind.Count {
			return fmt.Errorf("has %d %s, not %d", len(group), levelPlural(bind), l.Bind.Count)
		}
	}
	if only := l.cpuList(); only != nil {
		if _, err := slotsOfRanges(t, slots, only, threads); err != nil {
			return err
		}
	}
	if err := t.checkMemory(l.Mem); err != nil {
		return err
	}
	return t.checkCPUSets(slots, busy, l.Bind.Sets)
}

// checkMemory sees that the NUMA nodes that were written down are there.
func (t Topology) checkMemory(m Memory) error {
	has := t.NUMANodes()
	if m.Mode == Interleave && len(has) == 0 {
		return fmt.Errorf("does not tell its %s", levelPlural(ByNUMA))
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
	numbers, _ := t.objects(ByNUMA, 1)
	return numbers
}

// checkCPUSets sees that the CPUs of some sets are there and free.
func (t Topology) checkCPUSets(slots []Unit, busy BusyUnits, sets [][]int) error {
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
				return fmt.Errorf("has no CPU %d that may be used: it has %s", cpu, cmp.Or(idset.Text(t.UsableCPUs()), "none"))
			} else if !free {
				return fmt.Errorf("has CPU %d in use by another job", cpu)
			}
		}
	}
	return nil
}

// intersect drops what is not among others.
func intersect(list, others []int) []int {
	among := make(map[int]bool, len(others))
	for _, n := range others {
		among[n] = true
	}
	return slices.DeleteFunc(list, func(n int) bool { return !among[n] })
}

// dealOrder is the place of each slot in the order of dealing: slot order or, if they are
// threads, core by core.
func dealOrder(t Topology, slots []Unit, threads bool) []int {
	core := t.coreOfCPU()
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

// splitByCount makes so many neighbouring slots a thing.
func (p *Pool) splitByCount(place, free []int, count int) {
	p.objects = make([]poolObject, (len(place)+count-1)/count)
	for i := range place {
		p.objects[i/count].slots++
	}
	for _, slot := range free {
		t := &p.objects[place[slot]/count]
		t.freeSlots = append(t.freeSlots, slot)
	}
}

func levelPlural(l Level) string {
	if l == ByNUMA {
		return "numa nodes"
	}
	return l.String() + "s"
}

// splitByObject deals the free slots to the things they lie in.
func (p *Pool) splitByObject(t Topology, slots []Unit, free []int, m Mapping) {
	firsts, group := t.objects(m.Level, m.Count)
	p.objects = make([]poolObject, len(firsts))
	of := t.groupOfSlots(slots, m.Level, group)
	for _, i := range of {
		if i >= 0 {
			p.objects[i].slots++
		}
	}
	for _, slot := range free {
		if i := of[slot]; i >= 0 {
			p.objects[i].freeSlots = append(p.objects[i].freeSlots, slot)
		}
	}
}

// groupOfSlots finds the group of things in which each slot lies; -1: in none.
func (t Topology) groupOfSlots(slots []Unit, l Level, group map[int]int) []int {
	core := t.coreOfCPU()
	byCore := make([]int, len(t.Cores))
	for i := range t.Cores {
		byCore[i] = -1
		if n := t.objectOfCore(i, l); n >= 0 {
			byCore[i] = group[n]
		}
	}
	of := make([]int, len(slots))
	for slot, u := range slots {
		of[slot] = byCore[core[u.CPUs[0]]]
	}
	return of
}

// slotsOfRanges are the slots of the CPUs that were written down, in their order.
func slotsOfRanges(t Topology, slots []Unit, picks []CPURange, threads bool) ([]int, error) {
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

// CountObjects is the number of things.
func (p *Pool) CountObjects() int { return len(p.objects) }

// Capacity is how many ranks of a width find slots. rounds multiplies the limit of each
// thing.
func (p *Pool) Capacity(width, rounds int) int {
	if p.mayCrossNUMA() {
		return p.freeSlots() / width
	}
	room := 0
	for i := range p.objects {
		room += p.objectCapacity(i, width, rounds)
	}
	return room
}

func (p *Pool) objectCapacity(i, width, rounds int) int {
	if p.objects[i].closed {
		return 0
	}
	room := len(p.objects[i].freeSlots) / width
	if p.perObject > 0 {
		room = min(room, max(0, p.perObject*rounds-p.objects[i].ranks))
	}
	return room
}

// CapacityByLimit is how many ranks the limits of the things leave, whatever slots there are.
func (p *Pool) CapacityByLimit(rounds int) int {
	left := 0
	for i := range p.objects {
		left += max(0, p.perObject*rounds-p.objects[i].ranks)
	}
	return left
}

// TakeSlots gives the next rank its slots: round the things or, where each has its limit,
// one thing after the other, and round again with the next limit.
func (p *Pool) TakeSlots(width, rounds int) (RankSlots, bool) {
	if p.mayCrossNUMA() {
		return p.takeLowest(width)
	}
	for round := 1; round <= rounds; round++ {
		first := p.nextObject
		if p.perObject > 0 {
			first = 0
		}
		for k := range p.objects {
			i := (first + k) % len(p.objects)
			if take, ok := p.TakeSlotsOf(i, width, round); ok {
				p.nextObject = (i + 1) % len(p.objects)
				return take, true
			}
		}
	}
	return RankSlots{}, false
}

// TakeSlotsOf gives a rank slots of one thing.
func (p *Pool) TakeSlotsOf(i, width, rounds int) (RankSlots, bool) {
	t := &p.objects[i]
	if p.objectCapacity(i, width, rounds) == 0 {
		return RankSlots{}, false
	}
	take := RankSlots{Slots: t.freeSlots[:width:width], Object: i}
	t.freeSlots = t.freeSlots[width:]
	t.ranks++
	return take, true
}

// ShareSlots gives a rank slots that others have: those that ranks of its width would get
// on the empty node, round after round.
func (p *Pool) ShareSlots(width int) RankSlots {
	if p.sharedSlots[width] == nil {
		fresh := &Pool{objects: make([]poolObject, len(p.initial)), numaNodes: p.numaNodes}
		var all []int
		for i := range p.initial {
			fresh.objects[i].freeSlots = p.initial[i].freeSlots
			all = append(all, p.initial[i].freeSlots...)
		}
		for take, ok := fresh.TakeSlots(width, 1); ok; take, ok = fresh.TakeSlots(width, 1) {
			p.sharedSlots[width] = append(p.sharedSlots[width], take)
		}
		if p.sharedSlots[width] == nil { // wider than anything
			p.sharedSlots[width] = []RankSlots{{Slots: all[:min(width, len(all))]}}
		}
	}
	k := p.sharedCount[width]
	p.sharedCount[width]++
	return p.sharedSlots[width][k%len(p.sharedSlots[width])]
}
