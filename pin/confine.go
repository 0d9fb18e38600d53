package pin

import (
	"math"
	"slices"
)

// A Confinement says whether all slots of a rank must be in one NUMA node (which-hosts.md 9.2). It applies to
// the ranks of one app context. The zero value does not confine ranks.
type Confinement struct {
	PerNUMA      int   // most ranks in each NUMA node; 0 means no limit
	FirstNodes   int   // use only this many NUMA nodes, with the lowest numbers; 0 means all
	NUMANodes    []int // use only these, by the kernel's numbers; nil means all
	StrictMemory bool  // memory comes from the NUMA node of the rank, whatever other memory options say
}

// IsSet reports whether the confinement restricts ranks.
func (c Confinement) IsSet() bool {
	return c.PerNUMA > 0 || c.FirstNodes > 0 || c.NUMANodes != nil || c.StrictMemory
}

// allowsNUMA reports whether ranks may be in a NUMA node. number is the NUMA node's number, and k is its
// index among the NUMA nodes of the machine.
func (c Confinement) allowsNUMA(k, number int) bool {
	return (c.FirstNodes == 0 || k < c.FirstNodes) && (c.NUMANodes == nil || slices.Contains(c.NUMANodes, number))
}

// NewNUMAPool returns a pool in which the free slots of a node are grouped by NUMA node. It is for jobs in which at
// least one app context is confined. SetConfinement must be called before the ranks of each app context. Slots in
// an unknown NUMA node count as slots of NUMA node 0.
//
//	slots 0 1 2 3 | 4 5 6 7     two NUMA nodes; ranks of 3 slots
//	strict     012    456       at most two ranks
//	free       012 345          an app context that is not confined
func NewNUMAPool(t Topology, slots []Unit, free []int) *Pool {
	p := &Pool{sharedSlots: make(map[int][]RankSlots), sharedCount: make(map[int]int)}
	index := make(map[int]int)
	for _, c := range t.Cores {
		if number := max(0, c.NUMA); !slices.Contains(p.numaNodes, number) {
			p.numaNodes = append(p.numaNodes, number)
		}
	}
	slices.Sort(p.numaNodes)
	for i, number := range p.numaNodes {
		index[number] = i
	}
	p.objects = make([]poolObject, len(p.numaNodes))
	for _, u := range slots {
		p.objects[index[max(0, u.NUMA)]].slots++
	}
	for _, slot := range free {
		t := &p.objects[index[max(0, slots[slot].NUMA)]]
		t.freeSlots = append(t.freeSlots, slot)
	}
	p.saveInitial()
	return p
}

// SetConfinement sets the confinement for the ranks of the next app context. It has an effect only on pools
// that NewNUMAPool has returned.
func (p *Pool) SetConfinement(c Confinement) {
	if p.numaNodes == nil {
		return
	}
	p.perObject = 0
	if c.IsSet() {
		p.perObject = math.MaxInt32
	}
	if c.PerNUMA > 0 {
		p.perObject = c.PerNUMA
	}
	for i := range p.objects {
		p.objects[i].ranks, p.objects[i].closed = 0, !c.allowsNUMA(i, p.numaNodes[i])
	}
}

// mayCrossNUMA reports whether the slots of the next rank may be in several NUMA nodes.
func (p *Pool) mayCrossNUMA() bool { return p.numaNodes != nil && p.perObject == 0 }

// freeSlots returns the number of free slots in the whole pool.
func (p *Pool) freeSlots() int {
	n := 0
	for i := range p.objects {
		n += len(p.objects[i].freeSlots)
	}
	return n
}

// takeLowest takes the free slots with the lowest numbers for a rank, from any NUMA nodes. width is the number of
// slots. It returns false if too few slots are free.
func (p *Pool) takeLowest(width int) (RankSlots, bool) {
	if p.freeSlots() < width {
		return RankSlots{}, false
	}
	var take RankSlots
	for range width {
		lowest := -1
		for i := range p.objects {
			if free := p.objects[i].freeSlots; len(free) > 0 && (lowest < 0 || free[0] < p.objects[lowest].freeSlots[0]) {
				lowest = i
			}
		}
		t := &p.objects[lowest]
		take.Slots, t.freeSlots = append(take.Slots, t.freeSlots[0]), t.freeSlots[1:]
	}
	return take, true
}

// Option returns the command-line option that confines ranks, for use in messages. If several options confine ranks, it
// returns only one of them.
func (c Confinement) Option() string {
	switch {
	case c.PerNUMA > 0:
		return "--per-numa"
	case c.NUMANodes != nil:
		return "--numa-list"
	case c.FirstNodes > 0:
		return "--numa-nodes"
	}
	return "--strict-mem"
}
