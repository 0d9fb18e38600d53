/*
Package pin knows the CPUs of one node and, later, which of them each rank is
bound to.

	/sys/devices/system/cpu --> Topology --> units (what one slot stands for)

A unit is a physical core with at least one allowed CPU: hyper-threads never make
more slots (placement.md section 0). The package decides; the helper applies. It
makes no system calls: the tree it reads is an argument, so that a captured tree
of another machine does as well.
*/
package pin

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// A Core is a physical core and those of its hardware threads that may be used.
type Core struct {
	CPUs []int // numbers of the kernel, ascending, at least one
}

// A Topology is what a node offers.
type Topology struct {
	Cores []Core // ordered by lowest CPU
}

// Units is the number of slots of the node, S in placement.md section 0.
func (t Topology) Units() int { return len(t.Cores) }

// ReadTopology reads the cores of the allowed CPUs from sys, the root of a sysfs
// tree. A CPU without topology files, as in some containers, is a core of its own.
func ReadTopology(sys fs.FS, allowed []int) (Topology, error) {
	left := make(map[int]bool, len(allowed))
	for _, cpu := range allowed {
		left[cpu] = true
	}
	var t Topology
	for _, cpu := range allowed {
		if !left[cpu] {
			continue
		}
		siblings, err := readSiblings(sys, cpu)
		if err != nil {
			return Topology{}, err
		}
		var core Core
		for _, s := range siblings {
			if left[s] {
				core.CPUs = append(core.CPUs, s)
				delete(left, s)
			}
		}
		slices.Sort(core.CPUs)
		t.Cores = append(t.Cores, core)
	}
	slices.SortFunc(t.Cores, func(a, b Core) int { return cmp.Compare(a.CPUs[0], b.CPUs[0]) })
	return t, nil
}

// readSiblings lists the hardware threads of cpu's core, cpu itself included.
func readSiblings(sys fs.FS, cpu int) ([]int, error) {
	name := fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)
	text, err := fs.ReadFile(sys, name)
	if err != nil {
		return []int{cpu}, nil
	}
	siblings, err := ParseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("/sys/%s: %w", name, err)
	}
	if !slices.Contains(siblings, cpu) {
		siblings = append(siblings, cpu)
	}
	return siblings, nil
}

// maxCPU bounds the numbers ParseCPUs accepts; no kernel knows so many CPUs.
const maxCPU = 1 << 16

// ParseCPUs reads the kernel's list notation, "0-3,8"; the empty text is the
// empty list.
func ParseCPUs(list string) ([]int, error) {
	var cpus []int
	if list == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(item, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last > maxCPU {
			return nil, fmt.Errorf("CPU list %q: bad item %q", list, item)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
