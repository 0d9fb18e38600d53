package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// A StuckError says that ranks wait in a barrier for others that have gone.
type StuckError struct {
	Waiting  []Rank
	Gone     []Rank
	Released bool // those that wait are let out late, and the job goes on (Local.Lenient)
}

// A Rank is one of a group. The group may be left out.
type Rank struct {
	Group  string
	Number int // in the group
}

// String writes the number; of a spawned group the number of that comes first: "1:0". Groups are called as
// job.ID.GroupName does.
func (r Rank) String() string {
	number := strconv.Itoa(r.Number)
	if _, group, spawned := strings.Cut(r.Group, "_"); spawned {
		number = group + ":" + number
	}
	return number
}

func (e *StuckError) Error() string {
	if e.Released {
		return fmt.Sprintf("%s let out of a fence, with an error: %s left it for good", ranksText(e.Waiting, "is", "are"), ranksText(e.Gone, "has", "have"))
	}
	return fmt.Sprintf("%s in a barrier that %s left for good", ranksText(e.Waiting, "waits", "wait"), ranksText(e.Gone, "has", "have"))
}

// Hint says what is usually the matter.
func (e *StuckError) Hint() string {
	return "all ranks of an MPI program must call MPI_Init and MPI_Finalize"
}

// ranksText writes "rank 1 has", "ranks 1, 2 and 3 have", "ranks 0, 1, 2 and 61 more
// have". There is at least one rank.
func ranksText(ranks []Rank, one, many string) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %v %s", ranks[0], one)
	}
	const most = 4
	var names []string
	for _, r := range ranks[:min(len(ranks), most)] {
		names = append(names, r.String())
	}
	if n := len(ranks); n > most {
		names[most-1] = fmt.Sprint(n-most+1, " more")
	}
	last := len(names) - 1
	return fmt.Sprintf("ranks %s and %s %s", strings.Join(names[:last], ", "), names[last], many)
}
