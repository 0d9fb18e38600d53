/*
Package gpu detects the GPUs of one node, assigns them to ranks, and returns the environment variables that make
GPUs visible to a rank.

	/sys, /proc --Read--> all --AllowedByEnv--> usable ones --OfBestVendor--> of one vendor
	                                                                                |  WithoutAddresses: other jobs'
	  variables of a rank <--VisibleEnv-- GPUs of a rank <--ChooseForRank, AssignNear-'

A GPU is a device that an environment variable of the vendor's runtime can show to a process or hide from it. The device
is a card, or a part of a card with its own PCI function. Like package pin, this package makes no system calls: it reads
a file tree that it gets as an argument. This tree may be a copy of another machine's tree. It does not call drivers,
and does not support NVIDIA's MIG slices.
*/
package gpu

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A Vendor is the vendor of a GPU. The vendor determines the runtime, and therefore the environment variables.
type Vendor string

// These are the vendors of GPUs. If a node has equal numbers of GPUs of two vendors, ranks use the GPUs of the vendor
// that is listed first.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

var vendors = []Vendor{NVIDIA, AMD, Intel}

// Known reports whether v is a vendor whose GPUs this package supports.
func (v Vendor) Known() bool { return slices.Contains(vendors, v) }

// A GPU is one GPU of a node.
type GPU struct {
	Vendor  Vendor `json:"vendor"`
	Index   int    `json:"index"`           // index in its runtime, with the settings of VisibleEnv
	Tiles   []int  `json:"tiles,omitempty"` // Intel: its indices if tiles count as devices; nil: use Index
	Address string `json:"address"`         // PCI address, 0000:c7:00.0; unique on the node
	NUMA    int    `json:"numa"`            // NUMA node to which it is attached; -1: unknown
	Driver  string `json:"driver,omitempty"`
}

// OfBestVendor returns the GPUs that ranks can use. These are the GPUs of the vendor with the largest number of
// GPUs on the node. A program is built for one vendor, and a single GPU of another vendor usually drives the
// screen.
func OfBestVendor(all []GPU) []GPU {
	var most []GPU
	for _, v := range vendors {
		if mine := ofVendor(v, all); len(mine) > len(most) {
			most = mine
		}
	}
	return most
}

func ofVendor(v Vendor, all []GPU) []GPU {
	return filterGPUs(all, func(g GPU) bool { return g.Vendor == v })
}

func filterGPUs(all []GPU, match func(GPU) bool) []GPU {
	var kept []GPU
	for _, g := range all {
		if match(g) {
			kept = append(kept, g)
		}
	}
	return kept
}

// WithoutAddresses returns all GPUs except those whose address is in addresses.
func WithoutAddresses(all []GPU, addresses []string) []GPU {
	return filterGPUs(all, func(g GPU) bool { return !slices.Contains(addresses, g.Address) })
}

// WithIndices returns the GPUs whose index is in list, such as "0,2-3". An empty list selects all GPUs.
func WithIndices(all []GPU, list string) []GPU {
	if list == "" {
		return all
	}
	return filterGPUs(all, func(g GPU) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(part string) bool {
			low, high, isRange := strings.Cut(part, "-")
			if !isRange {
				high = low
			}
			first, err1 := strconv.Atoi(low)
			last, err2 := strconv.Atoi(high)
			return err1 == nil && err2 == nil && first <= g.Index && g.Index <= last
		})
	})
}

// Addresses returns the PCI addresses of gpus, which identify them on their node.
func Addresses(gpus []GPU) []string {
	var addresses []string
	for _, g := range gpus {
		addresses = append(addresses, g.Address)
	}
	return addresses
}

// ChooseForRank chooses n GPUs for a rank whose CPUs have not been chosen yet. It starts with the first GPU, in
// runtime order, whose NUMA node has free CPUs. If there is no such GPU, it starts with the first GPU. It continues
// with GPUs in the same NUMA node, and then with others. hasCPUs reports whether a NUMA node has free CPUs for the
// rank. free must contain at least n GPUs.
func ChooseForRank(free []GPU, n int, hasCPUs func(numa int) bool) []GPU {
	first := max(0, slices.IndexFunc(free, func(g GPU) bool { return hasCPUs(g.NUMA) }))
	picked := []GPU{free[first]}
	for _, near := range []bool{true, false} {
		for i, g := range free {
			if i != first && (g.NUMA == free[first].NUMA) == near && len(picked) < n {
				picked = append(picked, g)
			}
		}
	}
	return sortByRuntimeOrder(picked)
}

// A Demand says how many GPUs a rank needs, and in which NUMA nodes its CPUs are. The CPUs have already been
// chosen.
type Demand struct {
	N    int
	NUMA []int
}

// AssignNear assigns GPUs to the ranks of a node. In a first round, each rank, in order, gets GPUs near its CPUs.
// In a second round, each rank gets the GPUs that it still needs. free must contain as many GPUs as all ranks need
// together.
func AssignNear(free []GPU, demands []Demand) [][]GPU {
	assigned := make([][]GPU, len(demands))
	left := slices.Clone(free)
	for _, near := range []bool{true, false} {
		for i, w := range demands {
			left = slices.DeleteFunc(left, func(g GPU) bool {
				if len(assigned[i]) >= w.N || near && !slices.Contains(w.NUMA, g.NUMA) {
					return false
				}
				assigned[i] = append(assigned[i], g)
				return true
			})
		}
	}
	for i := range assigned {
		assigned[i] = sortByRuntimeOrder(assigned[i])
	}
	return assigned
}

// sortByRuntimeOrder sorts the GPUs of one vendor by Index, in place, and returns gpus.
func sortByRuntimeOrder(gpus []GPU) []GPU {
	slices.SortFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus
}

// FormatGPUs formats GPUs of one vendor for people, such as "0,2 (nvidia)". It returns "" if gpus is empty.
func FormatGPUs(gpus []GPU) string {
	if len(gpus) == 0 {
		return ""
	}
	var numbers []int
	for _, g := range gpus {
		numbers = append(numbers, g.Index)
	}
	return joinNumbers(numbers) + " (" + string(gpus[0].Vendor) + ")"
}

func joinNumbers(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
