package pin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file implements --map-by. Each policy is one row of mappingPolicies. The words that the option accepts, its
// completion, its error messages and its entry in doc/options.md are generated from the rows. The rest of the program
// learns what a policy does from a Mapping's Level, IsCyclic and Turn.
//
// To add a policy, add a row, its cases to TestPolicies, a line to testdata/placement/layouts.txt, and its words to
// the grammar in doc/spec/cli.md. Tests name what is missing.

// A mappingPolicy describes one policy of --map-by. It contains the word with which the value of the option begins, and
// the meaning of that word.
type mappingPolicy struct {
	word  string // an unambiguous abbreviation will do
	value string // text that must follow the word, for messages; capitals stand for values; empty: none
	help  string // for the reference of options; empty: the text there explains the word

	level Level                               // kind of objects to which ranks are mapped
	read  func(m *Mapping, rest string) error // parses the text after the word; nil: [":" count] {":" qualifier}

	// turn returns the index of the node that gets ranks in a turn of a round. All numbers begin at 0. In each round each
	// node has one turn; full nodes leave after a round. nil: each node is filled before the next gets ranks.
	turn func(round, turn, nodes int) int
}

// mappingPolicies lists all mapping policies, in the order in which messages list their words.
var mappingPolicies = []mappingPolicy{
	{word: "slot"},
	{word: "node", level: ByNode, turn: inOrder},
	{word: "machine", level: ByNode, turn: inOrder},
	{word: "socket", level: ByPackage},
	{word: "package", level: ByPackage},
	{word: "numa", level: ByNUMA},
	{word: "l3cache", level: ByL3},
	{word: "l2cache", level: ByL2},
	{word: "l1cache", level: ByCore},
	{word: "core", level: ByCore},
	{word: "hwthread", level: ByThread},
	{word: "ppr", value: ":N:OBJECT", read: (*Mapping).readPerResource,
		help: "ppr:N:OBJECT puts N ranks on each object, one object after the other."},
	{word: "seq", read: (*Mapping).readFile,
		help: "seq[:file=FILE] takes the host of each rank from the host file."},
	{word: "rankfile", value: ":file=FILE", read: (*Mapping).readFile,
		help: "rankfile:file=FILE means the same as -rankfile FILE."},
	{word: "pe-list", value: "=LIST", read: (*Mapping).readPEList,
		help: "pe-list=LIST[:ordered] uses only these cores: all of them for each rank, or with :ordered one core for each rank."},
}

// inOrder is the turn function of policies that use the nodes in the same order in each round.
func inOrder(_, turn, _ int) int { return turn }

