package pmiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// A Door is where clients come in that were given PMI_PORT and PMI_ID instead of
// a descriptor: ranks of any group of the node, by any stream that leads to it.
//
//	client                                     Door
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
// be somebody who looks for open ports (pmi-wire.md 1.3 and 6.4). A Door does not
// know who is at the other end of a stream: who listens on a port should ask the
// kernel whether it is a process of the same user first.
type Door struct {
	// NewID returns a PMI_ID, from 1 to 2^31-1; nil: a random one.
	NewID func() int

	// Begun and Ended are told of the connections of ranks, and Ended how they ended;
	// both may be nil.
	Begun func(s *Server, rank int)
	Ended func(s *Server, rank int, err error)

	mu        sync.Mutex   // guards what follows
	seats     map[int]seat // of those that may come no more, without a server
	strangers []*visitor   // who has not said its ID yet, the oldest first
	wrong     int          // how often somebody has said an ID that nobody was given
}

// A seat is the place of a rank that may come.
type seat struct {
	s    *Server
	rank int
}

// gone is the seat of a rank that may come no more: its ID is no guess.
var gone seat

// Limits of a connection that has not said who it is (6.4).
const (
	maxGreeting  = 4 << 10 // bytes
	maxSilence   = 30 * time.Second
	maxStrangers = 256 // if there are more, the one that waits longest has to go
	maxWrong     = 16  // IDs that are guessed; then nobody comes in any more (TRUST-25)
)

// ErrStranger is the end of a connection that is no rank's.
var ErrStranger = errors.New("pmi: a connection of no rank")

// Expect lets a rank of a server come in, and returns its PMI_ID.
func (d *Door) Expect(s *Server, rank int) (id int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seats == nil {
		d.seats = make(map[int]seat)
	}
	for taken := true; taken; {
		id = d.newID()
		_, taken = d.seats[id]
	}
	d.seats[id] = seat{s, rank}
	return id
}

func (d *Door) newID() int {
	if d.NewID != nil {
		return d.NewID()
	}
	var b [4]byte
	rand.Read(b[:]) // never fails
	return max(1, int(binary.NativeEndian.Uint32(b[:])>>1))
}

// Forget lets no rank of a server in any more.
func (d *Door) Forget(s *Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, seat := range d.seats {
		if seat.s == s {
			d.seats[id] = gone
		}
	}
}

// Serve finds out which rank a connection belongs to, and serves it as Server.Serve
// does, which also says how it ended. ErrStranger is the end of a connection that
// is no rank's, or of one that has another already. Serve closes conn.
func (d *Door) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	v := &visitor{conn: conn}
	at, expected := d.greet(v)
	if !expected {
		v.refuse()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: \"%s\"", ErrStranger, Escape(v.in.head()))
	}
	begun := func() {
		if d.Begun != nil {
			d.Begun(at.s, at.rank)
		}
	}
	err := at.s.serve(ctx, at.rank, conn, arrival{in: v.in, id: v.id, begun: begun})
	if errors.Is(err, ErrTaken) {
		v.refuse()
		return fmt.Errorf("%w: %w", ErrStranger, err)
	}
	if d.Ended != nil {
		d.Ended(at.s, at.rank, err)
	}
	return err
}

// greet reads until it is clear who comes, and whether it is expected.
func (d *Door) greet(v *visitor) (at seat, expected bool) {
	d.admit(v)
	defer d.dismiss(v)
	impatience := time.AfterFunc(maxSilence, func() { v.conn.Close() })
	defer impatience.Stop()
	for {
		for v.hear() {
		}
		switch {
		case v.said == named:
			return d.seat(v.id)
		case v.said == odd || len(v.in.buf) >= maxGreeting:
			return seat{}, false
		}
		n, err := v.conn.Read(v.in.room())
		v.in.filled(n)
		if n == 0 && err != nil {
			return seat{}, false
		}
	}
}

func (d *Door) seat(id int) (at seat, expected bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := d.seats[id]
	if !known {
		d.wrong++
	}
	return at, at != gone && d.wrong < maxWrong
}

// admit counts a stranger, and shows another one out if there are too many.
func (d *Door) admit(v *visitor) {
	d.mu.Lock()
	d.strangers = append(d.strangers, v)
	var oldest *visitor
	if len(d.strangers) > maxStrangers {
		oldest = d.strangers[0]
		d.strangers = slices.Delete(d.strangers, 0, 1)
	}
	d.mu.Unlock()
	if oldest != nil {
		oldest.conn.Close()
	}
}

func (d *Door) dismiss(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := slices.Index(d.strangers, v); n >= 0 {
		d.strangers = slices.Delete(d.strangers, n, n+1)
	}
}

// A visitor is a connection that says who it is.
type visitor struct {
	conn    io.ReadWriteCloser
	in      frame
	said    greeting
	id      int    // if it named itself
	refusal string // what to answer if it may not come in
}

// refuse answers as the client understands it, if it listens.
func (v *visitor) refuse() {
	impatience := time.AfterFunc(maxFarewell, func() { v.conn.Close() })
	defer impatience.Stop()
	io.WriteString(v.conn, v.refusal)
}

type greeting int

const (
	unclear greeting = iota // it has not said enough
	named                   // it has said a PMI_ID
	odd                     // it has said something else
)

// hear looks at the next message, if it is there. One that names a rank is left
// for its session to answer. It reports whether there may be another one.
func (v *visitor) hear() bool {
	after := v.in
	message, err := after.next()
	switch {
	case err != nil:
		v.said = odd
	case message == nil:
	case after.framed:
		v.fullInit(bytes.Clone(message)) // for parse2 changes it
	case v.in.two: // PMI-2 was agreed on, and a line comes
		v.said = odd
	default:
		return v.line(message, after)
	}
	return false
}

// line looks at a first line: initack with an ID, or the init of PMI-2.
func (v *visitor) line(line []byte, after frame) (more bool) {
	var a args
	a.parse(line, nil)
	version, _ := a.number("pmi_version")
	name := string(a.text("cmd"))
	switch {
	case name == "initack":
		v.name(&a, "pmiid", "cmd=initack rc=-1\n")
	case name == "init" && version == 2:
		v.in = after
		v.in.two = true
		io.WriteString(v.conn, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n")
		return true
	case name == "init":
		v.said, v.refusal = odd, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"
	default:
		v.said = odd
	}
	return false
}

// fullInit looks at the first frame of PMI-2, which has the ID where others have
// their rank.
func (v *visitor) fullInit(body []byte) {
	var a args
	a.parse2(body)
	if string(a.text("cmd")) != "fullinit" {
		v.said = odd
		return
	}
	key := "pmirank"
	if _, given := a.find(key); !given {
		key = "srcid"
	}
	v.name(&a, key, "    48cmd=fullinit-response;rc=14;errmsg=unknown_rank;")
}

func (v *visitor) name(a *args, key, refusal string) {
	id, ok := a.number(key)
	v.said, v.id, v.refusal = named, id, refusal
	if !ok {
		v.said = odd
	}
}
