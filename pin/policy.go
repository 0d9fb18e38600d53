package pin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"remshell/idset"
)

// A Layout is the options of mapping, ranking and binding (cli.md section 2). With the zero value the
// defaults of placement.md hold.
type Layout struct {
	Map  Mapping
	Rank Ranking
	Bind Binding
	Mem  Memory
}

// NeedsPool reports whether package plan must use a Pool, which groups slots by hardware objects.
// Otherwise ranks get the next slots (placement.md).
func (l Layout) NeedsPool() bool {
	m, b := l.Map, l.Bind
	return m.Level > ByNode || m.PerObject > 0 || m.PEList != nil || m.Span || l.Rank.Text != "" ||
		b.Level > BySlot || b.Sets != nil || b.CPUList != nil || b.RoundRobin
}

// A Mapping says to which objects ranks are assigned in turn (--map-by):
//
//	object [":" count] {":" qualifier} | "ppr:" N ":" object {":" qualifier}
//	"seq" [":file=" PATH] | "rankfile:file=" PATH | "pe-list=" CPULIST [":ordered"]
type Mapping struct {
	Text          string // as written; empty if not given
	Level         Level
	Count         int        // consecutive objects that count as one, or consecutive ranks on a node; 0 means 1
	PerObject     int        // ppr: ranks for each object; 0 means no limit
	PEList        []CPURange // pe-list; nil means all
	PEListOrdered bool       // each rank gets the next CPU of PEList; else all ranks get all
	Span          bool       // objects of all nodes are used in turn, as if on one node
	Seq           bool       // each line of a host file is a rank
	File          string     // host file of seq, or rank file
	Qualifiers
}

// Qualifiers are the qualifiers of a mapping that set other options.
type Qualifiers struct {
	Width                          int  // pe=N: CPUs for each rank; 0 if not given
	Oversubscribe, NoOversubscribe bool // oversubscribe, nooversubscribe
	NoLocal                        bool
	Threads, NoThread              bool // hwtcpus, corecpus: whether threads or cores count as CPUs
}

// mapWords are the words with which a mapping may begin.
var mapWords = []string{"slot", "node", "machine", "socket", "package", "numa", "l3cache", "l2cache", "l1cache", "core", "hwthread",
	"ppr:N:OBJECT", "seq", "rankfile:file=FILE", "pe-list=LIST"}

// Choices returns the words with which a mapping may begin. Capitals stand for values.
func (Mapping) Choices() []string { return mapWords }

// UnmarshalText parses the value of --map-by.
func (m *Mapping) UnmarshalText(text []byte) error {
	value := string(text)
	*m = Mapping{Text: value}
	lower := strings.ToLower(value)
	head, rest, _ := strings.Cut(value, ":")
	_, file, hasFile := strings.Cut(rest, "=")
	switch {
	case strings.HasPrefix(lower, "pe-list="):
		return m.parsePEList(value[len("pe-list="):])
	case strings.EqualFold(head, "ppr"):
		return m.parsePerResource(rest)
	case strings.EqualFold(head, "seq"), strings.EqualFold(head, "rankfile"):
		m.Seq, m.File = strings.EqualFold(head, "seq"), file
		named := hasFile && strings.HasPrefix(strings.ToLower(rest), "file=") && file != ""
		if named || m.Seq && rest == "" {
			return nil
		}
		return fmt.Errorf("%q: write %s:file=FILE", value, strings.ToLower(head))
	}
	return m.parseObject(value)
}

// parsePEList parses the text after "pe-list=".
func (m *Mapping) parsePEList(list string) error {
	if at := len(list) - len(":ordered"); at >= 0 && strings.EqualFold(list[at:], ":ordered") {
		list, m.PEListOrdered = list[:at], true
	}
	var err error
	m.PEList, err = ParseCPURanges(list)
	return err
}

// parsePerResource parses "N:object{:qualifier}".
func (m *Mapping) parsePerResource(rest string) error {
	number, object, _ := strings.Cut(rest, ":")
	n, ok := parseCount(number)
	if !ok {
		return fmt.Errorf("ppr: %q is not a number of ranks: write ppr:N:OBJECT", number)
	}
	if level, qualifiers, _ := strings.Cut(object, ":"); strings.EqualFold(level, "n") { // Open MPI's own library writes "n" for node
		object = strings.TrimSuffix("node:"+qualifiers, ":")
	}
	if err := m.parseObject(object); err != nil {
		return fmt.Errorf("ppr: %w", err)
	}
	if m.Level == BySlot {
		return errors.New("ppr: ranks are counted for each node, socket, numa, l3cache, l2cache, core or hwthread")
	}
	if m.Count > 0 {
		return fmt.Errorf("ppr: a count behind %s has no meaning", m.Level)
	}
	m.PerObject = n
	return nil
}

