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

// A Listener serves clients that connect with PMI_PORT and PMI_ID instead of inheriting a descriptor.
// They may be ranks of any group on the node, and use any kind of stream.
//
//	client                                     Listener
//	  | cmd=initack pmiid=ID  ------------------> |  looks the ID up
//	  | <-- cmd=initack, cmd=set size, rank ...   |  continues as on a descriptor
//
//	  | cmd=init pmi_version=2 -----------------> |
//	  | <--------------- cmd=response_to_init     |
//	  | fullinit;pmirank=ID --------------------> |  looks the ID up
//
// The ID is a secret of 31 random bits that only one rank receives. Because 31 bits can be guessed, a
// Listener accepts only a few wrong IDs (rule TRUST-25). A connection without a valid ID is refused and
// does not harm the job; it may be a port scan (pmi-wire.md 1.3 and 6.4). A Listener cannot tell which
// process holds the other end of a stream. Code that listens on a port should first ask the kernel whether
// a process of the same user connected.
type Listener struct {
	// NewID returns a PMI_ID, from 1 to 2^31-1. If nil, IDs are random.
	NewID func() int

	// Connected is called when a rank's connection is accepted. Disconnected is called at its end; err
	// is the result of Server.Serve. Both may be nil.
	Connected    func(s *Server, rank int)
	Disconnected func(s *Server, rank int, err error)

	mu           sync.Mutex           // guards the fields below
	expected     map[int]expectedRank // by ID; expiredID once the ID is no longer valid
	pendingConns []*PendingConn       // connections without an ID so far, oldest first
	wrongIDs     int                  // number of received IDs that belong to no rank
}

// An expectedRank is the rank to which a PMI_ID belongs.
type expectedRank struct {
	server *Server
	rank   int
}

// expiredID is stored for an ID that is no longer valid. If a client sends such an ID, this does not count as a wrong
// ID.
var expiredID expectedRank

// These are the limits for a connection that has not sent its ID yet (pmi-wire.md 6.4).
const (
	maxGreetingBytes = 4 << 10 // bytes
	greetingTimeout  = 30 * time.Second
	maxPendingConns  = 256 // beyond this the oldest is closed
	maxWrongIDs      = 16  // after this number of wrong IDs no connection is accepted (TRUST-25)
)

// ErrNoRank is returned for a connection that sends no valid PMI_ID, or that belongs to a rank which already has a
// connection.
var ErrNoRank = errors.New("pmi: a connection was refused, because it does not come from a rank of the job")

// ExpectRank creates a PMI_ID for a rank of a server. From then on, connections that send this ID are
// accepted.
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

// ForgetServer invalidates the IDs of all ranks of a server.
func (l *Listener) ForgetServer(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.expected {
		if p.server == s {
			l.expected[id] = expiredID
		}
	}
}

// Serve registers a connection with AddPending, and then serves it.
func (l *Listener) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	return l.AddPending(conn).Serve(ctx)
}

// AddPending registers a connection that has not sent its ID yet. If too many such connections are open, AddPending
// closes the oldest. The accept loop should call AddPending, and not the goroutines that serve connections, because the
// order of calls decides which connection is the oldest. Each PendingConn must be served; otherwise it remains pending
// forever.
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

// Serve finds out to which rank the connection belongs, and serves that rank. It returns the results of
// Server.Serve, or ErrNoRank if the connection belongs to no rank or the rank already has a connection. It
// closes the connection.
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

// identify reads from the connection until the client has sent its ID. expected reports whether a rank has that ID.
func (l *Listener) identify(n *PendingConn) (at expectedRank, expected bool) {
	defer l.removePending(n)
	timeout := time.AfterFunc(greetingTimeout, func() { n.conn.Close() })
	defer timeout.Stop()
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

// A PendingConn is a connection that has not sent its ID yet.
type PendingConn struct {
	listener *Listener

	conn     io.ReadWriteCloser
	input    messageReader
	greeting greetingState
	id       int    // if greeting is greetingHasID
	refusal  string // the reply to send if the connection is refused
}

// sendRefusal tells the client, in the PMI version that the client uses, that the connection is rejected. It waits for
// at most refusalTimeout.
func (n *PendingConn) sendRefusal() {
	timeout := time.AfterFunc(refusalTimeout, func() { n.conn.Close() })
	defer timeout.Stop()
	io.WriteString(n.conn, n.refusal)
}

// A greetingState says whether a client has sent its greeting, that is, the messages up to its PMI_ID.
type greetingState int

const (
	greetingIncomplete greetingState = iota // more bytes are needed
	greetingHasID                           // a PMI_ID was received
	greetingInvalid                         // something else was received
)

// readGreeting parses the next message of a greeting, if the message is complete. If the client wants PMI-2,
// readGreeting replies and returns true, because another message of the greeting follows. If the message contains an
// ID, it remains in the input, because the rank's session replies to it.
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
	case !n.input.pmi2: // otherwise PMI-2 was agreed on, but a line follows
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
