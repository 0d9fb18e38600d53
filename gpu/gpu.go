/*
Package gpu knows the GPUs of one node, which of them each rank gets, and how a rank is
told.

	/sys, /proc --Read--> GPUs --Allowed--> those we may use --Offered--> those of one vendor
	                                                                        |  Without: others'
	          variables of a rank <--Visible-- GPUs of a rank <--Pick, Near-'

A GPU is what its vendor's runtime lets a process see or not by a variable: a card, or a
part of one that has a function of its own on the bus. Like package pin it makes no system
calls: the tree it reads is an argument, so that a captured tree of another machine does as
well. It does not talk to drivers, and knows nothing of NVIDIA's MIG slices.
*/
package gpu

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A Vendor decides which runtime, and so which variable, a GPU has.
type Vendor string

// The vendors, in the order of preference where a node has as many of one as of another.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

var vendors = []Vendor{NVIDIA, AMD, Intel}

// Known reports whether there is such a vendor.
func (v Vendor) Known() bool { return slices.Contains(vendors, v) }

// A GPU is one of a node.
type GPU struct {
	Vendor  Vendor `json:"vendor"`
	Index   int    `json:"index"`           // as its runtime counts, with the settings of Visible
	Tiles   []int  `json:"tiles,omitempty"` // Intel: its numbers where tiles are counted as devices; nil: Index alone
	Address string `json:"address"`         // on the PCI bus, 0000:c7:00.0; no other of the node has it
	NUMA    int    `json:"numa"`            // the memory node it is attached to; -1: unknown
	Driver  string `json:"driver,omitempty"`
}

// OfBestVendor are the GPUs that ranks can get: those of the vendor of which there are most. A
// program is built for one vendor, and the other GPU of such a node is mostly there for
// its screen.
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

func filterGPUs(all []GPU, which func(GPU) bool) []GPU {
	var kept []GPU
	for _, g := range all {
		if which(g) {
			kept = append(kept, g)
		}
	}
	return kept
}

// WithoutAddresses drops those that have one of these addresses.
func WithoutAddresses(all []GPU, addresses []string) []GPU {
	return filterGPUs(all, func(g GPU) bool { return !slices.Contains(addresses, g.Address) })
}

// WithIndices keeps those GPUs whose index is in a list of numbers such as "0,2-3"; an empty list keeps all.
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

// Addresses tells GPUs from all others of their node.
func Addresses(gpus []GPU) []string {
	var addresses []string
	for _, g := range gpus {
		addresses = append(addresses, g.Address)
	}
	return addresses
}

// ChooseForRank chooses n GPUs for a rank whose CPUs are not chosen yet: the first, in their own
// order, beside which there is room for it, and if there is none the first; then such as
// are attached to the same memory. There are n at least.
func ChooseForRank(free []GPU, n int, room func(numa int) bool) []GPU {
	first := max(0, slices.IndexFunc(free, func(g GPU) bool { return room(g.NUMA) }))
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

// A Demand is what a rank whose CPUs are chosen wants: so many GPUs, near these memory
// nodes.
type Demand struct {
	N    int
	NUMA []int
}

// AssignNear deals GPUs to the ranks of a node, in their order: to each first those that are near
// its CPUs, and when all have these, the rest. There are as many as are wanted, at least.
func AssignNear(free []GPU, wants []Demand) [][]GPU {
	dealt := make([][]GPU, len(wants))
	left := slices.Clone(free)
	for _, near := range []bool{true, false} {
		for i, w := range wants {
			left = slices.DeleteFunc(left, func(g GPU) bool {
				if len(dealt[i]) >= w.N || near && !slices.Contains(w.NUMA, g.NUMA) {
					return false
				}
				dealt[i] = append(dealt[i], g)
				return true
			})
		}
	}
	for i := range dealt {
		dealt[i] = sortByRuntimeOrder(dealt[i])
	}
	return dealt
}

// sortByRuntimeOrder sorts GPUs of one vendor as their runtime counts them.
func sortByRuntimeOrder(gpus []GPU) []GPU {
	slices.SortFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus
}

// FormatGPUs names GPUs of one vendor for people: "0,2 (nvidia)"; empty: none.
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
