package aprun

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

/*
This file translates the values of -cc, by which ranks are bound (aprun.md 3):

	spec    = "cpu" / "depth" / "numa_node" / "none" / cpulist
	cpulist = set *( ":" set )            ; more than one: set i mod count for local rank i
	set     = item *( "," item ) / "x"    ; x: not bound
	item    = cpu [ "-" cpu ]             ; numbers of the kernel
*/

// These are limits for the list of CPUs in the value of -cc.
const (
	maxCPU  = 65535 // highest CPU number, more than any kernel has
	maxCPUs = 65536 // greatest number of CPUs in a list
)

// unboundSet is the item of a -cc list that leaves a rank unbound.
const unboundSet = "x"

// Binding translates a value of -cc to a value of --bind-to. It does not handle the keywords "cpu" and "depth". The
// argument depth is the number of CPUs of each rank.
func Binding(spec string, depth int) (string, error) {
	switch spec {
	case "numa_node":
		return "numa", nil
	case "none", unboundSet:
		return "none", nil
	}
	masks, err := Masks(spec, depth)
	if err != nil {
		return "", err
	}
	var sets []string
	for _, mask := range masks {
		var cpus []string
		for _, cpu := range mask {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
		sets = append(sets, cmp.Or(strings.Join(cpus, "+"), "none"))
	}
	return "user:" + strings.Join(sets, ","), nil
}

// Masks returns the CPU masks in list, a value of -cc. Each mask is sorted, and an empty mask leaves a rank unbound.
// The rank with number i on its node uses mask i modulo the number of masks.
//
// If list has several sets, separated by ":", each set is one mask. If it is a single set, Masks divides it into masks
// of depth CPUs.
func Masks(list string, depth int) (masks [][]int, err error) {
	var sets [][]int
	for text := range strings.SplitSeq(list, ":") {
		set, err := parseSet(text)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	if len(sets) > 1 {
		for _, set := range sets {
			masks = append(masks, sortedUnique(set))
		}
		return masks, nil
	}
	only := sets[0]
	if len(only) == 0 {
		return [][]int{nil}, nil
	}
	k := len(only)
	for first, seen := 0, make(map[int]bool); !seen[first]; first = (first + depth) % k {
		seen[first] = true
		var mask []int
		for i := range min(depth, k) {
			mask = append(mask, only[(first+i)%k])
		}
		masks = append(masks, sortedUnique(mask))
	}
	return masks, nil
}

// sortedUnique returns a sorted copy of cpus without duplicates.
func sortedUnique(cpus []int) []int {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// parseSet returns the CPUs of one set in the order in which they are written. It returns nil for "x".
func parseSet(text string) (cpus []int, err error) {
	if text == unboundSet {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, also := strconv.Atoi(last)
		if err != nil || also != nil || from < 0 || to < from || to > maxCPU || strings.ContainsAny(item, "+ ") {
			return nil, fmt.Errorf("%q is not cpu, depth, numa_node, none or a list of CPUs such as 0,4 or 0-1:4-5", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
		if len(cpus) > maxCPUs {
			return nil, fmt.Errorf("%q lists too many CPUs", text)
		}
	}
	return cpus, nil
}

// withoutComments converts the text of a -cp file to a value of -cc, by removing comments and blanks.
func withoutComments(text string) string {
	var spec strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		spec.WriteString(strings.Join(strings.Fields(line), ""))
	}
	return spec.String()
}
