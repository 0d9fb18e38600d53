package pin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/idset"
)

// A Pool holds the free slots of one node, grouped by the hardware objects to which ranks are mapped.
//
//	slots 0 1 2 3 | 4 5 6 7       two sockets, slot 1 busy
//	pool  0 2 3   | 4 5 6 7       TakeSlots(1): 0, 4, 2, 5, ...; with ppr:2 0, 2, 4, 5
//
// The width of a rank is the number of slots that the rank needs. All slots of a rank are in one object.
type Pool struct {
	objects    []poolObject
	perObject  int   // ranks for each object; 0 means no limit
	nextObject int   // the object that gets the next rank
	numaNodes  []int // numbers of the objects in a pool of NewNUMAPool; else nil

	initial     []poolObject        // the free slots before any were taken
	sharedSlots map[int][]RankSlots // by width: the slots for ranks if none are free, used in turn
	sharedCount map[int]int         // by width: how many ranks share slots
}

// A poolObject is a hardware object, with its free slots in slot order and the number of ranks placed on it.
type poolObject struct {
	freeSlots []int
	slots     int // number of slots, free or not
	ranks     int

	closed bool // no rank may use it
}

// A RankSlots says which slots one rank gets.
type RankSlots struct {
	Slots  []int
	Object int // index of the object that contains them
}

// NewPool returns the pool of a node that has passed CheckLayout. slots contains all slots of the node in slot order,
// and free the indexes of the free slots. width is the number of slots of the widest rank. threads is true if slots are
// hardware threads.
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
		p.splitByCount(mappingOrder(t, slots, threads), free, max(1, l.Map.Count))
	default:
		p.splitByObject(t, slots, free, l.Map)
	}
	p.saveInitial()
	return p
}

// saveInitial saves which slots of each object are free, before ranks take any.
func (p *Pool) saveInitial() {
	p.initial = make([]poolObject, len(p.objects))
	for i := range p.objects {
		p.initial[i] = poolObject{freeSlots: p.objects[i].freeSlots, slots: p.objects[i].slots}
	}
}

// cpuList returns the CPUs to which a layout is restricted. nil means that all CPUs may be used.
func (l Layout) cpuList() []CPURange {
	if l.Map.PEList != nil {
		return l.Map.PEList
	}
	return l.Bind.CPUList
}

// NamesCPUs reports whether the options of a layout name CPUs by number.
func (l Layout) NamesCPUs() bool { return l.cpuList() != nil || l.Bind.Sets != nil }

