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

// A criterion is one key: what may be written for it, what it reads of a node, and how people are
// told of that.
type criterion struct {
	mode  Mode
	words []string // what may be written, in the order of messages
	flag  bool     // only --sort knows it (cli.md --sort)

	read func(*job.Node) reading   // nil: the order of the list stays
	tell func(rating int64) string // nil: it is nothing that was measured
}

// A reading is what a criterion has read of a node. The lesser one comes first.
type reading struct {
	rating int64
	name   string // decides where ratings are equal, if names do
}

// unknown is the rating of what could not be read: it comes after all that could (4.3).
const unknown = math.MaxInt64

// criteria are all keys, in the order of messages.
var criteria = []criterion{
	{mode: Proc, words: []string{"PROC"}, tell: whole,
		read: func(n *job.Node) reading { return reading{rating: int64(n.Procs)} }},
	{mode: "LOAD_1", words: []string{"LOAD", "LOAD1", "LOAD_1"}, tell: hundredths, read: load(0)},
	{mode: "LOAD_5", words: []string{"LOAD5", "LOAD_5"}, tell: hundredths, read: load(1)},
	{mode: "LOAD_15", words: []string{"LOAD15", "LOAD_15"}, tell: hundredths, read: load(2)},
	{mode: "PROC+LOAD", words: []string{"PROC+LOAD"}, tell: hundredths, read: procsAndLoad},
	{mode: None, words: []string{"NONE"}},
	{mode: "SLOTS", words: []string{"SLOTS"}, flag: true,
		read: func(n *job.Node) reading { return reading{rating: int64(n.Size())} }},
	{mode: "-SLOTS", words: []string{"-SLOTS"}, flag: true,
		read: func(n *job.Node) reading { return reading{rating: -int64(n.Size())} }},
	{mode: "NAME", words: []string{"NAME"}, flag: true,
		read: func(n *job.Node) reading { return reading{name: n.Name} }},
}

// load reads one of a node's loads in whole hundredths, so that equal texts in /proc/loadavg are
// equal (4.3).
func load(which int) func(*job.Node) reading {
	return func(n *job.Node) reading {
		if n.Load[which] < 0 {
			return reading{rating: unknown}
		}
		return reading{rating: int64(math.Floor(float64(n.Load[which]*100) + 0.5))}
	}
}

// procsAndLoad counts one process as a load of exactly 1.00.
func procsAndLoad(n *job.Node) reading {
	sum := load(0)(n)
	if sum.rating != unknown {
		sum.rating += 100 * int64(n.Procs)
	}
	return sum
}

func whole(rating int64) string { return strconv.FormatInt(rating, 10) }

func hundredths(rating int64) string {
	if rating == unknown {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", float64(rating)/100)
}

// criterion is the row of a key. A Mode that Parse has not made is None.
func (m Mode) criterion() (row criterion) {
	for _, c := range criteria {
		if c.mode == m {
			row = c
		}
	}
	return row
}

// Words lists what may be written: in a variable or the cluster file (4.1), or
// after the flag, which knows more.
func Words(flag bool) []string {
	var words []string
	for _, c := range criteria {
		if flag || !c.flag {
			words = append(words, c.words...)
		}
	}
	return words
}

// Parse reads a key in any case; flag says that it stands after the flag. What
// could have been written is told by Words.
func Parse(text string, flag bool) (Mode, error) {
	for _, c := range criteria {
		written := func(word string) bool { return strings.EqualFold(word, text) }
		if (flag || !c.flag) && slices.ContainsFunc(c.words, written) {
			return c.mode, nil
		}
	}
	return "", fmt.Errorf("unknown sort criterion %q", text)
}

// Turns returns turns, indices into nodes, in the order in which they are to be
// filled: by key, then larger nodes first, then by ID, then as in the list (4.2).
// The argument is kept.
func Turns(nodes []job.Node, turns []int, by Mode) []int {
	sorted := slices.Clone(turns)
	read := by.criterion().read
	if read == nil {
		return sorted
	}
	keys := make([]key, len(nodes))
	for i := range nodes {
		keys[i] = key{read(&nodes[i]), nodes[i].Size(), nodes[i].ID}
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return keys[a].compare(&keys[b]) })
	return sorted
}

// A key is all that an order depends on.
type key struct {
	reading
	size, id int
}

func (a *key) compare(b *key) int {
	if order := cmp.Compare(a.rating, b.rating); order != 0 {
		return order
	}
	if a.name != b.name {
		return hostlist.Compare(a.name, b.name)
	}
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id))
}

// Value is the key of a node by a measured mode, for people: its load or its processes.
// It is empty for the other modes.
func Value(n *job.Node, by Mode) string {
	c := by.criterion()
	if c.tell == nil {
		return ""
	}
	return c.tell(c.read(n).rating)
}
