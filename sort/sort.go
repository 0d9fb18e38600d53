/*
Package sort orders nodes: the order in which they are filled. In this module sort
always means this package; slices are sorted with the standard package slices.

	Parse("proc+load") --> Mode;   Turns(nodes, turns, Mode) --> turns in filling order

A turn is one mention of a node in the user's list; a node may have several. The
keys and the total order are those of placement.md section 4.
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

// The keys, each ascending unless it says otherwise.
const (
	None     Mode = "NONE" // the order of the list
	Proc     Mode = "PROC"
	Load1    Mode = "LOAD_1"
	Load5    Mode = "LOAD_5"
	Load15   Mode = "LOAD_15"
	ProcLoad Mode = "PROC+LOAD"

	// Of the flag alone (cli.md --sort).
	Slots  Mode = "SLOTS"
	Larger Mode = "-SLOTS" // descending
	Name   Mode = "NAME"
)

// spellings lists what may be written for each key, in the order of messages.
var spellings = []struct {
	text string
	mode Mode
}{
	{"PROC", Proc},
	{"LOAD", Load1}, {"LOAD1", Load1}, {"LOAD_1", Load1},
	{"LOAD5", Load5}, {"LOAD_5", Load5},
	{"LOAD15", Load15}, {"LOAD_15", Load15},
	{"PROC+LOAD", ProcLoad},
	{"NONE", None},
	{"SLOTS", Slots}, {"-SLOTS", Larger}, {"NAME", Name},
}

// ofFlag is where the keys begin that only the flag knows.
var ofFlag = len(spellings) - 3

// Words lists what may be written: in a variable or the cluster file (4.1), or
// after the flag, which knows more.
func Words(flag bool) []string {
	var words []string
	for i, s := range spellings {
		if flag || i < ofFlag {
			words = append(words, s.text)
		}
	}
	return words
}

// Parse reads a key in any case; flag says that it stands after the flag. What
// could have been written is told by Words.
func Parse(text string, flag bool) (Mode, error) {
	for i, s := range spellings {
		if (flag || i < ofFlag) && strings.EqualFold(s.text, text) {
			return s.mode, nil
		}
	}
	return "", fmt.Errorf("unknown sort criterion %q", text)
}

// Turns returns turns, indices into nodes, in the order in which they are to be
// filled: by key, then larger nodes first, then by ID, then as in the list (4.2).
// The argument is kept.
func Turns(nodes []job.Node, turns []int, by Mode) []int {
	sorted := slices.Clone(turns)
	if by == None {
		return sorted
	}
	keys := make([]key, len(nodes))
	for i := range nodes {
		keys[i] = newKey(&nodes[i], by)
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return keys[a].compare(&keys[b]) })
	return sorted
}

// A key is all that an order depends on.
type key struct {
	rating   int64
	name     string
	size, id int
}

func newKey(n *job.Node, by Mode) key {
	k := key{size: n.Size(), id: n.ID}
	switch by {
	case Name:
		k.name = n.Name
	case Slots:
		k.rating = int64(k.size)
	case Larger:
		k.rating = -int64(k.size)
	default:
		k.rating = rating(n, by)
	}
	return k
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

// rating is the main key in whole hundredths, so that equal texts in /proc/loadavg
// compare equal, and one process is exactly a load of 1.00; an unknown load comes
// after every known one (4.3).
func rating(n *job.Node, by Mode) int64 {
	var load float64
	switch by {
	case Proc:
		return 100 * int64(n.Procs)
	case Load5:
		load = n.Load[1]
	case Load15:
		load = n.Load[2]
	default:
		load = n.Load[0]
	}
	if load < 0 {
		return math.MaxInt64
	}
	hundredths := int64(math.Floor(float64(load*100) + 0.5))
	if by == ProcLoad {
		hundredths += 100 * int64(n.Procs)
	}
	return hundredths
}

// Value is the key of a node by a measured mode, for people: its load or its processes.
// It is empty for the other modes.
func Value(n *job.Node, by Mode) string {
	switch by {
	case None, Name, Slots, Larger:
		return ""
	case Proc:
		return strconv.Itoa(n.Procs)
	}
	hundredths := rating(n, by)
	if hundredths == math.MaxInt64 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", float64(hundredths)/100)
}