// CheckLayout returns an error if the node lacks something that the layout needs. slots contains all slots of the node.
func (t Topology) CheckLayout(slots []Unit, busy BusyUnits, l Layout, threads bool) error {
	bind := l.Bind.Level
	if l.Bind.IfSupported && !t.KnowsLevel(bind) {
		bind = BySlot
	}
	for _, level := range []Level{l.Map.Level, bind} {
		if !t.KnowsLevel(level) {
			return fmt.Errorf("the host does not report its %s", levelPlural(level))
		}
	}
	if l.Bind.Count > 1 && bind != BySlot {
		if _, objects := t.objects(bind, 1); len(objects) < l.Bind.Count {
			name := levelPlural(bind)
			if len(objects) == 1 {
				name = strings.TrimSuffix(name, "s")
			}
			return fmt.Errorf("the host has %d %s, but --bind-to needs %d", len(objects), name, l.Bind.Count)
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

// checkMemory returns an error if the memory policy names a NUMA node that the node does not have.
func (t Topology) checkMemory(m Memory) error {
	has := t.NUMANodes()
	if m.Mode == Interleave && len(has) == 0 {
		return errors.New("the host does not report its NUMA nodes")
	}
	for _, n := range m.Nodes {
		if !slices.Contains(has, n) {
			return fmt.Errorf("the host has no NUMA node %d; it has %s", n, cmp.Or(idset.Text(has), "none"))
		}
	}
	return nil
}

// NUMANodes returns the numbers of the NUMA nodes to which the cores belong, in ascending order. Cores whose NUMA node
// is unknown are left out.
func (t Topology) NUMANodes() []int {
	numbers, _ := t.objects(ByNUMA, 1)
	return numbers
}

// checkCPUSets returns an error if a CPU in one of the sets is not usable or not free.
func (t Topology) checkCPUSets(slots []Unit, busy BusyUnits, sets [][]int) error {
	if sets == nil {
		return nil
	}
	has := make(map[int]bool) // for a usable CPU: whether it is free
	for _, u := range slots {
		for _, cpu := range u.CPUs {
			has[cpu] = !busy[u.Number]
		}
	}
	for _, set := range sets {
		for _, cpu := range set {
			if free, usable := has[cpu]; !usable {
				return fmt.Errorf("ranks on the host may not use CPU %d; they may use %s", cpu, cmp.Or(idset.Text(slices.Sorted(maps.Keys(has))), "no CPU"))
			} else if !free {
				return fmt.Errorf("CPU %d of the host is in use by another job", cpu)
			}
		}
	}
	return nil
}

// intersect returns the numbers that both list and others contain. It changes list.
func intersect(list, others []int) []int {
	among := make(map[int]bool, len(others))
	for _, n := range others {
		among[n] = true
	}
	return slices.DeleteFunc(list, func(n int) bool { return !among[n] })
}

// mappingOrder returns, for each slot, its position in the order in which ranks get slots. If slots are hardware
// threads, the slots of one core follow one another in this order. Otherwise it is the slot order.
func mappingOrder(t Topology, slots []Unit, threads bool) []int {
	core := t.coreOfCPU()
	order, position := make([]int, len(slots)), make([]int, len(slots))
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
		position[slot] = i
	}
	return position
}

// splitByCount groups the slots into objects of count consecutive slots each. position is the result of mappingOrder.
func (p *Pool) splitByCount(position, free []int, count int) {
	p.objects = make([]poolObject, (len(position)+count-1)/count)
	for i := range position {
		p.objects[i/count].slots++
	}
	for _, slot := range free {
		t := &p.objects[position[slot]/count]
		t.freeSlots = append(t.freeSlots, slot)
	}
}

func levelPlural(l Level) string {
	if l == ByNUMA {
		return "NUMA nodes"
	}
	return l.String() + "s"
}

// splitByObject groups the free slots by the hardware objects that contain them. With a count in the mapping, that many
// neighboring hardware objects form one object of the pool.
func (p *Pool) splitByObject(t Topology, slots []Unit, free []int, m Mapping) {
	firsts, group := t.objects(m.Level, m.Count)
	p.objects = make([]poolObject, len(firsts))
	groupOf := t.groupOfSlots(slots, m.Level, group)
	for _, i := range groupOf {
		if i >= 0 {
			p.objects[i].slots++
		}
	}
	for _, slot := range free {
		if i := groupOf[slot]; i >= 0 {
			p.objects[i].freeSlots = append(p.objects[i].freeSlots, slot)
		}
	}
}

// groupOfSlots returns the group of each slot, or -1 for a slot that belongs to no group. group maps the number
// of each hardware object at level l to its group.
func (t Topology) groupOfSlots(slots []Unit, l Level, group map[int]int) []int {
	core := t.coreOfCPU()
	byCore := make([]int, len(t.Cores))
	for i := range t.Cores {
		byCore[i] = -1
		if n := t.objectOfCore(i, l); n >= 0 {
			byCore[i] = group[n]
		}
	}
	groupOf := make([]int, len(slots))
	for slot, u := range slots {
		groupOf[slot] = byCore[core[u.CPUs[0]]]
	}
	return groupOf
}

// slotsOfRanges returns the slots that contain CPUs of the ranges, in the order of the ranges. It leaves out CPUs that
// belong to no slot, such as those that are reserved for the operating system. It returns an error if no CPU is left.
func slotsOfRanges(t Topology, slots []Unit, ranges []CPURange, threads bool) ([]int, error) {
	cpus, err := t.Numbering(threads).CPUs(ranges)
	if err != nil {
		return nil, err
	}
	slotOf := make(map[int]int)
	for slot, u := range slots {
		for _, cpu := range u.CPUs {
			slotOf[cpu] = slot
		}
	}
	var listed []int
	seen := make(map[int]bool)
	for _, cpu := range cpus {
		if slot, usable := slotOf[cpu]; usable && !seen[slot] {
			seen[slot] = true
			listed = append(listed, slot)
		}
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("ranks on the host may use none of the listed CPUs; they may use %s", cmp.Or(idset.Text(slices.Sorted(maps.Keys(slotOf))), "no CPU"))
	}
	return listed, nil
}

// CountObjects returns the number of hardware objects by which the slots of the pool are grouped.
func (p *Pool) CountObjects() int { return len(p.objects) }

// Capacity returns how many more ranks fit into the pool if each rank needs width slots. With ppr:N, an object takes up
// to N ranks in each round, and rounds is the number of rounds.
func (p *Pool) Capacity(width, rounds int) int {
	if p.mayCrossNUMA() {
		return p.freeSlots() / width
	}
	capacity := 0
	for i := range p.objects {
		capacity += p.objectCapacity(i, width, rounds)
	}
	return capacity
}

func (p *Pool) objectCapacity(i, width, rounds int) int {
	if p.objects[i].closed {
		return 0
	}
	capacity := len(p.objects[i].freeSlots) / width
	if p.perObject > 0 {
		capacity = min(capacity, max(0, p.perObject*rounds-p.objects[i].ranks))
	}
	return capacity
}

// CapacityByLimit returns how many more ranks ppr:N allows in the given number of rounds, regardless of free slots.
func (p *Pool) CapacityByLimit(rounds int) int {
	left := 0
	for i := range p.objects {
		left += max(0, p.perObject*rounds-p.objects[i].ranks)
	}
	return left
}

// TakeSlots takes slots for the next rank from the pool. By default, objects are used in turn. With ppr:N, each object
// gets N ranks before the next object is used, and this is repeated for the given number of rounds. TakeSlots returns
// false if no object has enough free slots, or ppr:N allows no more ranks.
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

// TakeSlotsOf takes slots for a rank from object i. It returns false if that object has too few free slots, or already
// has its maximum number of ranks.
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

// ShareSlots returns slots for a rank. Other ranks use these slots, too. Successive calls return the sets of slots that
// ranks of this width would get if the node were empty.
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
		if p.sharedSlots[width] == nil { // wider than any object
			p.sharedSlots[width] = []RankSlots{{Slots: all[:min(width, len(all))]}}
		}
	}
	k := p.sharedCount[width]
	p.sharedCount[width]++
	return p.sharedSlots[width][k%len(p.sharedSlots[width])]
}
