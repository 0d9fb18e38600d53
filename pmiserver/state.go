package pmiserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A State is how far a rank has come with PMI (pmi-wire.md 6.2):
//
//	Absent -> Connected -> Inited -> Finalized -> Closed
//	              |          | ^-------'            ^
//	              |          '---> Lost             |
//	              '---------------------------------'
type State int

const (
	Absent    State = iota // no connection yet
	Connected              // has a connection, and has not said init (fullinit, in PMI-2)
	Inited                 // between init and finalize
	Finalized              // may say init again, as the next program of a script does
	Closed                 // the connection ended, and nothing is missing
	Lost                   // it ended between init and finalize, or over junk
)

func (s State) String() string {
	return [...]string{"absent", "connected", "inited", "finalized", "closed", "lost"}[s]
}

// live reports whether a connection is being served.
func (s State) live() bool { return s == Connected || s == Inited || s == Finalized }

// ErrUnfinalized is the end of a connection between init and finalize. Whether
// it is a crash or a silent exit, the exit status tells (pmi-wire.md 6.2).
var ErrUnfinalized = errors.New("pmi: the connection ended without finalize")

// ErrTaken refuses a second connection of a rank that has one, or has lost it.
var ErrTaken = errors.New("is connected already, or was")

// A ProtocolError says what a rank said that no PMI client says.
type ProtocolError struct {
	Rank   int
	Reason string
	Head   string // the first 64 bytes of it, escaped
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("rank %d: pmi: %s: \"%s\"", e.Rank, e.Reason, e.Head)
}

// Hint says what is usually the matter.
func (e *ProtocolError) Hint() string {
	return "does something else write to the descriptor in PMI_FD?"
}

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
