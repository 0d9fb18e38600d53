package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/show"
)

// A survey of the ranks is under way: what each is doing (DIAG-12).
type states struct {
	waiting map[int]bool // nodes of the plan that have not answered
	ranks   []job.RankState
	told    bool              // our user is to be told
	askers  []supervise.Asker // and these
}

// statesPatience is how long a node may take to tell of its ranks.
const statesPatience = 2 * time.Second

// statesLate says that nobody waits for the rest of a survey any more.
type statesLate struct{ of *states }

// table is the survey as text, in the order of the ranks; firsts are the ranks 0 of the
// job's groups.
func (s *states) table(p whereabouts, firsts []int) string {
	rows := [][]string{{"rank", "node", "state", "CPU", "waits in"}}
	slices.SortFunc(s.ranks, func(a, b job.RankState) int { return a.Rank - b.Rank })
	known := make(map[int]job.RankState)
	for _, r := range s.ranks {
		known[r.Rank] = r
	}
	for rank, node := range p.of {
		r, heard := known[rank]
		name := supervise.Numbered(supervise.Split(firsts, rank))
		row := []string{name, p.nodes[node], "no answer", "", ""}
		if heard {
			row = []string{name, p.nodes[node], r.Doing(), seconds(r.CPU), r.Sleep}
		}
		rows = append(rows, row)
	}
	return columns(rows)
}

// stacks tells where ranks are, as far as anybody told, after the table.
func (s *states) stacks(firsts []int) string {
	var b strings.Builder
	for _, r := range s.ranks {
		for i, line := range strings.Split(r.Stack, "\n") {
			switch line = show.Clean(line); {
			case r.Stack == "":
			case i == 0:
				fmt.Fprintf(&b, "  stack of rank %s, %s\n", supervise.Numbered(supervise.Split(firsts, r.Rank)), line)
			default:
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
	}
	return b.String()
}
