/*
Package sort sorts nodes into the order in which ranks fill them. In this module sort always means
this package; slices are sorted with the standard package slices.

	Parse("proc+load") --> Mode;   OrderEntries(nodes, entries, Mode) --> entries in fill order

A host entry is one mention of a node in the user's list; a node may have several. The keys and
the total order are those of placement.md section 4. A new key is a row of sortKeys.
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

// A Mode is a sort key in canonical form.
type Mode string

// The keys that other packages use.
const (
	None Mode = "NONE" // the order of the list
	Proc Mode = "PROC"
)

// A sortKey is one key: its names, the value that it reads of a node, and the format of that value for
// people.
type sortKey struct {
	mode     Mode
	words    []string // its names, in the order of messages
	flagOnly bool     // only --sort accepts it (cli.md --sort)

	read   func(*job.Node) keyValue  // nil keeps the order of the list
	format func(rating int64) string // nil if the value is not measured
}

// A keyValue is the value of a key for one node. The lesser value comes first.
type keyValue struct {
	value int64
	name  string // compared if values are equal; empty for most keys
}

// unknownValue is the value if nothing could be measured. It comes after all others (4.3).
const unknownValue = math.MaxInt64

// sortKeys lists all keys, in the order of messages.
var sortKeys = []sortKey{
	{mode: Proc, words: []string{"PROC"}, format: formatInt,
		read: func(n *job.Node) keyValue { return keyValue{value: int64(n.Ranks)} }},
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

// readLoad returns a function that reads a load of a node in whole hundredths. Equal texts in
// /proc/loadavg are then equal (4.3).
func readLoad(which int) func(*job.Node) keyValue {
	return func(n *job.Node) keyValue {
		if n.Load[which] < 0 {
			return keyValue{value: unknownValue}
		}
		return keyValue{value: int64(math.Floor(float64(n.Load[which]*100) + 0.5))}
	}
}

// procsAndLoad adds the load and the number of processes. One process counts as a load of exactly 1.00.
func procsAndLoad(n *job.Node) keyValue {
	sum := readLoad(0)(n)
	if sum.value != unknownValue {
		sum.value += 100 * int64(n.Ranks)
	}
	return sum
}

func formatInt(rating int64) string { return strconv.FormatInt(rating, 10) }

func formatHundredths(rating int64) string {
	if rating == unknownValue {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", float64(rating)/100)
}

// sortKey returns the row of a key. An unknown Mode sorts like None.
func (m Mode) sortKey() (row sortKey) {
	for _, c := range sortKeys {
		if c.mode == m {
			row = c
		}
	}
	return row
}

// KeyWords returns the names of keys: those for a variable or the cluster file (4.1), or with flag those
// for --sort, which accepts more.
func KeyWords(flag bool) []string {
	var words []string
	for _, c := range sortKeys {
		if flag || !c.flagOnly {
			words = append(words, c.words...)
		}
	}
	return words
}

// Parse parses a key in any case. flag says that the text is the value of --sort. KeyWords returns the
// valid texts.
func Parse(text string, flag bool) (Mode, error) {
	for _, c := range sortKeys {
		written := func(word string) bool { return strings.EqualFold(word, text) }
		if (flag || !c.flagOnly) && slices.ContainsFunc(c.words, written) {
			return c.mode, nil
		}
	}
	return "", fmt.Errorf("unknown sort criterion %q", text)
}

// OrderEntries returns host entries, as indices into nodes, in fill order: by key, then larger nodes
// first, then by ID, then as in the list (4.2). It does not change its arguments.
func OrderEntries(nodes []job.Node, entries []int, by Mode) []int {
	sorted := slices.Clone(entries)
	read := by.sortKey().read
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

// An entryKey holds all values that determine the order.
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
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id))
}

// MeasuredValue returns the measured value of a node for people: its load or its processes. It is empty
// for other keys.
func MeasuredValue(n *job.Node, by Mode) string {
	c := by.sortKey()
	if c.format == nil {
		return ""
	}
	return c.format(c.read(n).value)
}
