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

// readCount reads a number of at least so much, if one was given.
func readCount(source string, value *string, least int, into *int) error {
	if value == nil {
		return nil
	}
	n, ok := parseNumber(trimBlanks(*value), least, maxCount)
	if !ok {
		return badValue(source, *value, fmt.Sprintf("%d-%d", least, maxCount))
	}
	*into = n
	return nil
}

func badValue(source, token string, allowed ...string) *Error {
	return &Error{Code: "bad-value", Source: source, Token: trimBlanks(token), Problem: "bad value", Allowed: allowed}
}

// readShape reads how many ranks each node has exactly. -ppn is an upper bound, which it cannot pass.
func (c *Settings) readShape(in Input) error {
	if err := readCount("--shape", in.Flags.Shape, 1, &c.ExactPerNode); err != nil {
		return err
	}
	if c.PerNode > 0 && c.ExactPerNode > c.PerNode {
		return badValue("--shape", *in.Flags.Shape, fmt.Sprintf("at most --ppn, %d", c.PerNode))
	}
	return nil
}

// readNUMA reads in which NUMA nodes ranks are, and how many in each.
func (c *Settings) readNUMA(in Input) error {
	f := in.Flags.SelectionFlags
	if err := readCount("--per-numa", f.PerNUMA, 1, &c.NUMA.PerNUMA); err != nil {
		return err
	}
	if err := readCount("--numa-nodes", f.NUMANodes, 1, &c.NUMA.FirstNodes); err != nil {
		return err
	}
	if list := f.NUMAList; list != nil {
		var ok bool
		if c.NUMA.NUMANodes, ok = parseNUMAList(*list); !ok {
			return badValue("--numa-list", *list, "N", "FIRST-LAST with FIRST <= LAST")
		}
		if f.NUMANodes != nil {
			return badValue("--numa-list", *list, "one of --numa-list and --numa-nodes")
		}
	}
	c.NUMA.StrictMemory = f.StrictMem != nil && *f.StrictMem
	return nil
}

// parseNUMAList reads numbers and ranges of NUMA nodes, "0,2-3".
func parseNUMAList(text string) ([]int, bool) {
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(trimBlanks(item), "-")
		first, ok := parseNumber(trimBlanks(low), 0, maxNUMA)
		if last := first; isRange && ok {
			last, ok = parseNumber(trimBlanks(high), first, maxNUMA)
			ok = ok && last >= first
		}
		if !ok {
			return nil, false
		}
	}
	list, err := idset.Parse(strings.Join(strings.Fields(text), ""), maxNUMA+1)
	return idset.New(list...), err == nil && len(list) > 0
}

// maxNUMA bounds the number of a NUMA node; kernels know fewer.
const maxNUMA = 1<<16 - 1

// readHWThreads reads how many hardware threads of a core are CPUs.
func (c *Settings) readHWThreads(in Input) error {
	if in.Flags.HWThreads == nil {
		return nil
	}
	k := 0
	if err := readCount("--hw-threads", in.Flags.HWThreads, 0, &k); err != nil {
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

// readReserve reads how many CPUs of each node stay free.
func (c *Settings) readReserve(in Input) error {
	return readCount("--reserve-cpus", in.Flags.ReserveCPUs, 0, &c.Reserve)
}

// readMemory reads how much memory each rank needs: a number of MB, or with a unit, of powers of 1024; and what is said behind it of
// huge pages (aprun.md 4).
func (c *Settings) readMemory(in Input) error {
	value := in.Flags.MemPerRank
	if value == nil {
		return nil
	}
	size, wish := cutHugePageRequest(trimBlanks(*value))
	var ok bool
	if c.Memory, ok = parseBytes(size); !ok {
		return badValue("--mem-per-rank", *value, "a number of MB, or with K, M, G, T")
	}
	c.HugePages = wish
	return nil
}

// cutHugePageRequest takes the word about huge pages from the end of a size.
func cutHugePageRequest(text string) (size string, wish job.HugePageRequest) {
	size = strings.TrimRight(text, "hHsS")
	switch strings.ToLower(text[len(size):]) {
	case "h":
		return size, job.HugePagesPreferred
	case "hs":
		return size, job.HugePagesRequired
	}
	return text, ""
}

// memoryUnits are the units of memory; without one it is MB.
var memoryUnits = map[string]int64{"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

// maxMemory is more than any node has.
const maxMemory = 1 << 60

// parseBytes reads a size above 0.
func parseBytes(text string) (int64, bool) {
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

// CheckConflicts is the refusal where several sections or options contradict one another: NUMA nodes are
// chosen by these options or by a map, and what counts as CPU is one thing in the whole job.
func CheckConflicts(shares []job.RankNeeds, layout pin.Layout, spots bool) error {
	for _, s := range shares {
		if s.HWThreads != shares[0].HWThreads {
			return badValue("--hw-threads", strconv.Itoa(max(0, s.HWThreads)), "the same in all app contexts")
		}
		source := s.NUMA.Option()
		switch m := layout.Map; {
		case !s.NUMA.IsSet():
		case spots:
			return badValue(source, "a rank file", "one of both")
		case m.Level > pin.ByNode || m.PerObject > 0 || m.PEList != nil || m.Span:
			return badValue(source, "--map-by "+m.Text, "one of both")
		}
	}
	return nil
}
