package pmiserver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmi2"
	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/transcript"
)

// A Listener is where clients come in that were given PMI_PORT and PMI_ID instead of
// a descriptor: ranks of any group of the node, by any stream that leads to it.
//
//	client                                     Listener
//	  | cmd=initack pmiid=ID  ------------------> |  whose ID is it?
//	  | <-- cmd=initack, cmd=set size, rank ...   |  then as on a descriptor
//
//	  | cmd=init pmi_version=2 -----------------> |
//	  | <--------------- cmd=response_to_init     |
//	  | fullinit;pmirank=ID --------------------> |  whose ID is it?
//
// The ID is a secret: 31 random bits for each rank, given to that rank alone, and no more
// are possible; so there are only so many guesses (TRUST-25). Who
// does not know one that is free is shown out, without any harm to the job; it may
// be somebody who looks for open ports (pmi-wire.md 1.3 and 6.4). A Listener does not
// know who is at the other end of a stream: who listens on a port should ask the
// kernel whether it is a process of the same user first.
type Listener struct {
	// NewID returns a PMI_ID, from 1 to 2^31-1; nil: a random one.
	NewID func() int

	// Connected and Ended are told of the connections of ranks, and Ended how they ended;
	// both may be nil.
	Connected    func(s *Server, rank int)
	Disconnected func(s *Server, rank int, err error)

	mu           sync.Mutex           // guards what follows
	expected     map[int]expectedRank // of those that may come no more, without a server
	pendingConns []*PendingConn       // who has not said its ID yet, the oldest first
	wrongIDs     int                  // how often somebody has said an ID that nobody was given
}

// An expectedRank is the rank to which an ID was given.
type expectedRank struct {
	server *Server
	rank   int
}

// expiredID is the rank of an ID that is not good any more: it is no guess.
var expiredID expectedRank

// Limits of a connection that has not said who it is (6.4).
const (
	maxGreetingBytes = 4 << 10 // bytes
	greetingTimeout  = 30 * time.Second
	maxPendingConns  = 256 // if there are more, the one that waits longest has to go
	maxWrongIDs      = 16  // IDs that are guessed; then nobody comes in any more (TRUST-25)
)

// ErrNoRank is the end of a connection that is no rank's.
var ErrNoRank = errors.New("pmi: a connection of no rank")

// ExpectRank lets a rank of a server come in, and returns its PMI_ID.
func (l *Listener) ExpectRank(s *Server, rank int) (id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expected == nil {
		l.expected = make(map[int]expectedRank)
	}
	for taken := true; taken; {
		id = l.newID()
		_, taken = l.expected[id]
	}
	l.expected[id] = expectedRank{s, rank}
	return id
}

func (l *Listener) newID() int {
	if l.NewID != nil {
		return l.NewID()
	}
	var b [4]byte
	rand.Read(b[:]) // never fails
	return max(1, int(binary.NativeEndian.Uint32(b[:])>>1))
}

// ForgetServer lets no rank of a server in any more.
func (l *Listener) ForgetServer(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.expected {
		if p.server == s {
			l.expected[id] = expiredID
		}
	}
}

// Serve takes in a connection and serves it, as Take and Newcomer.Serve do.
func (l *Listener) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	return l.AddPending(conn).Serve(ctx)
}

// AddPending counts a connection among those that have not said who they are, and shows the oldest of
// them out if there are too many. Which is the oldest is known by the order of these calls: who
// accepts connections takes them one after the other, before goroutines serve them, which run in
// any order. Each has to be served, or it counts for ever.
func (l *Listener) AddPending(conn io.ReadWriteCloser) *PendingConn {
	n := &PendingConn{listener: l, conn: conn}
	l.mu.Lock()
	l.pendingConns = append(l.pendingConns, n)
	var oldest *PendingConn
	if len(l.pendingConns) > maxPendingConns {
		oldest = l.pendingConns[0]
		l.pendingConns = slices.Delete(l.pendingConns, 0, 1)
	}
	l.mu.Unlock()
	if oldest != nil {
		oldest.conn.Close()
	}
	return n
}

