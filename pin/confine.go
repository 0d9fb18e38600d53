package pin

import (
	"math"
	"slices"
)

// A Confinement keeps the ranks of a section inside of NUMA nodes (which-hosts.md 9.2): each has all
// of its slots in one of them. The zero value keeps nobody.
type Confinement struct {
	Each   int   // most ranks in each NUMA node; 0: no limit
	Lowest int   // only so many NUMA nodes, those of the lowest numbers; 0: all
	List   []int // only these, by the kernel's numbers; nil: all
	Strict bool  // memory comes from the NUMA node of the rank, whatever else was said of memory
}

// Confines reports whether anything was said.
func (c Confinement) Confines() bool {
	return c.Each > 0 || c.Lowest > 0 || c.List != nil || c.Strict
}

// allows reports whether ranks may be in the k-th NUMA node of a node, by its number.
func (c Confinement) allows(k, number int) bool {
	return (c.Lowest == 0 || k < c.Lowest) && (c.List == nil || slices.Contains(c.List, number))
}

// NewNUMAPool sorts the free slots of a node by NUMA nodes, for jobs of which some section is
// confined: Confine says what holds for the section whose ranks come next. A slot of which nobody
// said where it is counts in NUMA node 0.
//
//	slots 0 1 2 3 | 4 5 6 7     two NUMA nodes; ranks of 3 slots
//	strict     012    456       at most two of them
//	free       012 345          a section that is not confined
func NewNUMAPool(t Topology, slots []Unit, free []int) *Pool {
	p := &Pool{again: make(map[int][]Take), round: make(map[int]int)}
	index := make(map[int]int)
	for _, c := range t.Cores {
		if number := max(0, c.NUMA); !slices.Contains(p.numa, number) {
			p.numa = append(p.numa, number)
		}
	}
	slices.Sort(p.numa)
	for i, number := range p.numa {
		index[number] = i
	}
	p.things = make([]thing, len(p.numa))
	for _, u := range slots {
		p.things[index[max(0, u.NUMA)]].size++
	}
	for _, slot := range free {
		t := &p.things[index[max(0, slots[slot].NUMA)]]
		t.free = append(t.free, slot)
	}
	p.keepWhole()
	return p
}

// Confine begins a section of the job. It has no effect on other pools than those of NewNUMAPool.
func (p *Pool) Confine(c Confinement) {
	if p.numa == nil {
		return
	}
	p.each = 0
	if c.Confines() {
		p.each = math.MaxInt32
	}
	if c.Each > 0 {
		p.each = c.Each
	}
	for i := range p.things {
		p.things[i].ranks, p.things[i].closed = 0, !c.allows(i, p.numa[i])
	}
}

// crosses reports whether the ranks that come next may have slots of several NUMA nodes.
func (p *Pool) crosses() bool { return p.numa != nil && p.each == 0 }

// free is how many slots nobody has.
func (p *Pool) unused() int {
	n := 0
	for i := range p.things {
		n += len(p.things[i].free)
	}
	return n
}

// takeLowest gives a rank the lowest free slots, wherever they are.
func (p *Pool) takeLowest(width int) (Take, bool) {
	if p.unused() < width {
		return Take{}, false
	}
	var take Take
	for range width {
		lowest := -1
		for i := range p.things {
			if free := p.things[i].free; len(free) > 0 && (lowest < 0 || free[0] < p.things[lowest].free[0]) {
				lowest = i
			}
		}
		t := &p.things[lowest]
		take.Slots, t.free = append(take.Slots, t.free[0]), t.free[1:]
	}
	return take, true
}

// Option is the option that said it, for messages: the first of several.
func (c Confinement) Option() string {
	switch {
	case c.Each > 0:
		return "--per-numa"
	case c.List != nil:
		return "--numa-list"
	case c.Lowest > 0:
		return "--numa-nodes"
	}
	return "--strict-mem"
}
