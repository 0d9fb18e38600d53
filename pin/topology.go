/*
Package pin models the CPUs of one node, and decides to which CPUs each rank is bound.

	/sys --ReadTopology--> Topology --ListUnits--> units --OrderByMap--> units in slot order
	                                                                         |  FreeSlots
	              CPUs and memory of a rank <--NewAssignment-- slots of a rank

A unit is the hardware of one slot (placement.md 0 and 7). By default, it is a physical core with at least one
allowed CPU. With the administrator's setting countThreads, it is a hardware thread. The package makes no system calls:
the helper binds the ranks. The package reads sysfs from an fs.FS, which may be a copy from another machine.

The package also parses the values of --map-by, --rank-by, --bind-to and -membind. mapping.go says how to add a
policy of --map-by.
*/
package pin

import (
	"fmt"
	"slices"

	"remshell/idset"
)

// A Core is a physical core with the kernel's numbers of its hardware threads.
type Core struct {
	CPUs     []int // usable CPUs, ascending; may be empty
	Unusable []int // CPUs outside the helper's affinity mask or cpuset, ascending
	CoreLocation
}

// A CoreLocation says where in its node a core is. A number is -1 if it is unknown. L3 and L2 are also -1 if the core
// has no such cache.
type CoreLocation struct {
	NUMA    int // the kernel's number of its NUMA node
	Package int // the kernel's number of its socket
	L3, L2  int // caches count from 0 in the order of their lowest CPU
	Kind    CoreKind
}

// UnknownLocation is the location of a core about which nothing is known.
var UnknownLocation = CoreLocation{NUMA: -1, Package: -1, L3: -1, L2: -1}

// A CoreKind is the kind of a core of a hybrid processor. It is empty if all cores are of one kind or the kind is
// unknown.
type CoreKind string

// These are the kinds of cores of a hybrid processor.
const (
	Performance CoreKind = "performance"
	Efficiency  CoreKind = "efficiency"
)

// lowestCPU returns the lowest CPU number of the core, whether or not that CPU is usable.
func (c Core) lowestCPU() int {
	if len(c.CPUs) == 0 || len(c.Unusable) > 0 && c.Unusable[0] < c.CPUs[0] {
		return c.Unusable[0]
	}
	return c.CPUs[0]
}

// AllCPUs returns the usable and unusable CPUs of the core, in ascending order.
func (c Core) AllCPUs() []int { return slices.Sorted(slices.Values(slices.Concat(c.CPUs, c.Unusable))) }

// A Topology describes the cores of a node. The zero value stands for a node that was not probed.
type Topology struct {
	Cores []Core // all that are online, ordered by lowest CPU; the index is the core number (7.1)
}

// Equal reports whether two topologies are equal.
func (t Topology) Equal(other Topology) bool {
	return slices.EqualFunc(t.Cores, other.Cores, func(a, b Core) bool {
		return a.CoreLocation == b.CoreLocation && slices.Equal(a.CPUs, b.CPUs) && slices.Equal(a.Unusable, b.Unusable)
	})
}

// AllUsable returns a copy of the topology in which all CPUs are usable.
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

// maxCPU is an upper bound: ParseCPUs accepts only CPU numbers below maxCPU. No kernel supports that many CPUs.
const maxCPU = 1 << 16

// ParseCPUs parses a list of CPUs in the kernel's notation, such as "0-3,8". An empty string stands for an empty list.
func ParseCPUs(list string) ([]int, error) {
	cpus, err := idset.Parse(list, maxCPU)
	if err != nil {
		return nil, fmt.Errorf("CPU %w", err)
	}
	return cpus, nil
}
