package supervise

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/idset"
	"remshell/job"
)

// exitText returns text that says how a rank ended, such as "exited with code 3". The caller writes it after the name
// of the rank: "rank 5 on node02".
func exitText(e *job.Exit) string {
	if e.Signal == 0 {
		return fmt.Sprintf("exited with code %d", e.Code)
	}
	text := fmt.Sprintf("died: %s (signal %d)", job.Signal(e.Signal).Description(), e.Signal)
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// FormatRanks formats a set of ranks, such as "rank 3" or "ranks 0-3,7".
func FormatRanks(set []int) string {
	text := idset.Text(slices.Sorted(slices.Values(set)))
	if len(set) == 1 {
		return "rank " + text
	}
	return "ranks " + text
}

// FormatRank formats the number of a rank in its group. In a spawned group, the group's number comes
// first: "1:0".
func FormatRank(group, rank int) string {
	if group == 0 {
		return strconv.Itoa(rank)
	}
	return fmt.Sprintf("%d:%d", group, rank)
}

// GroupOf returns the group of a rank, and the rank's number in the group. rank is the rank's number in the job. firsts
// contains, for each group, the number of its rank 0 in the job.
func GroupOf(firsts []int, rank int) (group, number int) {
	group, found := slices.BinarySearch(firsts, rank)
	if !found {
		group--
	}
	return group, rank - firsts[group]
}
