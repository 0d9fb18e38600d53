package pmiserver

import (
	"errors"
	"fmt"
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

// isServed reports whether a connection is being served.
func (s State) isServed() bool { return s == Connected || s == Inited || s == Finalized }

// ErrUnfinalized is the end of a connection between init and finalize. Whether
// it is a crash or a silent exit, the exit status tells (pmi-wire.md 6.2).
var ErrUnfinalized = errors.New("pmi: the connection ended without finalize")

// ErrAlreadyConnected refuses a second connection of a rank that has one, or has lost it.
var ErrAlreadyConnected = errors.New("is connected already, or was")

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
