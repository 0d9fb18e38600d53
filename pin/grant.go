package pin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A CPUGrant is which CPUs of a node a batch system has given to a job, in the batch system's own words
// (rm-integration.md RM-6). The zero value says nothing, and grants all.
type CPUGrant struct {
	Numbering GrantNumbering
	List      string
	From      string // the variable or program that told it, for messages
}

// GrantNumbering is how the words of a list count.
type GrantNumbering int

// The ways to count.
const (
	CPUNumbers  GrantNumbering = iota // the kernel's numbers of CPUs: "0-3,8" (LSF)
	CoreNumbers                       // cores, counted as hwloc counts them: "0-3" (Flux)
	SocketCores                       // pairs of socket and core in it, both from 0: "0,0:0,1" (Grid Engine)
)

// IsGiven reports whether a list was given at all.
func (g CPUGrant) IsGiven() bool { return g.List != "" }

// RestrictTo is what a grant leaves of a topology: the CPUs beside it are shut, as those outside of a mask
// are. A node nobody has looked at stays so. The error says that nothing is left, or that the list
// cannot be read.
func (t Topology) RestrictTo(g CPUGrant) (Topology, error) {
	if !g.IsGiven() || len(t.Cores) == 0 {
		return t, nil
	}
	granted, err := t.grantedCPUs(g)
	if err != nil {
		return t, fmt.Errorf("%s: %w", g.From, err)
	}
	result := Topology{Cores: slices.Clone(t.Cores)}
	left := 0
	for i := range result.Cores {
		c := &result.Cores[i]
		var usable []int
		shut := slices.Clone(c.Unusable)
		for _, cpu := range c.CPUs {
			if granted(i, cpu) {
				usable = append(usable, cpu)
			} else {
				shut = append(shut, cpu)
			}
		}
		slices.Sort(shut)
		c.CPUs, c.Unusable, left = usable, shut, left+len(usable)
	}
	if left == 0 {
		return t, fmt.Errorf("%s grants %s, and of these CPUs none may be used there", g.From, shortenText(g.List))
	}
	return result, nil
}

// grantedCPUs tells the CPUs that a list means, by the index of their core and their number.
func (t Topology) grantedCPUs(g CPUGrant) (func(core, cpu int) bool, error) {
	if g.Numbering == SocketCores {
		cores, err := t.socketCores(g.List)
		return func(core, _ int) bool { return cores[core] }, err
	}
	size := max(t.CPUNumberLimit(), len(t.Cores)) // more than any core or CPU has
	numbers, count, err := parseNumbers(g.List, size)
	switch {
	case err != nil:
		return nil, err
	case g.Numbering == CPUNumbers:
		return func(_, cpu int) bool { return numbers[cpu] }, nil
	case t.CountUsableCores() <= count: // confined already; what counted the cores may have seen these alone
		return func(int, int) bool { return true }, nil
	}
	cores := make([]bool, len(t.Cores))
	for number, core := range t.logicalOrder() {
		cores[core] = numbers[number]
	}
	return func(core, _ int) bool { return cores[core] }, nil
}

// parseNumbers are the numbers below size that are in a list, and how many it has in all. It does not write
// ranges out, of which the tasks of a host may have very many.
func parseNumbers(list string, size int) (numbers []bool, count int, err error) {
	numbers = make([]bool, size)
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || first < 0 || last < first {
			return nil, 0, fmt.Errorf("%q is not a list of numbers", shortenText(list))
		}
		for n := first; n <= min(last, size-1); n++ {
			if !numbers[n] {
				numbers[n], count = true, count+1
			}
		}
		count += max(0, last-max(first, size)+1)
	}
	return numbers, count, nil
}

// socketCores are the cores that pairs of socket and core mean. Sockets count in the order of their lowest
// CPU, and so do the cores of each.
func (t Topology) socketCores(list string) (map[int]bool, error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ':' })
	numbers := make([]int, len(words))
	for i, word := range words {
		var err error
		if numbers[i], err = strconv.Atoi(word); err != nil || numbers[i] < 0 || len(words)%2 != 0 {
			return nil, fmt.Errorf("%q is no list of SOCKET,CORE", shortenText(list))
		}
	}
	sockets, index := [][]int{}, make(map[int]int) // cores of each socket; which that is, by its number
	for i, c := range t.Cores {
		at, known := index[c.Package]
		if !known {
			at = len(sockets)
			sockets, index[c.Package] = append(sockets, nil), at
		}
		sockets[at] = append(sockets[at], i)
	}
	cores := make(map[int]bool)
	for pair := range slices.Chunk(numbers, 2) {
		if socket, core := pair[0], pair[1]; socket < len(sockets) && core < len(sockets[socket]) {
			cores[sockets[socket][core]] = true
		}
	}
	return cores, nil
}

// shortenText is a list in a message, cut if it is very long.
func shortenText(list string) string {
	if len(list) > 60 {
		list = list[:60] + "..."
	}
	return list
}
