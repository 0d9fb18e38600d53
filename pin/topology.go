/*
Package pin knows the CPUs of one node, and which of them each rank is bound to.

	/sys --> Topology --List--> units --Slots--> units in slot order
	                                                   |  Free: those nobody has
	          what a rank is bound to <--NewSeat-- slots of a rank

A unit is what one slot stands for: a physical core with at least one allowed CPU,
or, where the administrator says so, one hardware thread (placement.md sections 0
and 7). The package decides; the helper applies. It makes no system calls: the tree
it reads is an argument, so that a captured tree of another machine does as well.
*/
package pin

import (
	"fmt"
	"slices"

	"remshell/idset"
)

// A Core is a physical core with its hardware threads, by their kernel numbers.
type Core struct {
	CPUs     []int // those that may be used, ascending; may be empty
	Unusable []int // those outside of the helper's mask or cpuset, ascending
	CoreLocation
}

// A CoreLocation is where in its node a core is. A number is -1 where it is unknown, or
// where there is no such thing: some cores have no L3.
type CoreLocation struct {
	NUMA    int // the memory node, as the kernel numbers them
	Package int // the socket, as the kernel numbers them
	L3, L2  int // the cache; caches count from 0 in the order of their lowest CPU
	Kind    CoreKind
}

// UnknownLocation is the place of a core of which nobody said where it is.
var UnknownLocation = CoreLocation{NUMA: -1, Package: -1, L3: -1, L2: -1}

// A CoreKind tells the cores of a hybrid processor apart; empty: all are alike, or it is
// unknown.
type CoreKind string

// The kinds.
const (
	Performance CoreKind = "performance"
	Efficiency  CoreKind = "efficiency"
)

// lowestCPU is the lowest CPU of the core, usable or not.
func (c Core) lowestCPU() int {
	if len(c.CPUs) == 0 || len(c.Unusable) > 0 && c.Unusable[0] < c.CPUs[0] {
		return c.Unusable[0]
	}
	return c.CPUs[0]
}

// AllCPUs lists the CPUs of the core, usable or not, ascending.
func (c Core) AllCPUs() []int { return slices.Sorted(slices.Values(slices.Concat(c.CPUs, c.Unusable))) }

// A Topology is what a node has. The zero value is a node nobody has looked at.
type Topology struct {
	Cores []Core // all that are online, ordered by lowest CPU; the index is the core number (7.1)
}

// Equal reports whether two nodes have the same.
func (t Topology) Equal(other Topology) bool {
	return slices.EqualFunc(t.Cores, other.Cores, func(a, b Core) bool {
		return a.CoreLocation == b.CoreLocation && slices.Equal(a.CPUs, b.CPUs) && slices.Equal(a.Unusable, b.Unusable)
	})
}

// AllUsable is the topology of the same node with all its CPUs usable.
func (t Topology) AllUsable() Topology {
	if !slices.ContainsFunc(t.Cores, func(c Core) bool { return len(c.Unusable) > 0 }) {
		return t
	}
	whole := Topology{Cores: slices.Clone(t.Cores)}
	for i, c := range t.Cores {
		whole.Cores[i].CPUs, whole.Cores[i].Unusable = c.AllCPUs(), nil
	}
	return whole
}

// maxCPU bounds the numbers ParseCPUs accepts; no kernel knows so many CPUs.
const maxCPU = 1 << 16

// ParseCPUs reads the kernel's list notation, "0-3,8"; the empty text is the
// empty list.
func ParseCPUs(list string) ([]int, error) {
	cpus, err := idset.Parse(list, maxCPU)
	if err != nil {
		return nil, fmt.Errorf("CPU %w", err)
	}
	return cpus, nil
}
