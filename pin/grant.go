package pin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A CPUGrant is the set of CPUs of a node that a batch system has granted to a job, in the batch system's notation
// (rm-integration.md RM-6). The zero value grants all CPUs.
type CPUGrant struct {
	Numbering GrantNumbering
	List      string
	From      string // variable or program that contains the list, for messages
}

// GrantNumbering says what the numbers in a batch system's list of CPUs refer to, such as cores or hardware
// threads.
type GrantNumbering int

// These are the ways in which batch systems number the CPUs that they grant.
const (
	CPUNumbers  GrantNumbering = iota // the kernel's numbers of CPUs: "0-3,8" (LSF)
	CoreNumbers                       // cores, counted as hwloc counts them: "0-3" (Flux)
	SocketCores                       // pairs of a socket and a core in it, both from 0: "0,0:0,1" (Grid Engine)
)

// noun returns the word for what the numbers refer to.
func (n GrantNumbering) noun() string {
	switch n {
	case CoreNumbers:
		return "cores"
	case SocketCores:
		return "cores (SOCKET,CORE)"
	}
	return "CPUs"
}

// IsGiven reports whether the batch system has granted CPUs by their numbers.
func (g CPUGrant) IsGiven() bool { return g.List != "" }

// RestrictTo returns the topology with only the granted CPUs usable. Other CPUs become unusable, like CPUs outside
// the affinity mask. A topology that was not probed is returned unchanged. RestrictTo returns an error if the list
// is invalid or no usable CPU remains.
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
		unusable := slices.Clone(c.Unusable)
		for _, cpu := range c.CPUs {
			if granted(i, cpu) {
				usable = append(usable, cpu)
			} else {
				unusable = append(unusable, cpu)
			}
		}
		slices.Sort(unusable)
		c.CPUs, c.Unusable, left = usable, unusable, left+len(usable)
	}
	if left == 0 {
		return t, fmt.Errorf("%s grants the %s %s, but the kernel does not let mpiexec use any of them on this host", g.From, g.Numbering.noun(), shortenText(g.List))
	}
	return result, nil
}

// grantedCPUs returns a function that reports whether a CPU is granted. The function takes the index of the
// CPU's core, and the number of the CPU.
func (t Topology) grantedCPUs(g CPUGrant) (func(core, cpu int) bool, error) {
	if g.Numbering == SocketCores {
		cores, err := t.socketCores(g.List)
		return func(core, _ int) bool { return cores[core] }, err
	}
	size := max(t.CPUNumberLimit(), len(t.Cores)) // above every core and CPU number
	numbers, count, err := parseNumbers(g.List, size)
	switch {
	case err != nil:
		return nil, err
	case g.Numbering == CPUNumbers:
		return func(_, cpu int) bool { return numbers[cpu] }, nil
	case t.CountUsableCores() <= count: // already confined; the batch system may have counted only the usable cores
		return func(int, int) bool { return true }, nil
	}
	cores := make([]bool, len(t.Cores))
	for number, core := range t.logicalOrder() {
		cores[core] = numbers[number]
	}
	return func(core, _ int) bool { return cores[core] }, nil
}

// parseNumbers parses a list of numbers and ranges. numbers says which numbers below size are in the list, and
// count is how many numbers the list has in total. Ranges are not expanded, because a list may have very many
// numbers.
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

// socketCores returns the set of cores in a list of pairs. Each pair contains a socket number and a core number.
// Sockets are numbered in the order of their lowest CPU, and so are the cores of a socket.
func (t Topology) socketCores(list string) (map[int]bool, error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ':' })
	numbers := make([]int, len(words))
	for i, word := range words {
		var err error
		if numbers[i], err = strconv.Atoi(word); err != nil || numbers[i] < 0 || len(words)%2 != 0 {
			return nil, fmt.Errorf("%q is not a list of pairs SOCKET,CORE", shortenText(list))
		}
	}
	sockets, index := [][]int{}, make(map[int]int) // cores of each socket, and index of a socket by its number
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

// shortenText truncates a list of CPUs to 60 bytes, for use in a message.
func shortenText(list string) string {
	if len(list) > 60 {
		list = list[:60] + "..."
	}
	return list
}
