package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"remshell/pin"
)

// maxCPUs is the maximum number of hardware threads that a node in a state file may have.
const maxCPUs = 1 << 17

// A core is one core in a state file that lists cores one by one. The last block of fields is an extension of the
// format.
type core struct {
	CPUs []int `json:"cpus"`
	NUMA *int  `json:"numa"`

	Package *int         `json:"package,omitempty"`
	L3      *int         `json:"l3,omitempty"`
	L2      *int         `json:"l2,omitempty"`
	Kind    pin.CoreKind `json:"kind,omitempty"`
}

// location returns the NUMA node, the package and the caches to which a core of the state file belongs. A number that
// is missing in the file becomes -1.
func (c core) location() pin.CoreLocation {
	return pin.CoreLocation{NUMA: valueOr(c.NUMA, -1), Package: valueOr(c.Package, -1), L3: valueOr(c.L3, -1), L2: valueOr(c.L2, -1), Kind: c.Kind}
}

// topologies stores each regular topology once, so that nodes of the same kind share it. Without sharing, a file of
// 10,000 nodes would need a million cores in memory.
type topologies map[[3]int]pin.Topology

// topologyOf returns the topology of a node. It returns the zero Topology if the node's size is unknown.
func (s topologies) topologyOf(n *node) (pin.Topology, error) {
	if n.Cores != nil {
		return listedTopology(n.Cores, n.Allowed)
	}
	if n.CPUs == nil {
		return pin.Topology{}, nil
	}
	shape := [3]int{*n.CPUs, valueOr(n.Threads, 1), valueOr(n.NUMA, 1)}
	if slices.Min(shape[1:]) < 1 || shape[0] < 0 || shape[0] > maxCPUs || shape[1] > maxCPUs || shape[0]*shape[1] > maxCPUs {
		return pin.Topology{}, fmt.Errorf("a node cannot have %d cores with %d threads each and %d NUMA nodes", shape[0], shape[1], shape[2])
	}
	t, known := s[shape]
	if !known {
		t = regularTopology(shape[0], shape[1], shape[2])
		s[shape] = t
	}
	return restrictCPUs(t, n.Allowed), nil
}

func valueOr(p *int, fallback int) int {
	if p == nil {
		return fallback
	}
	return *p
}

// regularTopology returns a topology whose CPUs are numbered as on most machines (placement.md 9.1). Thread k
// of core i is CPU i + k*cores. Core i is in NUMA node i*numa/cores.
func regularTopology(cores, threads, numa int) pin.Topology {
	t := pin.Topology{Cores: make([]pin.Core, cores)}
	for i := range t.Cores {
		cpus := make([]int, threads)
		for k := range cpus {
			cpus[k] = i + k*cores
		}
		t.Cores[i] = pin.Core{CPUs: cpus, CoreLocation: pin.UnknownLocation}
		t.Cores[i].NUMA = i * numa / cores
	}
	return t
}

// listedTopology returns the topology of a node whose cores are listed. allowed are the usable CPUs, or nil if all
// are usable.
func listedTopology(cores []core, allowed *[]int) (pin.Topology, error) {
	var t pin.Topology
	seen := make(map[int]bool)
	for _, c := range cores {
		if len(c.CPUs) == 0 {
			return t, fmt.Errorf("a core in the list has no CPUs")
		}
		for _, cpu := range c.CPUs {
			if cpu < 0 || cpu > maxCPUs || seen[cpu] {
				return t, fmt.Errorf("CPU %d is invalid, or listed twice in the cores", cpu)
			}
			seen[cpu] = true
		}
		t.Cores = append(t.Cores, pin.Core{CPUs: slices.Sorted(slices.Values(c.CPUs)), CoreLocation: c.location()})
	}
	slices.SortFunc(t.Cores, func(a, b pin.Core) int { return cmp.Compare(a.CPUs[0], b.CPUs[0]) })
	return restrictCPUs(t, allowed), nil
}

// restrictCPUs returns a topology in which the CPUs of t that are not in allowed are unusable. If allowed is nil, all
// CPUs stay usable.
func restrictCPUs(t pin.Topology, allowed *[]int) pin.Topology {
	if allowed == nil {
		return t
	}
	usable := make(map[int]bool)
	for _, cpu := range *allowed {
		usable[cpu] = true
	}
	bounded := pin.Topology{Cores: make([]pin.Core, len(t.Cores))}
	for i, c := range t.Cores {
		b := pin.Core{CoreLocation: c.CoreLocation}
		for _, cpu := range c.CPUs {
			if usable[cpu] {
				b.CPUs = append(b.CPUs, cpu)
			} else {
				b.Unusable = append(b.Unusable, cpu)
			}
		}
		bounded.Cores[i] = b
	}
	return bounded
}