// Serve finds out which rank a newcomer is, and serves it as Server.Serve
// does, which also says how it ended. ErrNoRank is the end of a connection that
// is no rank's, or of one that has another already. Serve closes the connection.
func (n *PendingConn) Serve(ctx context.Context) error {
	defer n.conn.Close()
	stop := context.AfterFunc(ctx, func() { n.conn.Close() })
	defer stop()
	l := n.listener
	at, expected := l.identify(n)
	if !expected {
		n.sendRefusal()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: \"%s\"", ErrNoRank, transcript.Escape(n.input.firstBytes()))
	}
	begun := func() {
		if l.Connected != nil {
			l.Connected(at.server, at.rank)
		}
	}
	err := at.server.serve(ctx, at.rank, n.conn, identifiedConn{input: n.input, id: n.id, connected: begun})
	if errors.Is(err, ErrAlreadyConnected) {
		n.sendRefusal()
		return fmt.Errorf("%w: %w", ErrNoRank, err)
	}
	if l.Disconnected != nil {
		l.Disconnected(at.server, at.rank, err)
	}
	return err
}

// identify reads until it is clear who comes, and whether it is expected.
func (l *Listener) identify(n *PendingConn) (at expectedRank, expected bool) {
	defer l.removePending(n)
	impatience := time.AfterFunc(greetingTimeout, func() { n.conn.Close() })
	defer impatience.Stop()
	for {
		for n.readGreeting() {
		}
		switch {
		case n.greeting == greetingHasID:
			return l.rankOfID(n.id)
		case n.greeting == greetingInvalid || len(n.input.buf) >= maxGreetingBytes:
			return expectedRank{}, false
		}
		read, err := n.conn.Read(n.input.readBuffer())
		n.input.addRead(read)
		if read == 0 && err != nil {
			return expectedRank{}, false
		}
	}
}

func (l *Listener) rankOfID(id int) (at expectedRank, expected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.expected[id]
	if !known {
		l.wrongIDs++
	}
	return at, at != expiredID && l.wrongIDs < maxWrongIDs
}

func (l *Listener) removePending(n *PendingConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.pendingConns, n); i >= 0 {
		l.pendingConns = slices.Delete(l.pendingConns, i, i+1)
	}
}

// A PendingConn is a connection that has not said who it is.
type PendingConn struct {
	listener *Listener

	conn     io.ReadWriteCloser
	input    messageReader
	greeting greetingState
	id       int    // if it named itself
	refusal  string // what to answer if it may not come in
}

// sendRefusal answers as the client understands it, if it listens.
func (n *PendingConn) sendRefusal() {
	impatience := time.AfterFunc(refusalTimeout, func() { n.conn.Close() })
	defer impatience.Stop()
	io.WriteString(n.conn, n.refusal)
}

// A greetingState is what is known of a newcomer.
type greetingState int

const (
	greetingIncomplete greetingState = iota // it has not said enough
	greetingHasID                           // it has said a PMI_ID
	greetingInvalid                         // it has said something else
)

// readGreeting looks at the next message, if it is there. One that names a rank is left
// for its session to answer. It reports whether there may be another one.
func (n *PendingConn) readGreeting() bool {
	after := n.input
	message, err := after.nextMessage()
	var g pmiversion.Greeting
	switch {
	case err != nil:
		n.greeting = greetingInvalid
		return false
	case message == nil:
		return false
	case after.isFrame:
		g = pmi2.ParseGreeting(message)
	case !n.input.pmi2: // else PMI-2 was agreed on, and a line comes
		g = pmi1.ParseGreeting(message)
	}
	switch {
	case g.WantsPMI2:
		n.input = after
		n.input.pmi2 = true
		io.WriteString(n.conn, g.Reply)
		return true
	case g.HasID:
		n.greeting = greetingHasID
	default:
		n.greeting = greetingInvalid
	}
	n.id, n.refusal = g.ID, g.Reply
	return false
}
