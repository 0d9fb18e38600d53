package pin

import (
	"fmt"
	"strings"

	"remshell/idset"
)

// A Layout contains the options of mapping, ranking and binding (cli.md 2). The zero value stands for the defaults
// of placement.md.
type Layout struct {
	Map  Mapping
	Rank Ranking
	Bind Binding
	Mem  Memory
}

// NeedsPool reports whether package plan must use a Pool, which groups slots by hardware objects. Without a
// Pool, ranks simply get the next slots (placement.md).
func (l Layout) NeedsPool() bool {
	m, b := l.Map, l.Bind
	return m.Level > ByNode || m.PerObject > 0 || m.PEList != nil || m.Span || l.Rank.Text != "" ||
		b.Level > BySlot || b.Sets != nil || b.CPUList != nil || b.RoundRobin
}

// A Ranking says in which order mapped ranks get their numbers (--rank-by):
//
//	slot    node by node; on each node in the order of mapping
//	node    the nodes in turn, one rank each
//	fill    node by node; on each node object by object
//	span    the objects of all nodes in turn, one rank each
//	object  node by node; on each node the objects of this level in turn, one rank each
type Ranking struct {
	Text  string // as written; empty means in the order of mapping
	Order string // "slot", "node", "fill", "span" or "object"
	Level Level  // of "object"
}

// Choices returns the words that --rank-by accepts.
func (Ranking) Choices() []string { return append([]string{"fill", "span"}, objectWords()...) }

// UnmarshalText parses the value of --rank-by.
func (r *Ranking) UnmarshalText(text []byte) error {
	word, err := matchWord(string(text), r.Choices())
	*r = Ranking{Text: string(text), Order: word}
	if err != nil {
		return err
	}
	switch r.Level = parseLevel(word); {
	case word == "machine":
		r.Order = "node"
	case r.Level > ByNode:
		r.Order = "object"
	}
	return nil
}

// A Binding says on which CPUs a rank may run (--bind-to):
//
//	object [":" count] {":" (overload-allowed | if-supported | report)}
//	"none" | "user:" (SET | "none") {"," (SET | "none")} | "cpu-list=" CPULIST | "rr"
type Binding struct {
	Text       string // as written; empty means the rank's own slots
	None       bool
	Level      Level      // bind to the object at this level that contains the slots; BySlot if bound in another way
	Count      int        // consecutive objects that count as one; 0 means 1
	Width      int        // cores or threads for each rank; 0 if not given
	Sets       [][]int    // user: kernel CPUs of the first rank of each node, the second, ...; an empty set leaves it unbound
	CPUList    []CPURange // cpu-list: these CPUs for all ranks
	RoundRobin bool       // one CPU for each rank, in the kernel's order

	Overload    bool // ranks may have the same CPUs
	IfSupported bool // bind to slots on a node that does not report its objects
	Report      bool // print the bindings
}

// A Memory says from which NUMA nodes a rank gets its memory (-membind):
//
//	"none" | "local" | "interleave" | "bind:" LIST
type Memory struct {
	Text  string // as written; empty means the NUMA nodes of its cores
	Mode  MemMode
	Nodes []int // of bind, ascending
}

// A MemMode is a memory policy. The empty policy takes memory only from the NUMA nodes of the rank.
type MemMode string

// These are the memory policies other than the empty one.
const (
	NoMemory   MemMode = "none"       // unchanged: the policy of the helper
	Local      MemMode = "local"      // from the NUMA node of the thread that first uses it
	Interleave MemMode = "interleave" // from all NUMA nodes in turn
)

// Choices returns the words with which the value of -membind may begin.
func (Memory) Choices() []string {
	return []string{"none", "local", "firsttouch", "interleave", "bind:LIST"}
}

// UnmarshalText parses the value of -membind. It accepts Hydra's word firsttouch as a synonym of local.
func (m *Memory) UnmarshalText(text []byte) error {
	value := string(text)
	*m = Memory{Text: value}
	if head, list, _ := strings.Cut(value, ":"); strings.EqualFold(head, "bind") {
		nodes, err := ParseCPUs(list)
		if m.Nodes = idset.New(nodes...); err != nil || len(nodes) == 0 {
			return fmt.Errorf("%q is not a list of NUMA nodes such as 0-1,3", list)
		}
		return nil
	}
	word, err := matchWord(value, m.Choices())
	switch word {
	case "bind:LIST":
		err = fmt.Errorf("%q: write bind:LIST", value)
	case "firsttouch":
		word = "local"
	}
	m.Mode = MemMode(word)
	return err
}

var bindWords = []string{"none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket", "package", "machine", "board",
	"user:SET", "cpu-list=LIST", "rr"}

// Choices returns the words with which the value of --bind-to may begin.
func (Binding) Choices() []string { return bindWords }

// UnmarshalText parses the value of --bind-to.
func (b *Binding) UnmarshalText(text []byte) (err error) {
	value := string(text)
	*b = Binding{Text: value}
	head, rest, _ := strings.Cut(value, ":")
	switch name, list, _ := strings.Cut(value, "="); {
	case strings.EqualFold(head, "user"):
		return b.parseSets(rest)
	case strings.EqualFold(name, "cpu-list"):
		b.CPUList, err = ParseCPURanges(list)
		return err
	case strings.EqualFold(value, "rr"):
		b.RoundRobin = true
		return nil
	}
	word, err := matchWord(head, bindWords)
	if err != nil {
		return err
	}
	if strings.ContainsAny(word, ":=") || word == "rr" {
		return fmt.Errorf("%q: write %s", value, word)
	}
	b.None = word == "none"
	b.Level = parseLevel(word)
	return b.parseQualifiers(rest, value)
}

// parseQualifiers parses rest, which has the form "[count]{:qualifier}". value is the whole value of --bind-to, which
// error messages quote.
func (b *Binding) parseQualifiers(rest, value string) error {
	if rest == "" {
		return nil
	}
	parts := strings.Split(rest, ":")
	if n, ok := parseCount(parts[0]); ok {
		if parts = parts[1:]; b.Level >= ByCore {
			b.Width = n
		} else {
			b.Count = n
		}
	}
	for _, q := range parts {
		word, err := matchWord(q, []string{"overload-allowed", "if-supported", "report"})
		if err != nil {
			return err
		}
		b.Overload = b.Overload || word == "overload-allowed"
		b.IfSupported = b.IfSupported || word == "if-supported"
		b.Report = b.Report || word == "report"
	}
	if b.None && (b.Count > 0 || b.Overload) {
		return fmt.Errorf("%q contradicts itself", value)
	}
	return nil
}

// parseSets parses a list of CPU sets, one for each rank of a node, such as "0+2,1+4,3-5" (a notation of Hydra). The
// numbers are the kernel's CPU numbers. The word none stands for a rank that is not bound. Hydra does not have this
// word.
func (b *Binding) parseSets(text string) error {
	for set := range strings.SplitSeq(text, ",") {
		if set == "none" {
			b.Sets = append(b.Sets, nil)
			continue
		}
		cpus, err := ParseCPUs(strings.ReplaceAll(set, "+", ","))
		if err != nil || len(cpus) == 0 {
			return fmt.Errorf("%q is not a set of CPUs such as 0+2 or 4-7", set)
		}
		b.Sets = append(b.Sets, cpus)
	}
	return nil
}
