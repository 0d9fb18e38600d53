package pin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/idset"
)

// A Pick is one item of a list of CPUs that somebody wrote down (cli.md 4.3). Its
// numbers are logical, counted by package, core and thread, unless Kernel is set.
type Pick struct {
	Kernel      bool // CPU numbers of the kernel
	InPackage   bool // cores of a package; else units of the node
	Package     int  // logical number, from 0
	First, Last int  // from 0; Last < First: all
}

// String writes a pick as ParsePicks reads it.
func (p Pick) String() string {
	numbers := "*"
	if p.Last >= p.First {
		numbers = fmt.Sprintf("%d-%d", p.First, p.Last)
	}
	switch {
	case p.Kernel:
		return "p" + numbers
	case p.InPackage:
		return fmt.Sprintf("%d:%s", p.Package, numbers)
	}
	return numbers
}

// A SpanError is a fault of a text, and the bytes of it that are at fault.
type SpanError struct {
	From, To int
	Reason   string
}

func (e *SpanError) Error() string { return e.Reason }

// all marks a pick without numbers.
const all = -1

// ParsePicks reads a list of CPUs. The error is a *SpanError.
//
//	list = group { ";" group }        a prefix holds to the end of its group
//	group = item { "," item }
//	item = [ "p" | package ":" ] ( N [ "-" M ] | "*" )
func ParsePicks(list string) ([]Pick, error) {
	var picks []Pick
	at := 0
	for group := range strings.SplitSeq(list, ";") {
		var prefix Pick
		for item := range strings.SplitSeq(group, ",") {
			p, reason := parsePick(strings.TrimSpace(item), prefix)
			if reason != "" {
				return nil, &SpanError{at, at + len(item), reason}
			}
			picks, prefix = append(picks, p), p
			at += len(item) + 1
		}
	}
	return picks, nil
}

// parsePick reads an item, with the prefix of the item before if it has none.
func parsePick(item string, prefix Pick) (p Pick, reason string) {
	p = Pick{Kernel: prefix.Kernel, InPackage: prefix.InPackage, Package: prefix.Package, Last: all}
	numbers := item
	if rest, kernel := strings.CutPrefix(item, "p"); kernel {
		p.Kernel, p.InPackage, numbers = true, false, rest
	} else if socket, cores, is := strings.Cut(item, ":"); is {
		n, ok := cpuNumber(socket)
		if !ok {
			return p, fmt.Sprintf("%q is not the number of a package", socket)
		}
		p.Kernel, p.InPackage, p.Package, numbers = false, true, n, cores
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
		return p, fmt.Sprintf("%q is not a CPU: write 0-3, 1:0-2 for cores of a package, p4 for the kernel's number, or *", item)
	case p.Last < p.First:
		return p, fmt.Sprintf("the range %q runs backwards", numbers)
	}
	return p, ""
}

func cpuNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < maxCPU && text[0] != '+' && text[0] != '-'
}

// A Numbering finds the CPUs of a node by the numbers of picks.
type Numbering struct {
	kernel   []numbered   // every CPU
	units    []numbered   // by package, core and thread
	packages [][]numbered // the cores of each
	usable   []int        // CPUs
}

// A numbered thing has the number it is called by, and its CPUs as far as they may be
// used.
type numbered struct {
	number int
	cpus   []int
}

// Numbering counts everything that is online. threads says that units are hardware
// threads. CPUs outside of the cpuset have numbers too, so that a list means the same
// wherever it is used; they cannot be had.
func (t Topology) Numbering(threads bool) *Numbering {
	n := new(Numbering)
	cores := slices.Clone(t.Cores)
	slices.SortStableFunc(cores, func(a, b Core) int { return cmp.Compare(a.Package, b.Package) })
	for i, c := range cores {
		if i == 0 || c.Package != cores[i-1].Package {
			n.packages = append(n.packages, nil)
		}
		last := &n.packages[len(n.packages)-1]
		*last = append(*last, numbered{len(*last), c.CPUs})
		n.usable = append(n.usable, c.CPUs...)
		split := c.split()
		n.kernel = append(n.kernel, split...)
		if !threads {
			split = []numbered{{cpus: c.CPUs}}
		}
		for _, u := range split {
			n.units = append(n.units, numbered{len(n.units), u.cpus})
		}
	}
	slices.SortFunc(n.kernel, byNumber)
	slices.Sort(n.usable)
	return n
}

func byNumber(a, b numbered) int { return cmp.Compare(a.number, b.number) }

// split lists the threads of a core by their kernel numbers.
func (c Core) split() []numbered {
	var threads []numbered
	for _, cpu := range c.All() {
		u := numbered{number: cpu}
		if slices.Contains(c.CPUs, cpu) {
			u.cpus = []int{cpu}
		}
		threads = append(threads, u)
	}
	return threads
}

// CPUs lists what is meant, each CPU once, in the order of the list and ascending
// within a core. The error goes on after the name of the node: "node1 " + err.
func (n *Numbering) CPUs(picks []Pick) ([]int, error) {
	var cpus []int
	for _, p := range picks {
		things, err := n.things(p)
		if err != nil {
			return nil, err
		}
		for _, thing := range things {
			for _, cpu := range thing.cpus {
				if len(picks) == 1 || !slices.Contains(cpus, cpu) {
					cpus = append(cpus, cpu)
				}
			}
		}
	}
	return cpus, nil
}

// things are those a pick means.
func (n *Numbering) things(p Pick) ([]numbered, error) {
	list, noun := n.units, "slot "
	switch {
	case p.Kernel:
		list, noun = n.kernel, "CPU "
	case p.InPackage && p.Package >= len(n.packages):
		return nil, fmt.Errorf("has no package %d: its packages are %s", p.Package, upTo(len(n.packages)))
	case p.InPackage:
		list, noun = n.packages[p.Package], fmt.Sprintf("core %d:", p.Package)
	}
	if p.Last < p.First {
		list = slices.DeleteFunc(slices.Clone(list), func(u numbered) bool { return len(u.cpus) == 0 })
		if len(list) == 0 {
			return nil, fmt.Errorf("lets us use none of them, but the CPUs %s only", idset.Text(n.usable))
		}
		return list, nil
	}
	var things []numbered
	for number := p.First; number <= p.Last; number++ {
		i, there := slices.BinarySearchFunc(list, numbered{number: number}, byNumber)
		switch {
		case !there:
			return nil, fmt.Errorf("has no %s%d: it has %s", noun, number, spansOf(list))
		case len(list[i].cpus) == 0:
			return nil, fmt.Errorf("does not let us use its %s%d, but the CPUs %s only", noun, number, idset.Text(n.usable))
		}
		things = append(things, list[i])
	}
	return things, nil
}

func spansOf(things []numbered) string {
	numbers := make([]int, len(things))
	for i, thing := range things {
		numbers[i] = thing.number
	}
	return cmp.Or(idset.Text(numbers), "none")
}

// upTo is the numbers below n, folded.
func upTo(n int) string {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return cmp.Or(idset.Text(numbers), "none")
}
