package pin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/idset"
)

// A CPURange is one item of a list of CPUs that a user has written (cli.md 4.3). Its numbers count CPUs by
// package, core and thread, unless KernelNumbers is set.
type CPURange struct {
	KernelNumbers bool // the numbers are the kernel's CPU numbers
	InPackage     bool // the numbers are cores of a package; else units of the node
	Package       int  // logical number, from 0
	First, Last   int  // from 0; Last < First means all
}

// String returns the range in the syntax that ParseCPURanges accepts.
func (p CPURange) String() string {
	numbers := "*"
	if p.Last >= p.First {
		numbers = fmt.Sprintf("%d-%d", p.First, p.Last)
	}
	switch {
	case p.KernelNumbers:
		return "p" + numbers
	case p.InPackage:
		return fmt.Sprintf("%d:%s", p.Package, numbers)
	}
	return numbers
}

// A SpanError is an error about a part of a string: the bytes [From, To).
type SpanError struct {
	From, To int
	Reason   string
}

func (e *SpanError) Error() string { return e.Reason }

// allNumbers is the value of Last in a range that selects all numbers ("*").
const allNumbers = -1

// ParseCPURanges parses a list of CPUs. The error is a *SpanError.
//
//	list = group { ";" group }        a prefix also applies to later items of its group
//	group = item { "," item }
//	item = [ "p" | package ":" ] ( N [ "-" M ] | "*" )
func ParseCPURanges(list string) ([]CPURange, error) {
	var ranges []CPURange
	at := 0
	for group := range strings.SplitSeq(list, ";") {
		var prefix CPURange
		for item := range strings.SplitSeq(group, ",") {
			p, reason := parseCPURange(strings.TrimSpace(item), prefix)
			if reason != "" {
				return nil, &SpanError{at, at + len(item), reason}
			}
			ranges, prefix = append(ranges, p), p
			at += len(item) + 1
		}
	}
	return ranges, nil
}

// parseCPURange parses one item of a list. An item without a prefix has the prefix of the previous item. reason says
// why the item is invalid. It is empty if the item is valid.
func parseCPURange(item string, prefix CPURange) (p CPURange, reason string) {
	p = CPURange{KernelNumbers: prefix.KernelNumbers, InPackage: prefix.InPackage, Package: prefix.Package, Last: allNumbers}
	numbers := item
	if rest, kernel := strings.CutPrefix(item, "p"); kernel {
		p.KernelNumbers, p.InPackage, numbers = true, false, rest
	} else if socket, cores, is := strings.Cut(item, ":"); is {
		n, ok := cpuNumber(socket)
		if !ok {
			return p, fmt.Sprintf("%q is not a package (CPU socket) number", socket)
		}
		p.KernelNumbers, p.InPackage, p.Package, numbers = false, true, n, cores
	}
	if numbers == "*" {
		return p, ""
	}
	low, high, isRange := strings.Cut(numbers, "-")
	var ok bool
	p.First, ok = cpuNumber(low)
	if p.Last = p.First; ok && isRange {
		p.Last, ok = cpuNumber(high)
	}
	switch {
	case item == "":
		return p, "a CPU is missing"
	case !ok:
		return p, fmt.Sprintf(`%q does not name a CPU; write "0-3" for cores 0 to 3, "1:0-2" for cores 0 to 2 of package 1, "p4" for CPU 4 in the kernel's numbering, or "*" for all CPUs`, item)
	case p.Last < p.First:
		return p, fmt.Sprintf("the range %q must begin with the smaller number", numbers)
	}
	return p, ""
}

func cpuNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < maxCPU && text[0] != '+' && text[0] != '-'
}

// A Numbering maps the numbers in CPURanges to the CPUs of a node.
type Numbering struct {
	kernel   []numberedCPUs   // every CPU
	units    []numberedCPUs   // by package, core and thread
	packages [][]numberedCPUs // the cores of each package
	usable   []int            // usable CPUs
}

// A numberedCPUs is a CPU, core or unit with its number and its usable CPUs.
type numberedCPUs struct {
	number int
	cpus   []int
}

