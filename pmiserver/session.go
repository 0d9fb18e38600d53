package pmiserver

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// A session is the conversation with one rank over one connection. All of it
// belongs to the goroutine of Serve, but for out, to which whoever completes a
// barrier writes too.
type session struct {
	s           *Server
	ctx         context.Context
	rank, local int
	id          int   // what the client may call itself: its rank, or its PMI_ID
	state       State // as in s.members, which is for others to read

	in      frame
	args    args   // of the request being answered
	answers []byte // to the requests of this batch, not yet sent
	spawn   *spawnBlock
	spawns  atomic.Int32 // not yet answered
	two     dialect2
	waits   int // node attributes waited for; guarded by s.mu
	aborted bool
	noted   bool // an unknown command was reported

	own  own      // what the rank has put and a fence has not yet spread
	keys []string // what getbyidx counts through

	out  sender
	late sync.WaitGroup // what is under way for this rank: its spawns, and the fence of the node
}

// run hears and answers until the connection ends.
func (c *session) run(conn io.Reader) error {
	for over := false; ; {
		if problem := c.batch(); problem != nil {
			return &ProtocolError{Rank: c.rank, Reason: problem.Error(), Head: Escape(c.in.head())}
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
func (c *session) batch() error {
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
		c.s.aborting(c.rank)
	}
	c.in.start = len(c.in.buf)
	c.answers = c.answers[:0]
	return nil
}

// hear deals with one message, a request or a line of one.
func (c *session) hear(line []byte) error {
	if c.in.framed {
		c.answer2(line)
		return nil
	}
	if c.in.block || bytes.HasPrefix(line, []byte("mcmd=")) {
		return c.hearSpawn(line)
	}
	c.spawn = nil // a request that stopped between two segments
	c.answer(line)
	return nil
}

// flush sends the answers collected.
func (c *session) flush() error {
	if len(c.answers) == 0 {
		return nil
	}
	err := c.tell(c.answers)
	c.answers = c.answers[:0]
	return err
}

// tell sends whole messages. Any goroutine may call it.
func (c *session) tell(lines []byte) error {
	if c.s.frozen.Load() {
		return nil
	}
	if c.s.Trace != nil {
		c.traceAnswers(lines)
	}
	return c.out.send(lines)
}

// traceAnswers shows lines and frames one by one.
func (c *session) traceAnswers(answers []byte) {
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

func (c *session) trace(arrow string, line []byte) {
	if c.s.Trace != nil {
		c.s.Trace(c.rank, arrow+Escape(line))
	}
}

// become takes the rank to another state.
func (c *session) become(to State) {
	from := c.state
	if from == to {
		return
	}
	c.state = to
	c.s.mu.Lock()
	c.s.members[c.local].state = to
	c.s.mu.Unlock()
	c.s.changed(c.rank, from, to)
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

// Escape writes bytes as a transcript does: printable ASCII as it is, but for
// the backslash, and all else as \\, \n, \0 or \xHH.
func Escape(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, len(b))
	for _, c := range b {
		switch {
		case c == '\\':
			out = append(out, `\\`...)
		case c >= ' ' && c <= '~':
			out = append(out, c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == 0:
			out = append(out, `\0`...)
		default:
			out = append(out, '\\', 'x', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}