// A Mapping is the parsed value of --map-by. It says to which hardware objects ranks are assigned in turn:
//
//	object [":" count] {":" qualifier} | "ppr:" N ":" object {":" qualifier}
//	"seq" [":file=" PATH] | "rankfile:file=" PATH | "pe-list=" CPULIST [":ordered"]
type Mapping struct {
	Text          string // as written; empty if not given
	Policy        string // the word of its row of mappingPolicies, in full; empty if not given
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

// Qualifiers are the qualifiers of a --map-by value that set other options.
type Qualifiers struct {
	Width                          int  // pe=N: CPUs for each rank; 0 if not given
	Oversubscribe, NoOversubscribe bool // oversubscribe, nooversubscribe
	NoLocal                        bool
	Threads, NoThread              bool // hwtcpus, corecpus: whether threads or cores count as CPUs
}

// Choices returns the words with which a value of --map-by may begin. Words in capitals are placeholders for values.
func (Mapping) Choices() (words []string) {
	for _, p := range mappingPolicies {
		words = append(words, p.word+p.value)
	}
	return words
}

// MappingHelp returns the help texts of policies such as ppr and seq, for doc/options.md.
func MappingHelp() string {
	var sentences []string
	for _, p := range mappingPolicies {
		if p.help != "" {
			sentences = append(sentences, p.help)
		}
	}
	return strings.Join(sentences, " ")
}

// IsCyclic reports whether nodes get ranks in turn. If not, each node is filled before the next node gets
// ranks.
func (m Mapping) IsCyclic() bool { return m.policy().turn != nil }

// Turn returns the function that determines the order of nodes in each round. If the policy has no such function
// (mappingPolicy.turn), Turn returns inOrder.
func (m Mapping) Turn() func(round, turn, nodes int) int {
	if p := m.policy(); p.turn != nil {
		return p.turn
	}
	return inOrder
}

// policy returns the policy of a mapping. If no mapping was given, it is the policy "slot".
func (m Mapping) policy() mappingPolicy {
	i := slices.IndexFunc(mappingPolicies, func(p mappingPolicy) bool { return p.word == m.Policy })
	return mappingPolicies[max(0, i)]
}

// UnmarshalText parses the value of --map-by.
func (m *Mapping) UnmarshalText(text []byte) error {
	value := string(text)
	*m = Mapping{Text: value}
	p, rest, err := findPolicy(value)
	if err != nil {
		return err
	}
	m.Policy, m.Level = p.word, p.level
	if p.read != nil {
		return p.read(m, rest)
	}
	return m.readQualifiers(value, rest)
}

// findPolicy returns the policy with which a value of --map-by begins, and the rest of the value. If the value begins
// with a qualifier, as in ":oversubscribe", the policy is slot, as in Open MPI. A word that abbreviates exactly one
// kind of hardware object means that object, even if the word also abbreviates another policy.
func findPolicy(value string) (p mappingPolicy, rest string, err error) {
	head, _, qualified := strings.Cut(value, ":")
	if head == "" && qualified {
		return mappingPolicies[0], value, nil
	}
	word, _, assigned := strings.Cut(head, "=")
	choices := Mapping{}.Choices()
	choice, err := matchWord(word, objectWords())
	if err != nil {
		choice, err = matchWord(word, choices)
	}
	if err == nil {
		p = mappingPolicies[slices.Index(choices, choice)]
	}
	takesList := strings.HasPrefix(p.value, "=") && strings.EqualFold(word, p.word) // pe=2 is no pe-list=2
	if err != nil || assigned && !takesList {
		_, err = matchWord(head, choices)
	}
	return p, value[len(word):], err
}

// readPEList parses "=" CPULIST [":ordered"], the rest of a value after pe-list.
func (m *Mapping) readPEList(rest string) error {
	list, assigned := strings.CutPrefix(rest, "=")
	if !assigned {
		return fmt.Errorf("%q: write pe-list=LIST", m.Text)
	}
	if at := len(list) - len(":ordered"); at >= 0 && strings.EqualFold(list[at:], ":ordered") {
		list, m.PEListOrdered = list[:at], true
	}
	var err error
	m.PEList, err = ParseCPURanges(list)
	return err
}

// readFile parses ":file=" PATH, the rest of a value after seq or rankfile. For seq, the rest may be empty.
func (m *Mapping) readFile(rest string) error {
	const name = ":file="
	m.Seq = m.Policy == "seq"
	switch {
	case len(rest) > len(name) && strings.EqualFold(rest[:len(name)], name):
		m.File = rest[len(name):]
		return nil
	case m.Seq && strings.TrimPrefix(rest, ":") == "":
		return nil
	}
	return fmt.Errorf("%q: write %s:file=FILE", m.Text, m.Policy)
}

// readPerResource parses ":" N ":" object {":" qualifier}, the rest of a value after ppr.
func (m *Mapping) readPerResource(rest string) error {
	number, object, _ := strings.Cut(strings.TrimPrefix(rest, ":"), ":")
	n, ok := parseCount(number)
	if !ok {
		return fmt.Errorf("ppr: %q is not a number of ranks; write ppr:N:OBJECT", number)
	}
	if level, qualifiers, _ := strings.Cut(object, ":"); strings.EqualFold(level, "n") { // Open MPI's own library writes "n" for node
		object = strings.TrimSuffix("node:"+qualifiers, ":")
	}
	if err := m.readObject(object); err != nil {
		return fmt.Errorf("ppr: %w", err)
	}
	if m.Level == BySlot {
		return errors.New("ppr: the object must be node, socket, numa, l3cache, l2cache, core or hwthread")
	}
	if m.Count > 0 {
		return fmt.Errorf("ppr: no number may follow the object %s", m.Level)
	}
	m.PerObject = n
	return nil
}

// readObject parses a value of the form object [":" count] {":" qualifier}. The object may be missing before a
// qualifier.
func (m *Mapping) readObject(value string) error {
	word, _, qualified := strings.Cut(value, ":")
	if word != "" || !qualified {
		known, err := matchWord(word, objectWords())
		if err != nil {
			return err
		}
		m.Level = parseLevel(known)
	}
	return m.readQualifiers(value, value[len(word):])
}

// readQualifiers parses [":" count] {":" qualifier}, the rest of a value after the object.
func (m *Mapping) readQualifiers(value, rest string) error {
	parts := strings.Split(rest, ":")[1:]
	if len(parts) > 0 {
		if n, ok := parseCount(parts[0]); ok {
			if m.Count = n; m.Level == BySlot {
				return errors.New("no number may follow slot; to give each rank several CPUs, write slot:pe=N")
			}
			parts = parts[1:]
		}
	}
	for _, q := range parts {
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
		return errors.New("pe needs a number of CPUs, such as pe=2")
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

// parseCount parses a number from 1 to maxCPU. It returns false if text is not such a number.
func parseCount(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxCPU && text[0] != '+'
}
