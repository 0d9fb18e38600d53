package aprun

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

/*
This file reads what ranks are bound to (aprun.md 3):

	spec    = "cpu" / "depth" / "numa_node" / "none" / cpulist
	cpulist = set *( ":" set )            ; more than one: set i mod count for local rank i
	set     = item *( "," item ) / "x"    ; x: not bound
	item    = cpu [ "-" cpu ]             ; numbers of the kernel
*/

// maxCPU is more than any kernel has, and maxCPUs more than a list may name.
const (
	maxCPU  = 65535
	maxCPUs = 65536
)

// unboundSet is the set of a rank that is not bound.
const unboundSet = "x"

// Binding is a spec but for cpu and depth as --bind-to has it, for ranks of so many CPUs.
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

// Masks are the CPUs of the local ranks of a list, ascending, as far as they differ: rank i has mask i mod their number.
// An empty one is of a rank that is not bound.
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

// sortedUnique are CPUs, each once, ascending.
func sortedUnique(cpus []int) []int {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// parseSet reads the CPUs of one set, in the order in which they stand; none: x.
func parseSet(text string) (cpus []int, err error) {
	if text == unboundSet {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		first, last, between := strings.Cut(item, "-")
		if !between {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, also := strconv.Atoi(last)
		if err != nil || also != nil || from < 0 || to < from || to > maxCPU || strings.ContainsAny(item, "+ ") {
			return nil, fmt.Errorf("%q is none of cpu, depth, numa_node, none, and no list of CPUs such as 0,4 or 0-1:4-5", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
		if len(cpus) > maxCPUs {
			return nil, fmt.Errorf("%q names too many CPUs", text)
		}
	}
	return cpus, nil
}

// withoutComments is the text of a file of -cp as -cc takes it.
func withoutComments(text string) string {
	var spec strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		spec.WriteString(strings.Join(strings.Fields(line), ""))
	}
	return spec.String()
}
