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

	"remshell/pmiserver/dialect"
	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmi2"
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

	// Begun and Ended are told of the connections of ranks, and Ended how they ended;
	// both may be nil.
	Begun func(s *Server, rank int)
	Ended func(s *Server, rank int, err error)

	mu        sync.Mutex        // guards what follows
	pending   map[int]pendingID // of those that may come no more, without a server
	newcomers []*Newcomer       // who has not said its ID yet, the oldest first
	wrong     int               // how often somebody has said an ID that nobody was given
}

// A pendingID is the rank to which an ID was given.
type pendingID struct {
	s    *Server
	rank int
}

// gone is the rank of an ID that is not good any more: it is no guess.
var gone pendingID

// Limits of a connection that has not said who it is (6.4).
const (
	maxGreeting  = 4 << 10 // bytes
	maxSilence   = 30 * time.Second
	maxNewcomers = 256 // if there are more, the one that waits longest has to go
	maxWrong     = 16  // IDs that are guessed; then nobody comes in any more (TRUST-25)
)

// ErrNoRank is the end of a connection that is no rank's.
var ErrNoRank = errors.New("pmi: a connection of no rank")

// Expect lets a rank of a server come in, and returns its PMI_ID.
func (l *Listener) Expect(s *Server, rank int) (id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = make(map[int]pendingID)
	}
	for taken := true; taken; {
		id = l.newID()
		_, taken = l.pending[id]
	}
	l.pending[id] = pendingID{s, rank}
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

// Forget lets no rank of a server in any more.
func (l *Listener) Forget(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.pending {
		if p.s == s {
			l.pending[id] = gone
		}
	}
}

// Serve takes in a connection and serves it, as Take and Newcomer.Serve do.
func (l *Listener) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	return l.Take(conn).Serve(ctx)
}

// Take counts a connection among those that have not said who they are, and shows the oldest of
// them out if there are too many. Which is the oldest is known by the order of these calls: who
// accepts connections takes them one after the other, before goroutines serve them, which run in
// any order. Each has to be served, or it counts for ever.
func (l *Listener) Take(conn io.ReadWriteCloser) *Newcomer {
	n := &Newcomer{listener: l, conn: conn}
	l.mu.Lock()
	l.newcomers = append(l.newcomers, n)
	var oldest *Newcomer
	if len(l.newcomers) > maxNewcomers {
		oldest = l.newcomers[0]
		l.newcomers = slices.Delete(l.newcomers, 0, 1)
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
func (n *Newcomer) Serve(ctx context.Context) error {
	defer n.conn.Close()
	stop := context.AfterFunc(ctx, func() { n.conn.Close() })
	defer stop()
	l := n.listener
	at, expected := l.greet(n)
	if !expected {
		n.refuse()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: \"%s\"", ErrNoRank, transcript.Escape(n.in.head()))
	}
	begun := func() {
		if l.Begun != nil {
			l.Begun(at.s, at.rank)
		}
	}
	err := at.s.serve(ctx, at.rank, n.conn, arrival{in: n.in, id: n.id, begun: begun})
	if errors.Is(err, ErrTaken) {
		n.refuse()
		return fmt.Errorf("%w: %w", ErrNoRank, err)
	}
	if l.Ended != nil {
		l.Ended(at.s, at.rank, err)
	}
	return err
}

// greet reads until it is clear who comes, and whether it is expected.
func (l *Listener) greet(n *Newcomer) (at pendingID, expected bool) {
	defer l.dismiss(n)
	impatience := time.AfterFunc(maxSilence, func() { n.conn.Close() })
	defer impatience.Stop()
	for {
		for n.hear() {
		}
		switch {
		case n.said == named:
			return l.whose(n.id)
		case n.said == odd || len(n.in.buf) >= maxGreeting:
			return pendingID{}, false
		}
		read, err := n.conn.Read(n.in.room())
		n.in.filled(read)
		if read == 0 && err != nil {
			return pendingID{}, false
		}
	}
}

func (l *Listener) whose(id int) (at pendingID, expected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.pending[id]
	if !known {
		l.wrong++
	}
	return at, at != gone && l.wrong < maxWrong
}

func (l *Listener) dismiss(n *Newcomer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.newcomers, n); i >= 0 {
		l.newcomers = slices.Delete(l.newcomers, i, i+1)
	}
}

// A Newcomer is a connection that has not said who it is.
type Newcomer struct {
	listener *Listener

	conn    io.ReadWriteCloser
	in      frame
	said    standing
	id      int    // if it named itself
	refusal string // what to answer if it may not come in
}

// refuse answers as the client understands it, if it listens.
func (n *Newcomer) refuse() {
	impatience := time.AfterFunc(maxFarewell, func() { n.conn.Close() })
	defer impatience.Stop()
	io.WriteString(n.conn, n.refusal)
}

// A standing is what is known of a newcomer.
type standing int

const (
	unclear standing = iota // it has not said enough
	named                   // it has said a PMI_ID
	odd                     // it has said something else
)

// hear looks at the next message, if it is there. One that names a rank is left
// for its session to answer. It reports whether there may be another one.
func (n *Newcomer) hear() bool {
	after := n.in
	message, err := after.next()
	var g dialect.Greeting
	switch {
	case err != nil:
		n.said = odd
		return false
	case message == nil:
		return false
	case after.framed:
		g = pmi2.Greet(message)
	case !n.in.two: // else PMI-2 was agreed on, and a line comes
		g = pmi1.Greet(message)
	}
	switch {
	case g.Two:
		n.in = after
		n.in.two = true
		io.WriteString(n.conn, g.Answer)
		return true
	case g.Named:
		n.said = named
	default:
		n.said = odd
	}
	n.id, n.refusal = g.ID, g.Answer
	return false
}
