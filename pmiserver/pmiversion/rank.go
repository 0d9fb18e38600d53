/*
Package pmiversion holds the parts that the PMI versions share: the state of a rank, the services of the rank's
session, and the fields of a request.

	stream of bytes --- session --- line ---> pmi1 --.
	                          '--- frame ---> pmi2 --+--> Rank: its keys, its replies
	                                                 '--> Session: fence, names, spawn, abort

The PMI versions are packages, each with a table of requests. To add a request, add its row and its function there.
Neither this package nor the version packages use connections or other ranks. Their functions run in the goroutine of
the rank's session.
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

// A Rank is the state that the server keeps for one rank's PMI conversation.
type Rank struct {
	Number int // in its group
	ID     int // its number or PMI_ID, which it names in fullinit
	App    int // index of its app context on the command line

	Group    string
	Size     int    // ranks of the group
	Universe int    // processes that would fit; 0 if unknown
	Parent   string // the group that spawned this one; empty if none did
	Mapping  []byte // value of PMI_process_mapping; empty if there is none

	Keys    kvs.View
	Inited  bool   // init was received, and finalize was not
	Replies []byte // replies of the current batch, not yet sent
	Session Session

	unknownNoted bool // an unknown command was reported
}

// A Session handles the requests of a rank that need more than the rank's own keys. It is implemented by rankSession of
// package pmiserver (requests.go).
type Session interface {
	Init()                          // the rank sent init
	Finalize()                      // the rank sent finalize
	Abort(code int, message string) // the rank asked to end the job; it gets no more replies
	Note(text string)               // reports an oddity of the rank

	// Fence enters the rank into the fence of its group. It sends all collected replies first. release
	// is called, on any goroutine, for the reply that releases the rank.
	Fence(release func() []byte)

	// Spawn starts a request. When the request is done, Spawn sends the reply that answer returns. Meanwhile the rank
	// may send requests. refused is empty, or one word that says why the request is refused.
	Spawn(r spawn.Request, answer func(spawn.Result) []byte) (refused string)

	// Publish, Lookup and Unpublish use the table of published names. They return ErrUnsupported if there is no
	// table.
	Publish(service, port []byte) (added bool, err error)
	Lookup(service []byte) (port string, found bool, err error)
	Unpublish(service []byte) (removed bool, err error)

	// DeadRanks lists the ranks of the group that failed while the others go on, as "3,1". It is empty if none has
	// failed.
	DeadRanks() string

	// Hosts returns the names of the group's nodes, and for each rank the index of its node in nodes.
	Hosts() (nodes []string, nodeOfRank []int, err error)

	Flush()                  // sends all collected replies
	SendReply(answer []byte) // sends a reply; any goroutine may call it
}

// ErrUnsupported is returned when the server does not offer the requested service.
var ErrUnsupported = errors.New("unsupported")

// AppendReply appends a complete reply line, or a part of one, to the collected replies.
func (r *Rank) AppendReply(part string) { r.Replies = append(r.Replies, part...) }

// AppendReplyNumber appends a decimal number to the collected replies.
func (r *Rank) AppendReplyNumber(n int) { r.Replies = strconv.AppendInt(r.Replies, int64(n), 10) }

// NoteUnknown reports that a client has sent an unknown command. For each rank it does so only once. For use in the
// reply, it returns name, or "unknown" if name has unusual characters.
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
		r.Session.Note("unknown PMI command: " + transcript.Escape(name[:min(len(name), 64)]))
	}
	return word
}

// A Greeting is the first message of a client that connects through PMI_PORT. It contains the client's PMI_ID, or says
// that the client wants to continue in PMI-2.
type Greeting struct {
	HasID     bool // the client sent ID
	ID        int
	WantsPMI2 bool   // the client wants to continue in PMI-2, and names its ID there
	Reply     string // if WantsPMI2 the reply to send, else the refusal to send if the ID is not valid
}

// ErrorWord converts an error to one word for a reply to a client. The word consists of characters [a-z0-9_].
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
