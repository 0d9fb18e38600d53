package supervise

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/idset"
	"remshell/job"
)

// died says how a rank ended, as the end of "rank 5 on node02 ...".
func died(e *job.Exit) string {
	if e.Signal == 0 {
		return fmt.Sprintf("exited with code %d", e.Code)
	}
	text := fmt.Sprintf("died: %s (signal %d)", job.Signal(e.Signal).Text(), e.Signal)
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// Ranks writes a set of ranks: "rank 3", "ranks 0-3,7".
func Ranks(set []int) string {
	text := idset.Text(slices.Sorted(slices.Values(set)))
	if len(set) == 1 {
		return "rank " + text
	}
	return "ranks " + text
}

// Numbered writes the number of a rank of a group; of a spawned one the number of the
// group comes first: "1:0".
func Numbered(group, rank int) string {
	if group == 0 {
		return strconv.Itoa(rank)
	}
	return fmt.Sprintf("%d:%d", group, rank)
}

// Split finds the group of a rank of the job, and its number there; firsts are those of
// the ranks 0 of all groups.
func Split(firsts []int, rank int) (group, number int) {
	group, found := slices.BinarySearch(firsts, rank)
	if !found {
		group--
	}
	return group, rank - firsts[group]
}