// parseObject parses "object[:count]{:qualifier}". An empty object means slot, as in Open MPI:
// ":oversubscribe".
func (m *Mapping) parseObject(value string) error {
	parts := strings.Split(value, ":")
	if parts[0] != "" || len(parts) == 1 {
		word, err := matchWord(parts[0], mapWords[:11])
		if err != nil {
			if m.Text == value {
				_, err = matchWord(parts[0], mapWords)
			}
			return err
		}
		m.Level = parseLevel(word)
	}
	if len(parts) > 1 {
		if n, ok := parseCount(parts[1]); ok {
			if m.Count = n; m.Level == BySlot {
				return errors.New("a count behind slot has no meaning; for CPUs of each rank write slot:pe=N")
			}
			parts = parts[1:]
		}
	}
	for _, q := range parts[1:] {
		if err := m.parseQualifier(q); err != nil {
			return err
		}
	}
	if m.Oversubscribe && m.NoOversubscribe || m.Threads && m.NoThread {
		return fmt.Errorf("%q contradicts itself", value)
	}
	m.Threads = m.Threads || m.Level == ByThread
	return nil
}

func (m *Mapping) parseQualifier(text string) error {
	name, value, valued := strings.Cut(text, "=")
	if valued && strings.EqualFold(name, "pe") {
		n, ok := parseCount(value)
		if m.Width = n; !ok {
			return fmt.Errorf("pe: %q is not a number of CPUs", value)
		}
		return nil
	}
	word, err := matchWord(text, []string{"pe=N", "span", "oversubscribe", "nooversubscribe", "nolocal", "hwtcpus", "corecpus"})
	if err != nil {
		return err
	}
	switch word {
	case "pe=N":
		return errors.New("pe needs a number: pe=2")
	case "span":
		m.Span = true
	case "oversubscribe":
		m.Oversubscribe = true
	case "nooversubscribe":
		m.NoOversubscribe = true
	case "nolocal":
		m.NoLocal = true
	case "hwtcpus":
		m.Threads = true
	case "corecpus":
		m.NoThread = true
	}
	return nil
}

// parseCount parses a number from 1 to maxCPU.
func parseCount(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxCPU && text[0] != '+'
}

// A Ranking says in which order mapped ranks get their numbers (--rank-by):
//
//	slot    node by node, in the order of mapping
//	node    one rank of each node in turn
//	fill    node by node, and there one object after the other
//	span    one rank of each object of all nodes in turn
//	object  node by node, and there one rank of each object of this level in turn
type Ranking struct {
	Text  string // as written; empty means in the order of mapping
	Order string // "slot", "node", "fill", "span" or "object"
	Level Level  // of "object"
}

// Choices returns the words of a ranking.
func (Ranking) Choices() []string { return append([]string{"fill", "span"}, mapWords[:11]...) }

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

// A Memory says from which NUMA nodes the memory of a rank comes (-membind):
//
//	"none" | "local" | "interleave" | "bind:" LIST
type Memory struct {
	Text  string // as written; empty means the NUMA nodes of its cores
	Mode  MemMode
	Nodes []int // of bind, ascending
}

// A MemMode is a memory policy. Empty means that memory comes only from the rank's NUMA nodes.
type MemMode string

// The other memory policies.
const (
	NoMemory   MemMode = "none"       // unchanged: the policy of the helper
	Local      MemMode = "local"      // from the NUMA node of the thread that first uses it
	Interleave MemMode = "interleave" // from all NUMA nodes in turn
)

// Choices returns the words with which a memory policy may begin.
func (Memory) Choices() []string {
	return []string{"none", "local", "firsttouch", "interleave", "bind:LIST"}
}

// UnmarshalText parses the value of -membind. Hydra's firsttouch is local.
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

// Choices returns the words with which a binding may begin.
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

// parseQualifiers parses "[count]{:qualifier}".
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

// parseSets parses Hydra's "0+2,1+4,3-5": the kernel's CPUs of each rank of a node. The word none, which
// Hydra does not have, leaves a rank unbound.
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
