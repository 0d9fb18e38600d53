/*
Package dialect is what the dialects of PMI have in common: the rank that one speaks with, what
may be done for it, and the fields of a request.

	stream of bytes --- session --- line ---> pmi1 --.
	                          '--- frame ---> pmi2 --+--> Rank: its keys, its answers
	                                                 '--> Server: fence, names, spawn, abort

A dialect is a package with a table of requests: who adds a request writes its row and its
function there. It knows neither connections nor other ranks. All of it belongs to the
goroutine of the rank's session.
*/
package pmiversion

import (
	"errors"
	"strconv"
	"strings"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/spawn"
	"remshell/pmiserver/transcript"
)

// A Rank is one to which a dialect speaks.
type Rank struct {
	Number int // in its group
	ID     int // what it may call itself: its number, or its PMI_ID
	App    int // which section of the command line it belongs to

	Group    string
	Size     int    // ranks of the group
	Universe int    // processes that would fit; 0: unknown
	Parent   string // the group that spawned it; empty: none
	Mapping  []byte // PMI_process_mapping; empty: there is none

	Keys    kvs.View
	Inited  bool   // it is between init and finalize
	Replies []byte // to the requests of this batch, not yet sent
	Server  Server

	unknownNoted bool // an unknown command was reported
}

// A Server is what can be done for a rank beside its keys.
type Server interface {
	Init()                          // the rank has said init
	Finalize()                      // and finalize
	Abort(code int, message string) // and that the job shall end; from now on it is not answered
	Note(text string)               // it said something odd

	// Fence takes the rank into the fence of its group; release makes the answer that lets it
	// out, from any goroutine. All answers so far are sent before.
	Fence(release func() []byte)

	// Spawn has a request carried out and sends the answer when that is done; meanwhile the
	// rank is heard. It returns why it does not, in a word, or nothing.
	Spawn(r spawn.Request, answer func(spawn.Result) []byte) (refused string)

	// The table of published names. ErrUnsupported: there is none.
	Publish(service, port []byte) (added bool, err error)
	Lookup(service []byte) (port string, found bool, err error)
	Unpublish(service []byte) (removed bool, err error)

	// DeadRanks lists the ranks of the group that ended by failing, while the others go on: "1,3-5"; empty: none.
	DeadRanks() string

	// Hosts returns the names of the group's nodes, and of each rank the number of its node
	// among them.
	Hosts() (nodes []string, of []int, err error)

	Flush()                  // sends all answers so far
	SendReply(answer []byte) // sends an answer; any goroutine may call it
}

// ErrUnsupported is the fault of a server that cannot do something at all.
var ErrUnsupported = errors.New("unsupported")

// AppendReply adds to the answers; it is called with a whole line or with its parts.
func (r *Rank) AppendReply(part string) { r.Replies = append(r.Replies, part...) }

// AppendReplyNumber adds a number to the answers.
func (r *Rank) AppendReplyNumber(n int) { r.Replies = strconv.AppendInt(r.Replies, int64(n), 10) }

// NoteUnknown notes an unknown command, once, and returns its name as far as one may
// repeat it.
func (r *Rank) NoteUnknown(name []byte) string {
	word := string(name[:min(len(name), 64)])
	odd := func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if word == "" || strings.ContainsFunc(word, odd) {
		word = "unknown"
	}
	if !r.unknownNoted {
		r.unknownNoted = true
		r.Server.Note("unknown PMI command: " + transcript.Escape(name[:min(len(name), 64)]))
	}
	return word
}

// A Greeting is how a client without a descriptor begins: it says its PMI_ID.
type Greeting struct {
	HasID     bool // it has said ID
	ID        int
	WantsPMI2 bool   // it wants to go on in PMI-2, and says its ID there
	Reply     string // if Two; else what to answer if it may not come in
}

// ErrorWord makes one word of [a-z0-9_] of an error, for a client's message.
func ErrorWord(err error) string {
	w := []byte(strings.ToLower(err.Error()))
	w = w[:min(len(w), 200)]
	for i, b := range w {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			w[i] = '_'
		}
	}
	if len(w) == 0 {
		return "failed"
	}
	return string(w)
}
