package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// A StuckError says that ranks wait in a fence that other ranks can no longer enter.
type StuckError struct {
	Waiting  []Rank
	Gone     []Rank
	Released bool // the fence is given up, and the job goes on (Local.GiveUpStuck)
}

// A Rank identifies a rank by its group and its number in the group. Group may be empty.
type Rank struct {
	Group  string
	Number int // in the group
}

// String returns the number of the rank, such as "0". If the rank belongs to a spawned group, the number of the group
// comes first, as in "1:0". r.Group must be "" or a result of job.ID.GroupName.
func (r Rank) String() string {
	number := strconv.Itoa(r.Number)
	if _, group, spawned := strings.Cut(r.Group, "_"); spawned {
		number = group + ":" + number
	}
	return number
}

func (e *StuckError) Error() string {
	gone := ranksText(e.Gone, "has", "have")
	if e.Released {
		return fmt.Sprintf("a PMIx fence returned an error to %s, because %s ended without entering it", ranksText(e.Waiting, "", ""), gone)
	}
	return fmt.Sprintf("%s in a barrier, but %s ended without entering it", ranksText(e.Waiting, "waits", "wait"), gone)
}

// Hint returns the usual cause of a fence that cannot complete.
func (e *StuckError) Hint() string {
	return "all ranks of an MPI program must call MPI_Init and MPI_Finalize"
}

// ranksText returns a phrase such as "rank 1 has", "ranks 1, 2 and 3 have", or "ranks 0, 1, 2 and 61 more have".
// singular and plural are the two forms of the verb. ranks must not be empty.
func ranksText(ranks []Rank, singular, plural string) string {
	if len(ranks) == 1 {
		return strings.TrimSuffix(fmt.Sprintf("rank %v %s", ranks[0], singular), " ")
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
	return strings.TrimSuffix(fmt.Sprintf("ranks %s and %s %s", strings.Join(names[:last], ", "), names[last], plural), " ")
}
