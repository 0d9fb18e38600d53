package psi

import (
	"fmt"
	"strconv"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// This file reads what ranks take of a node, and what they leave alone (which-hosts.md 9).

// maxCount bounds ranks, CPUs and NUMA nodes of one node that are written down.
const maxCount = 65535

// counted reads a number of at least so much, if one was given.
func counted(source string, value *string, least int, into *int) error {
	if value == nil {
		return nil
	}
	n, ok := number(strip(*value), least, maxCount)
	if !ok {
		return badValue(source, *value, fmt.Sprintf("%d-%d", least, maxCount))
	}
	*into = n
	return nil
}

func badValue(source, token string, allowed ...string) *Error {
	return &Error{Code: "bad-value", Source: source, Token: strip(token), What: "bad value", Allowed: allowed}
}

// shape reads how many ranks each node has exactly. -ppn is an upper bound, which it cannot pass.
func (c *Choice) shape(in Input) error {
	if err := counted("--shape", in.Flags.Shape, 1, &c.Shape); err != nil {
		return err
	}
	if c.PerNode > 0 && c.Shape > c.PerNode {
		return badValue("--shape", *in.Flags.Shape, fmt.Sprintf("at most --ppn, %d", c.PerNode))
	}
	return nil
}

// numa reads in which NUMA nodes ranks are, and how many in each.
func (c *Choice) numa(in Input) error {
	f := in.Flags.Choosing
	if err := counted("--per-numa", f.PerNUMA, 1, &c.NUMA.Each); err != nil {
		return err
	}
	if err := counted("--numa-nodes", f.NUMANodes, 1, &c.NUMA.Lowest); err != nil {
		return err
	}
	if list := f.NUMAList; list != nil {
		var ok bool
		if c.NUMA.List, ok = numaList(*list); !ok {
			return badValue("--numa-list", *list, "N", "FIRST-LAST with FIRST <= LAST")
		}
		if f.NUMANodes != nil {
			return badValue("--numa-list", *list, "one of --numa-list and --numa-nodes")
		}
	}
	c.NUMA.Strict = f.StrictMem != nil && *f.StrictMem
	return nil
}

// numaList reads numbers and ranges of NUMA nodes, "0,2-3".
func numaList(text string) ([]int, bool) {
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strip(item), "-")
		first, ok := number(strip(low), 0, maxNUMA)
		if last := first; isRange && ok {
			last, ok = number(strip(high), first, maxNUMA)
			ok = ok && last >= first
		}
		if !ok {
			return nil, false
		}
	}
	list, err := idset.Parse(strings.Join(strings.Fields(text), ""), maxNUMA+1)
	return idset.Of(list...), err == nil && len(list) > 0
}

// maxNUMA bounds the number of a NUMA node; kernels know fewer.
const maxNUMA = 1<<16 - 1

// hwThreads reads how many hardware threads of a core are CPUs.
func (c *Choice) hwThreads(in Input) error {
	if in.Flags.HWThreads == nil {
		return nil
	}
	k := 0
	if err := counted("--hw-threads", in.Flags.HWThreads, 0, &k); err != nil {
		return err
	}
	switch k {
	case 0:
		c.HWThreads = job.AllThreads
	case 1:
		c.HWThreads = 0 // a core is a CPU, with all of its threads
	default:
		c.HWThreads = k
	}
	return nil
}

// reserve reads how many CPUs of each node stay free.
func (c *Choice) reserve(in Input) error {
	return counted("--reserve-cpus", in.Flags.ReserveCPUs, 0, &c.Reserve)
}

// memory reads how much memory each rank needs: a number of MB, or with a unit, of powers of 1024; and what is said behind it of
// huge pages (aprun.md 4).
func (c *Choice) memory(in Input) error {
	value := in.Flags.MemPerRank
	if value == nil {
		return nil
	}
	size, wish := hugeWish(strip(*value))
	var ok bool
	if c.Memory, ok = bytes(size); !ok {
		return badValue("--mem-per-rank", *value, "a number of MB, or with K, M, G, T")
	}
	c.Huge = wish
	return nil
}

// hugeWish takes the word about huge pages from the end of a size.
func hugeWish(text string) (size string, wish job.HugeWish) {
	size = strings.TrimRight(text, "hHsS")
	switch strings.ToLower(text[len(size):]) {
	case "h":
		return size, job.HugeWanted
	case "hs":
		return size, job.HugeNeeded
	}
	return text, ""
}

// memoryUnits are the units of memory; without one it is MB.
var memoryUnits = map[string]int64{"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

// maxMemory is more than any node has.
const maxMemory = 1 << 60

// bytes reads a size above 0.
func bytes(text string) (int64, bool) {
	digits := strings.TrimRight(text, "KMGTBkmgtb")
	unit := strings.ToUpper(text[len(digits):])
	if len(unit) > 1 {
		unit = strings.TrimSuffix(unit, "B")
	}
	each, known := memoryUnits[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !known || err != nil || strings.Trim(digits, "0123456789") != "" || n < 1 || n > maxMemory/each {
		return 0, false
	}
	return n * each, true
}

// Clash is the refusal where several sections or options contradict one another: NUMA nodes are
// chosen by these options or by a map, and what counts as CPU is one thing in the whole job.
func Clash(shares []job.Share, layout pin.Layout, spots bool) error {
	for _, s := range shares {
		if s.HWThreads != shares[0].HWThreads {
			return badValue("--hw-threads", strconv.Itoa(max(0, s.HWThreads)), "the same in all sections")
		}
		source := s.NUMA.Option()
		switch m := layout.Map; {
		case !s.NUMA.Confines():
		case spots:
			return badValue(source, "a rank file", "one of both")
		case m.Level > pin.ByNode || m.Each > 0 || m.Only != nil || m.Span:
			return badValue(source, "--map-by "+m.Text, "one of both")
		}
	}
	return nil
}
