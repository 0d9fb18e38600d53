package pmiserver

import (
	"errors"
	"fmt"
)

// A State is a rank's progress through PMI (pmi-wire.md 6.2):
//
//	Absent -> Connected -> Inited -> Finalized -> Closed
//	              |          | ^-------'            ^
//	              |          '---> Lost             |
//	              '---------------------------------'
type State int

const (
	Absent    State = iota // no connection yet
	Connected              // connected, but no init (in PMI-2: fullinit) received
	Inited                 // between init and finalize
	Finalized              // init may follow again, from the next program of a script
	Closed                 // the connection ended normally
	Lost                   // the connection ended between init and finalize, or after a protocol error
)

func (s State) String() string {
	return [...]string{"absent", "connected", "inited", "finalized", "closed", "lost"}[s]
}

// isServed reports whether a rank in this state has a connection that is being served.
func (s State) isServed() bool { return s == Connected || s == Inited || s == Finalized }

// ErrUnfinalized is returned when a connection ends between init and finalize. The exit status shows
// whether the rank crashed or exited without finalize (pmi-wire.md 6.2).
var ErrUnfinalized = errors.New("pmi: the rank closed its PMI connection before it called finalize")

// ErrAlreadyConnected is returned for a second connection of a rank whose first connection is still open or
// ended without finalize.
var ErrAlreadyConnected = errors.New("has connected before")

// A ProtocolError is returned when a rank sends something that no PMI client sends.
type ProtocolError struct {
	Rank   int
	Reason string
	Head   string // the first 64 bytes of the message, escaped
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("rank %d: pmi: %s: \"%s\"", e.Rank, e.Reason, e.Head)
}

// Hint returns the usual cause of a protocol error.
func (e *ProtocolError) Hint() string {
	return "perhaps the program itself writes to the file descriptor in PMI_FD"
}
