/*
Package sort sorts nodes into the order in which ranks fill them. It is not the package of the same name in the
standard library, which this module does not use.

	Parse("proc+load") --> Mode;   OrderEntries(nodes, entries, Mode) --> entries in fill order

A host entry is one mention of a node in the user's list, which may mention a node several times. placement.md
section 4 describes the sort keys and the complete order. To add a sort key, add a row to sortKeys.
*/
package sort

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// A Mode is the name of a sort key in its canonical form.
type Mode string

// These are the sort keys that other packages use.
const (
	None Mode = "NONE" // the order of the list
	Proc Mode = "PROC"
)

// A sortKey describes one sort key: its names, a function that returns a node's value, and the format of that value
// for people.
type sortKey struct {
	mode     Mode
	words    []string // its names, in the order of messages
	flagOnly bool     // only --sort accepts it

	read   func(*job.Node) keyValue  // nil keeps the order of the list
	format func(rating int64) string // nil if the value is not measured
}

// A keyValue is the value of a key for one node. Nodes with smaller values come first.
type keyValue struct {
	value int64
	name  string // compared if values are equal; empty for most keys
	load  int64  // compared then: a whole number; 0 for all keys but PROC
}

// unknownValue is the value of a sort key for a node on which it could not be measured. Such nodes come last
// (placement.md 4.3).
const unknownValue = math.MaxInt64

// sortKeys lists all sort keys, in the order in which messages list them.
var sortKeys = []sortKey{
	{mode: Proc, words: []string{"PROC"}, format: formatInt,
		read: func(n *job.Node) keyValue { return keyValue{value: int64(n.Ranks), load: wholeLoad(n)} }},
	{mode: "LOAD_1", words: []string{"LOAD", "LOAD1", "LOAD_1"}, format: formatHundredths, read: readLoad(0)},
	{mode: "LOAD_5", words: []string{"LOAD5", "LOAD_5"}, format: formatHundredths, read: readLoad(1)},
	{mode: "LOAD_15", words: []string{"LOAD15", "LOAD_15"}, format: formatHundredths, read: readLoad(2)},
	{mode: "PROC+LOAD", words: []string{"PROC+LOAD"}, format: formatHundredths, read: procsAndLoad},
	{mode: None, words: []string{"NONE"}},
	{mode: "SLOTS", words: []string{"SLOTS"}, flagOnly: true,
		read: func(n *job.Node) keyValue { return keyValue{value: int64(n.SlotCount())} }},
	{mode: "-SLOTS", words: []string{"-SLOTS"}, flagOnly: true,
		read: func(n *job.Node) keyValue { return keyValue{value: -int64(n.SlotCount())} }},
	{mode: "NAME", words: []string{"NAME"}, flagOnly: true,
		read: func(n *job.Node) keyValue { return keyValue{name: n.Name} }},
}

// readLoad returns a function that returns a load average of a node in hundredths. index selects the load
// average of the last 1, 5 or 15 minutes. Since hundredths are whole numbers, equal loads always give equal
// values (placement.md 4.3).
func readLoad(index int) func(*job.Node) keyValue {
	return func(n *job.Node) keyValue {
		if n.Load[index] < 0 {
			return keyValue{value: unknownValue}
		}
		return keyValue{value: int64(math.Floor(float64(n.Load[index]*100) + 0.5))}
	}
}

// procsAndLoad returns the sum of a node's load and its number of processes, where one process counts as a load of
// 1.00.
func procsAndLoad(n *job.Node) keyValue {
	sum := readLoad(0)(n)
	if sum.value != unknownValue {
		sum.value += 100 * int64(n.Ranks)
	}
	return sum
}

// wholeLoad returns a node's load average of the last minute as a whole number, rounded half up. Rounding hides small
// differences between nodes, which change from one moment to the next (placement.md 4.3). For a node without processes,
// wholeLoad returns 0, so that a job gets the same idle nodes each time.
func wholeLoad(n *job.Node) int64 {
	load := readLoad(0)(n).value
	switch {
	case n.Ranks == 0:
		return 0
	case load == unknownValue:
		return unknownValue
	}
	return (load + 50) / 100
}

func formatInt(rating int64) string { return strconv.FormatInt(rating, 10) }

func formatHundredths(rating int64) string {
	if rating == unknownValue {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", float64(rating)/100)
}

// sortKey returns the row of sortKeys for m. For an unknown Mode it returns an empty row, which leaves nodes in the
// order of the list.
func (m Mode) sortKey() (row sortKey) {
	for _, c := range sortKeys {
		if c.mode == m {
			row = c
		}
	}
	return row
}

// KeyWords returns the names of sort keys. If flag is true, it returns the names that --sort accepts. Otherwise it
// returns the smaller set of names that a variable or the cluster file accepts (placement.md 4.1).
func KeyWords(flag bool) []string {
	var words []string
	for _, c := range sortKeys {
		if flag || !c.flagOnly {
			words = append(words, c.words...)
		}
	}
	return words
}

// Parse parses the name of a sort key and ignores case. flag is true if text is the value of --sort. KeyWords
// returns the names that Parse accepts.
func Parse(text string, flag bool) (Mode, error) {
	for _, c := range sortKeys {
		written := func(word string) bool { return strings.EqualFold(word, text) }
		if (flag || !c.flagOnly) && slices.ContainsFunc(c.words, written) {
			return c.mode, nil
		}
	}
	return "", fmt.Errorf("unknown sort criterion %q", text)
}

// OrderEntries returns host entries, which are indices into nodes, in the order in which ranks fill them
// (placement.md 4.2). It orders entries by sort key and, for PROC, by whole load. Entries that are still equal
// are ordered from larger to smaller nodes, then by ID, then by position in the list. OrderEntries does not
// change its arguments.
func OrderEntries(nodes []job.Node, entries []int, mode Mode) []int {
	sorted := slices.Clone(entries)
	read := mode.sortKey().read
	if read == nil {
		return sorted
	}
	keys := make([]entryKey, len(nodes))
	for i := range nodes {
		keys[i] = entryKey{read(&nodes[i]), nodes[i].SlotCount(), nodes[i].ID}
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return keys[a].compare(&keys[b]) })
	return sorted
}

// An entryKey holds all values that determine the position of a host entry in the order.
type entryKey struct {
	keyValue
	size, id int
}

func (a *entryKey) compare(b *entryKey) int {
	if order := cmp.Compare(a.value, b.value); order != 0 {
		return order
	}
	if a.name != b.name {
		return hostlist.Compare(a.name, b.name)
	}
	return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id))
}

// MeasuredValue returns the measured value by which a sort key orders a node, formatted for people: the node's load or
// its number of processes. If the key uses no measured value, MeasuredValue returns "".
func MeasuredValue(n *job.Node, mode Mode) string {
	c := mode.sortKey()
	if c.format == nil {
		return ""
	}
	return c.format(c.read(n).value)
}
