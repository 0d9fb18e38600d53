/*
Package sort orders nodes: the order in which they are filled. In this module sort
always means this package; slices are sorted with the standard package slices.

	Parse("proc+load") --> Mode;   Nodes(nodes, Mode) --> nodes in filling order

The keys and the total order are those of placement.md section 4.
*/
package sort

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"remshell/job"
)

// A Mode is a canonical sort key.
type Mode string

// The keys, each ascending.
const (
	None   Mode = "NONE" // the order of the list
	Load1  Mode = "LOAD_1"
	Load5  Mode = "LOAD_5"
	Load15 Mode = "LOAD_15"
)

// spellings lists what may be written for each key, in the order of messages.
var spellings = []struct {
	text string
	mode Mode
}{
	{"NONE", None},
	{"LOAD", Load1}, {"LOAD1", Load1}, {"LOAD_1", Load1},
	{"LOAD5", Load5}, {"LOAD_5", Load5},
	{"LOAD15", Load15}, {"LOAD_15", Load15},
}

// Parse reads a key in any case; the empty text is None.
func Parse(text string) (Mode, error) {
	if text == "" {
		return None, nil
	}
	var allowed []string
	for _, s := range spellings {
		if strings.EqualFold(s.text, text) {
			return s.mode, nil
		}
		allowed = append(allowed, s.text)
	}
	return "", fmt.Errorf("unknown sort criterion %q; allowed: %s", text, strings.Join(allowed, ", "))
}

// Nodes returns the nodes in the order in which they are to be filled: by key,
// then larger nodes first, then by ID (placement.md 4.2). The argument is kept.
func Nodes(nodes []job.Node, by Mode) []job.Node {
	sorted := slices.Clone(nodes)
	if by == None {
		return sorted
	}
	slices.SortStableFunc(sorted, func(a, b job.Node) int {
		return cmp.Or(
			cmp.Compare(rating(a, by), rating(b, by)),
			cmp.Compare(b.Topology.Units(), a.Topology.Units()),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return sorted
}

// rating is the load in whole hundredths, so that equal texts in /proc/loadavg
// compare equal; an unknown load comes after every known one (placement.md 4.3).
func rating(n job.Node, by Mode) int64 {
	load := n.Load[map[Mode]int{Load1: 0, Load5: 1, Load15: 2}[by]]
	if load < 0 {
		return math.MaxInt64
	}
	return int64(math.Floor(float64(load*100) + 0.5))
}
