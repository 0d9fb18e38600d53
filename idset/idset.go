/*
Package idset provides sets of small numbers, such as CPUs, NUMA nodes, slots, ranks and GPUs.

	"0-3,8"  --Parse-->  []int{0, 1, 2, 3, 8}  --New-->  Set  --String-->  "0-3,8"

The text has the kernel's list format (cpuset(7)). In JSON a Set is an array of numbers, or null if the Set is nil.
A Set can be assigned to an []int and vice versa.
*/
package idset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Set is a list of numbers in ascending order without duplicates. The nil Set is empty.
type Set []int

// New returns the set of the given numbers, which may be in any order. It does not change its argument. It returns
// nil if there are no numbers.
func New(numbers ...int) Set {
	return Set(slices.Compact(slices.Sorted(slices.Values(numbers))))
}

// Parse parses a list of numbers and ranges, such as "0-3,8". Each number must be from 0 to limit. The result keeps the
// order and duplicates of the text. An empty string stands for the empty list. The error names the faulty item.
func Parse(text string, limit int) (list []int, err error) {
	if text == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(item, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last > limit {
			return nil, fmt.Errorf("in the list of numbers %q, item %q is not a valid number or range", text, item)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list, nil
}

// String returns the set in the format that Parse accepts. It returns "" for an empty set.
func (s Set) String() string {
	var text []byte
	for i := 0; i < len(s); {
		end := i
		for end+1 < len(s) && s[end+1] == s[end]+1 {
			end++
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(s[i]), 10)
		if end > i {
			text = append(text, '-')
			text = strconv.AppendInt(text, int64(s[end]), 10)
		}
		i = end + 1
	}
	return string(text)
}

// Text returns a list in the format that Parse accepts. The list must be in ascending order and without duplicates.
func Text(ascending []int) string { return Set(ascending).String() }

// Has reports whether n is in the set.
func (s Set) Has(n int) bool {
	_, has := slices.BinarySearch(s, n)
	return has
}

// HasAll reports whether all numbers are in the set.
func (s Set) HasAll(numbers []int) bool {
	return !slices.ContainsFunc(numbers, func(n int) bool { return !s.Has(n) })
}
