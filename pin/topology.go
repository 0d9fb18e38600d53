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
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// A Core is a physical core with its hardware threads, by their kernel numbers.
type Core struct {
	CPUs []int // those that may be used, ascending; may be empty
	Shut []int // those outside of the helper's mask or cpuset, ascending
	NUMA int   // the memory node it lies in; -1: unknown
}

// first is the lowest CPU of the core, usable or not.
func (c Core) first() int {
	if len(c.CPUs) == 0 || len(c.Shut) > 0 && c.Shut[0] < c.CPUs[0] {
		return c.Shut[0]
	}
	return c.CPUs[0]
}

// A Topology is what a node has. The zero value is a node nobody has looked at.
type Topology struct {
	Cores []Core // all that are online, ordered by lowest CPU; the index is the core number (7.1)
}

// ReadTopology reads the cores from sys, the root of a sysfs tree. The allowed CPUs
// are those that may be used. A CPU without topology files, as in some containers,
// is a core of its own.
func ReadTopology(sys fs.FS, allowed []int) (Topology, error) {
	usable := make(map[int]bool, len(allowed))
	for _, cpu := range allowed {
		usable[cpu] = true
	}
	memory, err := readMemory(sys)
	if err != nil {
		return Topology{}, err
	}
	online := slices.Compact(slices.Sorted(slices.Values(append(readOnline(sys), allowed...))))
	seen := make(map[int]bool, len(online))
	var t Topology
	for _, cpu := range online {
		if seen[cpu] {
			continue
		}
		siblings, err := readSiblings(sys, cpu)
		if err != nil {
			return Topology{}, err
		}
		core := Core{NUMA: -1}
		if node, known := memory[cpu]; known {
			core.NUMA = node
		}
		for _, s := range siblings {
			if _, there := slices.BinarySearch(online, s); there && !seen[s] {
				seen[s] = true
				core.add(s, usable[s])
			}
		}
		t.Cores = append(t.Cores, core)
	}
	slices.SortFunc(t.Cores, func(a, b Core) int { return cmp.Compare(a.first(), b.first()) })
	return t, nil
}

func (c *Core) add(cpu int, usable bool) {
	if usable {
		c.CPUs = append(c.CPUs, cpu)
	} else {
		c.Shut = append(c.Shut, cpu)
	}
}

// readOnline lists the CPUs that are online; none if the kernel does not say.
func readOnline(sys fs.FS) []int {
	text, err := fs.ReadFile(sys, "devices/system/cpu/online")
	if err != nil {
		return nil
	}
	cpus, _ := ParseCPUs(strings.TrimSpace(string(text)))
	return cpus
}

// readMemory maps CPUs to NUMA nodes; a kernel without NUMA maps none.
func readMemory(sys fs.FS) (map[int]int, error) {
	lists, err := fs.Glob(sys, "devices/system/node/node[0-9]*/cpulist")
	if err != nil {
		return nil, err
	}
	memory := make(map[int]int)
	for _, name := range lists {
		folder := strings.TrimPrefix(name, "devices/system/node/node")
		node, err := strconv.Atoi(strings.TrimSuffix(folder, "/cpulist"))
		if err != nil {
			continue
		}
		text, err := fs.ReadFile(sys, name)
		if err != nil {
			continue
		}
		cpus, err := ParseCPUs(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("/sys/%s: %w", name, err)
		}
		for _, cpu := range cpus {
			memory[cpu] = node
		}
	}
	return memory, nil
}

// readSiblings lists the hardware threads of cpu's core, ascending, cpu itself
// included.
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
	slices.Sort(siblings)
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
