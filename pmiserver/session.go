package pmiserver

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"remshell/pmiserver/dialect"
	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmi2"
	"remshell/pmiserver/transcript"
)

// A rankSession serves one rank over one connection, in whichever dialect. All of it belongs to
// the goroutine of Serve, but for out, to which whoever completes a barrier writes too.
type rankSession struct {
	dialect.Rank
	s     *Server
	ctx   context.Context
	local int   // its index in s.info.Ranks
	state State // as in s.states, which is for others to read

	in  frame
	one *pmi1.Conversation
	two *pmi2.Conversation

	spawns  atomic.Int32 // not yet answered
	aborted bool

	out  sender
	late sync.WaitGroup // what is under way for this rank: its spawns, and the fence of the node
}

func (s *Server) newSession(ctx context.Context, local int, conn io.ReadWriter, a arrival) *rankSession {
	i := &s.info
	rank := i.Ranks[local]
	c := &rankSession{s: s, ctx: ctx, local: local, state: Connected, in: a.in, out: sender{conn: conn}}
	c.Rank = dialect.Rank{
		Number: rank, ID: a.id,
		Group: i.Name, Size: i.Size, Universe: i.Universe, Parent: i.Parent, Mapping: s.mapping,
		Keys: s.keys.View(), Server: c,
	}
	if i.AppNum != nil {
		c.App = i.AppNum(rank)
	}
	c.one, c.two = pmi1.New(&c.Rank), pmi2.New(&c.Rank, &s.attrs)
	return c
}

// run hears and answers until the connection ends.
func (c *rankSession) run(conn io.Reader) error {
	for over := false; ; {
		if problem := c.batch(); problem != nil {
			return &ProtocolError{Rank: c.Number, Reason: problem.Error(), Head: transcript.Escape(c.in.head())}
		}
		if over && c.state == Inited && !c.aborted {
			return ErrUnfinalized
		}
		if over {
			return nil
		}
		n, err := conn.Read(c.in.room())
		c.in.filled(n)
		over = err != nil
	}
}

// batch answers all complete messages there are, with one write. A frozen server
// hears nothing any more, and drops what comes (pmi-wire.md 6.3).
func (c *rankSession) batch() error {
	for !c.s.frozen.Load() {
		line, err := c.in.next()
		if err != nil {
			c.flush() // what was said before was right
			return err
		}
		if line == nil {
			return c.flush()
		}
		if c.in.framed {
			c.trace("<; ", line)
		} else {
			c.trace("< ", line)
		}
		if err := c.hear(line); err != nil {
			return err
		}
	}
	// One that aborts too must not look like one that failed by itself.
	if !c.aborted && bytes.Contains(c.in.buf[c.in.start:], []byte("cmd=abort")) {
		c.aborted = true
		c.s.aborting(c.Number)
	}
	c.in.start = len(c.in.buf)
	c.Answers = c.Answers[:0]
	return nil
}

// hear deals with one message, a request or a line of one.
func (c *rankSession) hear(message []byte) error {
	if c.in.framed {
		c.two.Hear(message)
		return nil
	}
	err := c.one.Hear(message)
	c.in.block, c.in.two = c.one.InBlock(), c.one.Two()
	return err
}

// flush sends the answers collected.
func (c *rankSession) flush() error {
	if len(c.Answers) == 0 {
		return nil
	}
	err := c.tell(c.Answers)
	c.Answers = c.Answers[:0]
	return err
}

// tell sends whole messages. Any goroutine may call it.
func (c *rankSession) tell(lines []byte) error {
	if c.s.frozen.Load() {
		return nil
	}
	if c.s.Trace != nil {
		c.traceAnswers(lines)
	}
	return c.out.send(lines)
}

// traceAnswers shows lines and frames one by one.
func (c *rankSession) traceAnswers(answers []byte) {
	for len(answers) > 0 {
		f := frame{buf: answers, two: true}
		if body, err := f.next(); err == nil && f.framed && bytes.HasPrefix(body, []byte("cmd=")) {
			c.trace(">; ", body)
			answers = answers[f.start:]
			continue
		}
		line, rest, _ := bytes.Cut(answers, []byte("\n"))
		c.trace("> ", line)
		answers = rest
	}
}

func (c *rankSession) trace(arrow string, line []byte) {
	if c.s.Trace != nil {
		c.s.Trace(c.Number, arrow+transcript.Escape(line))
	}
}

// become takes the rank to another state.
func (c *rankSession) become(to State) {
	from := c.state
	if from == to {
		return
	}
	c.state, c.Inited = to, to == Inited
	c.s.mu.Lock()
	c.s.states[c.local] = to
	c.s.mu.Unlock()
	c.s.changed(c.Number, from, to)
}

// maxBacklog is how much a client may leave unread, in bytes, while it goes on
// asking; beside what the socket holds.
const maxBacklog = 1 << 20

// A sender writes for several goroutines, and only one of them ever waits for
// the reader: who finds a write under way leaves his lines with the writer. So
// who releases a barrier does not wait for a rank that asks and does not read.
type sender struct {
	conn io.Writer

	mu      sync.Mutex // guards what follows
	writing bool
	queue   []byte // what to write next
	spare   []byte
	failed  bool // the peer is gone; its reader will notice
}

// send writes b, or leaves a copy of it to be written. It fails if there is too
// much of that.
func (o *sender) send(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		return nil
	}
	if o.writing {
		o.queue = append(o.queue, b...)
		if len(o.queue) > maxBacklog {
			return errDeaf
		}
		return nil
	}
	o.writing = true
	o.write(b)
	for len(o.queue) > 0 && !o.failed {
		next := o.queue
		o.queue, o.spare = o.spare[:0], nil
		o.write(next)
		o.spare = next
	}
	o.writing = false
	return nil
}

// write lets go of the lock meanwhile.
func (o *sender) write(b []byte) {
	o.mu.Unlock()
	_, err := o.conn.Write(b)
	o.mu.Lock()
	o.failed = o.failed || err != nil
}
