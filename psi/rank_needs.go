package psi

import (
	"fmt"
	"strconv"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// This file reads the resources that ranks need on a node, and those that stay free (which-hosts.md 9).

// maxCount is the maximum value of options that specify a number of ranks, CPUs or NUMA nodes of one node.
const maxCount = 65535

// readCount parses a number of at least minimum and stores it in *target. source is the name of the option. If value is
// nil, readCount does not change *target.
func readCount(source string, value *string, minimum int, target *int) error {
	if value == nil {
		return nil
	}
	n, ok := parseNumber(trimBlanks(*value), minimum, maxCount)
	if !ok {
		return badValue(source, *value, fmt.Sprintf("%d-%d", minimum, maxCount))
	}
	*target = n
	return nil
}

func badValue(source, token string, allowed ...string) *Error {
	return &Error{Code: "bad-value", Source: source, Token: trimBlanks(token), Problem: "is not valid", Allowed: allowed}
}

// readShape reads the exact number of ranks per node (--shape). It returns an error if that number exceeds the maximum
// that -ppn sets.
func (c *Settings) readShape(in Input) error {
	if err := readCount("--shape", in.Flags.Shape, 1, &c.ExactPerNode); err != nil {
		return err
	}
	if c.PerNode > 0 && c.ExactPerNode > c.PerNode {
		return badValue("--shape", *in.Flags.Shape, fmt.Sprintf("numbers up to %d, the value of --ppn", c.PerNode))
	}
	return nil
}

// readNUMA reads which NUMA nodes ranks may use, and how many ranks each NUMA node gets.
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
			return badValue("--numa-list", *list, "either --numa-list or --numa-nodes, but not both")
		}
	}
	c.NUMA.StrictMemory = f.StrictMem != nil && *f.StrictMem
	return nil
}

// parseNUMAList parses a list of numbers and ranges of NUMA nodes, such as "0,2-3". It returns false if the list is
// invalid.
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

// maxNUMA is the highest number of a NUMA node that is accepted. It exceeds the limit of any kernel.
const maxNUMA = 1<<16 - 1

// readHWThreads reads how many hardware threads of a core count as CPUs.
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

// readReserve reads how many CPUs of each node the job leaves free.
func (c *Settings) readReserve(in Input) error {
	return readCount("--reserve-cpus", in.Flags.ReserveCPUs, 0, &c.Reserve)
}

// readMemory reads how much memory each rank needs. The value is in MB unless it has another unit (K, G, T: powers of
// 1024). A suffix after the unit requests huge pages (aprun.md 4).
func (c *Settings) readMemory(in Input) error {
	value := in.Flags.MemPerRank
	if value == nil {
		return nil
	}
	size, request := cutHugePageRequest(trimBlanks(*value))
	var ok bool
	if c.Memory, ok = parseBytes(size); !ok {
		return badValue("--mem-per-rank", *value, "numbers of MB, and numbers with one of the units K, M, G and T")
	}
	c.HugePages = request
	return nil
}

// cutHugePageRequest splits text into a size and a suffix. request says whether the suffix asks for huge pages as a
// preference or as a requirement. Without a suffix, request is "".
func cutHugePageRequest(text string) (size string, request job.HugePageRequest) {
	size = strings.TrimRight(text, "hHsS")
	switch strings.ToLower(text[len(size):]) {
	case "h":
		return size, job.HugePagesPreferred
	case "hs":
		return size, job.HugePagesRequired
	}
	return text, ""
}

// memoryUnits are the units of memory, in bytes. A number without a unit is in MB.
var memoryUnits = map[string]int64{"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

// maxMemory is the maximum size in bytes that is accepted. No node has that much memory.
const maxMemory = 1 << 60

// parseBytes parses a size with one of memoryUnits and returns it in bytes. It returns false if the text is invalid or
// the size is 0.
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

// CheckConflicts returns an error if app contexts or options contradict one another. All app contexts must count
// hardware threads in the same way. Options about NUMA nodes cannot be combined with mappings that choose NUMA nodes
// themselves, or with a rank file. fixed is true if there is a rank file.
func CheckConflicts(apps []job.RankNeeds, layout pin.Layout, fixed bool) error {
	for _, s := range apps {
		if s.HWThreads != apps[0].HWThreads {
			return badValue("--hw-threads", strconv.Itoa(max(0, s.HWThreads)), "one value for all app contexts")
		}
		source := s.NUMA.Option()
		switch m := layout.Map; {
		case !s.NUMA.IsSet():
		case fixed:
			return &Error{Code: "bad-value", Source: source, Token: "-rankfile", Problem: "cannot be used with this option"}
		case m.Level > pin.ByNode || m.PerObject > 0 || m.PEList != nil || m.Span:
			return &Error{Code: "bad-value", Source: source, Token: "--map-by " + m.Text, Problem: "cannot be used with this option"}
		}
	}
	return nil
}
