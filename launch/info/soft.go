package info

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSoftCounts is the largest number of rank counts in one info key "soft" (rule TRUST-11).
const maxSoftCounts = 1 << 16

// parseSoft parses the info key "soft": numbers of ranks written as A, A:B or A:B:STEP, separated by commas
// (MPI-4.1, 11.8.2). It returns the numbers from 1 to limit, in descending order.
func parseSoft(text string, limit int) (counts []int, err error) {
	for item := range strings.SplitSeq(text, ",") {
		first, last, step, ok := parseSoftRange(item)
		if !ok {
			return nil, fmt.Errorf("%q is not a set of numbers such as 2:8 or 4,6", item)
		}
		if step < 0 {
			if first < last {
				continue
			}
			first, last, step = first-(first-last)/-step*-step, first, -step
		}
		for i := first + max(0, (step-first)/step)*step; i <= min(limit, last); i += step {
			if len(counts) == maxSoftCounts {
				return nil, fmt.Errorf("the value lists more than %d numbers", maxSoftCounts)
			}
			counts = append(counts, i)
		}
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	slices.Reverse(counts)
	return counts, nil
}

// parseSoftRange parses one item of a "soft" list. Its numbers must fit into 32 bits. ok is false if the item is
// invalid.
func parseSoftRange(item string) (first, last, step int, ok bool) {
	var n []int
	for field := range strings.SplitSeq(item, ":") {
		number, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || len(n) == 3 {
			return 0, 0, 0, false
		}
		n = append(n, int(number))
	}
	switch len(n) {
	case 1:
		return n[0], n[0], 1, true
	case 2:
		return n[0], n[1], 1, true
	}
	return n[0], n[1], n[2], n[2] != 0
}
