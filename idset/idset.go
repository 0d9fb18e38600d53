/*
Package idset knows sets of small numbers: CPUs, NUMA nodes, slots, ranks, GPUs.

	"0-3,8"  --Parse-->  []int{0, 1, 2, 3, 8}  --Of-->  Set  --String-->  "0-3,8"

The text is the notation of the kernel's lists (cpuset(7), List format). In JSON a set is what
[]int is: an array of its numbers, null if it is nil. Since a Set is a list, too, one is assigned to
the other as it stands.
*/
package idset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Set has numbers in ascending order, each once. The nil Set is empty.
type Set []int

// New is the set of some numbers, in any order, which stay as they are; nil if there are none.
func New(numbers ...int) Set {
	return Set(slices.Compact(slices.Sorted(slices.Values(numbers))))
}

// Parse reads numbers from 0 to most and ranges of them, "0-3,8", and lists them in the order in which they
// stand there, as often as they do; the empty text is the empty list. The error names the
// item that is at fault.
func Parse(text string, most int) (list []int, err error) {
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
		if err != nil || first < 0 || last < first || last > most {
			return nil, fmt.Errorf("list %q: bad item %q", text, item)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list, nil
}

// String is the opposite of Parse; the empty set is the empty text.
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

// Text is String of a list that is a set.
func Text(ascending []int) string { return Set(ascending).String() }

// Has reports whether a number is in the set.
func (s Set) Has(n int) bool {
	_, has := slices.BinarySearch(s, n)
	return has
}

// HasAll reports whether all of some numbers are in the set.
func (s Set) HasAll(numbers []int) bool {
	return !slices.ContainsFunc(numbers, func(n int) bool { return !s.Has(n) })
}