// Numbering numbers all online CPUs, cores and units. threads is true if units are hardware threads. CPUs
// outside the cpuset are numbered, too, although they cannot be used, so that a list means the same in every
// job.
func (t Topology) Numbering(threads bool) *Numbering {
	n := new(Numbering)
	cores := slices.Clone(t.Cores)
	slices.SortStableFunc(cores, func(a, b Core) int { return cmp.Compare(a.Package, b.Package) })
	for i, c := range cores {
		if i == 0 || c.Package != cores[i-1].Package {
			n.packages = append(n.packages, nil)
		}
		last := &n.packages[len(n.packages)-1]
		*last = append(*last, numberedCPUs{len(*last), c.CPUs})
		n.usable = append(n.usable, c.CPUs...)
		split := c.threads()
		n.kernel = append(n.kernel, split...)
		if !threads {
			split = []numberedCPUs{{cpus: c.CPUs}}
		}
		for _, u := range split {
			n.units = append(n.units, numberedCPUs{len(n.units), u.cpus})
		}
	}
	slices.SortFunc(n.kernel, byNumber)
	slices.Sort(n.usable)
	return n
}

func byNumber(a, b numberedCPUs) int { return cmp.Compare(a.number, b.number) }

// threads returns the hardware threads of a core with their kernel numbers.
func (c Core) threads() []numberedCPUs {
	var threads []numberedCPUs
	for _, cpu := range c.AllCPUs() {
		u := numberedCPUs{number: cpu}
		if slices.Contains(c.CPUs, cpu) {
			u.cpus = []int{cpu}
		}
		threads = append(threads, u)
	}
	return threads
}

// CPUs returns the CPUs that the ranges select, without duplicates, in the order of the list. The CPUs of one core
// are in ascending order. It returns an error if the node lacks one of the CPUs.
func (n *Numbering) CPUs(ranges []CPURange) ([]int, error) {
	var cpus []int
	for _, p := range ranges {
		found, err := n.selected(p)
		if err != nil {
			return nil, err
		}
		for _, item := range found {
			for _, cpu := range item.cpus {
				if len(ranges) == 1 || !slices.Contains(cpus, cpu) {
					cpus = append(cpus, cpu)
				}
			}
		}
	}
	return cpus, nil
}

// selected returns the CPUs, cores or units that one range selects.
func (n *Numbering) selected(p CPURange) ([]numberedCPUs, error) {
	list, noun := n.units, "slot "
	switch {
	case p.KernelNumbers:
		list, noun = n.kernel, "CPU "
	case p.InPackage && p.Package >= len(n.packages):
		return nil, fmt.Errorf("the host has no package (CPU socket) with the number %d; it has %s", p.Package, foldUpTo(len(n.packages)))
	case p.InPackage:
		list, noun = n.packages[p.Package], fmt.Sprintf("core %d:", p.Package)
	}
	if p.Last < p.First {
		list = slices.DeleteFunc(slices.Clone(list), func(u numberedCPUs) bool { return len(u.cpus) == 0 })
		if len(list) == 0 {
			return nil, fmt.Errorf("ranks on the host may use none of these CPUs; they may use %s", idset.Text(n.usable))
		}
		return list, nil
	}
	var found []numberedCPUs
	for number := p.First; number <= p.Last; number++ {
		item := noun + strconv.Itoa(number)
		i, known := slices.BinarySearchFunc(list, numberedCPUs{number: number}, byNumber)
		switch {
		case !known:
			return nil, fmt.Errorf("the host has no %s; it has %s", item, foldNumbers(list))
		case len(list[i].cpus) == 0:
			return nil, fmt.Errorf("ranks on the host may not use %s; they may use the CPUs %s", item, idset.Text(n.usable))
		}
		found = append(found, list[i])
	}
	return found, nil
}

func foldNumbers(found []numberedCPUs) string {
	numbers := make([]int, len(found))
	for i, item := range found {
		numbers[i] = item.number
	}
	return cmp.Or(idset.Text(numbers), "none")
}

// foldUpTo returns the numbers from 0 to n-1 as a string, such as "0-7". If n is 0, it returns "none".
func foldUpTo(n int) string {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return cmp.Or(idset.Text(numbers), "none")
}
