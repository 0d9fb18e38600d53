/*
Package sort orders nodes: the order in which they are filled. In this module sort
always means this package; slices are sorted with the standard package slices.

	Parse("proc+load") --> Mode;   Turns(nodes, turns, Mode) --> turns in filling order

A turn is one mention of a node in the user's list; a node may have several. The
keys and the total order are those of placement.md section 4. A new key is a row of criteria.
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

// A Mode is a canonical sort key.
type Mode string

// The keys that others of this program name.
const (
	None Mode = "NONE" // the order of the list
	Proc Mode = "PROC"
)

// A sortKey is one key: what may be written for it, what it reads of a node, and how people are
// told of that.
type sortKey struct {
	mode     Mode
	words    []string // what may be written, in the order of messages
	flagOnly bool     // only --sort knows it (cli.md --sort)

	read   func(*job.Node) keyValue  // nil: the order of the list stays
	format func(rating int64) string // nil: it is nothing that was measured
}

// A keyValue is what a criterion has read of a node. The lesser one comes first.
type keyValue struct {
	value int64
	name  string // decides where ratings are equal, if names do
}

// unknownValue is the rating of what could not be read: it comes after all that could (4.3).
const unknownValue = math.MaxInt64

// sortKeys are all keys, in the order of messages.
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

// readLoad reads one of a node's loads in whole hundredths, so that equal texts in /proc/loadavg are
// equal (4.3).
func readLoad(which int) func(*job.Node) keyValue {
	return func(n *job.Node) keyValue {
		if n.Load[which] < 0 {
			return keyValue{value: unknownValue}
		}
		return keyValue{value: int64(math.Floor(float64(n.Load[which]*100) + 0.5))}
	}
}

// procsAndLoad counts one process as a load of exactly 1.00.
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

// sortKey is the row of a key. A Mode that Parse has not made is None.
func (m Mode) sortKey() (row sortKey) {
	for _, c := range sortKeys {
		if c.mode == m {
			row = c
		}
	}
	return row
}

// KeyWords lists what may be written: in a variable or the cluster file (4.1), or
// after the flag, which knows more.
func KeyWords(flag bool) []string {
	var words []string
	for _, c := range sortKeys {
		if flag || !c.flagOnly {
			words = append(words, c.words...)
		}
	}
	return words
}

// Parse reads a key in any case; flag says that it stands after the flag. What
// could have been written is told by Words.
func Parse(text string, flag bool) (Mode, error) {
	for _, c := range sortKeys {
		written := func(word string) bool { return strings.EqualFold(word, text) }
		if (flag || !c.flagOnly) && slices.ContainsFunc(c.words, written) {
			return c.mode, nil
		}
	}
	return "", fmt.Errorf("unknown sort criterion %q", text)
}

// OrderEntries returns turns, indices into nodes, in the order in which they are to be
// filled: by key, then larger nodes first, then by ID, then as in the list (4.2).
// The argument is kept.
func OrderEntries(nodes []job.Node, turns []int, by Mode) []int {
	sorted := slices.Clone(turns)
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

// An entryKey is all that an order depends on.
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

// MeasuredValue is the key of a node by a measured mode, for people: its load or its processes.
// It is empty for the other modes.
func MeasuredValue(n *job.Node, by Mode) string {
	c := by.sortKey()
	if c.format == nil {
		return ""
	}
	return c.format(c.read(n).value)
}
