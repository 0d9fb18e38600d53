package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// A StuckError says that ranks wait in a barrier for others that have gone.
type StuckError struct {
	Waiting []int // the ranks of this node that wait; none if seen by the hub
	Nodes   int   // the nodes whose ranks all wait, if seen by the hub
	Gone    []int
}

func (e *StuckError) Error() string {
	waiting := "another node waits"
	switch {
	case len(e.Waiting) > 0:
		waiting = crowd(e.Waiting, "waits", "wait")
	case e.Nodes > 1:
		waiting = fmt.Sprint(e.Nodes, " other nodes wait")
	}
	return fmt.Sprintf("%s in a barrier that %s left for good", waiting, crowd(e.Gone, "has", "have"))
}

// Hint says what is usually the matter.
func (e *StuckError) Hint() string {
	return "all ranks of an MPI program must call MPI_Init and MPI_Finalize"
}

// crowd writes "rank 1 has", "ranks 1, 2 and 3 have", "ranks 0, 1, 2 and 61 more
// have". There is at least one rank.
func crowd(ranks []int, one, many string) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d %s", ranks[0], one)
	}
	const most = 4
	var names []string
	for _, r := range ranks[:min(len(ranks), most)] {
		names = append(names, strconv.Itoa(r))
	}
	if n := len(ranks); n > most {
		names[most-1] = fmt.Sprint(n-most+1, " more")
	}
	last := len(names) - 1
	return fmt.Sprintf("ranks %s and %s %s", strings.Join(names[:last], ", "), names[last], many)
}
