package pmiserver

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"remshell/pmiserver/pmi1"
	"remshell/pmiserver/pmi2"
	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/transcript"
)

// A rankSession serves one rank over one connection, in whichever dialect. All of it belongs to
// the goroutine of Serve, but for out, to which whoever completes a barrier writes too.
type rankSession struct {
	pmiversion.Rank
	server     *Server
	ctx        context.Context
	localIndex int   // its index in s.info.Ranks
	state      State // as in s.states, which is for others to read

	input messageReader
	pmi1  *pmi1.Conversation
	pmi2  *pmi2.Conversation

	spawns  atomic.Int32 // not yet answered
	aborted bool

	replies replyWriter
	pending sync.WaitGroup // what is under way for this rank: its spawns, and the fence of the node
}

func (s *Server) newSession(ctx context.Context, local int, conn io.ReadWriter, a identifiedConn) *rankSession {
	i := &s.info
	rank := i.Ranks[local]
	c := &rankSession{server: s, ctx: ctx, localIndex: local, state: Connected, input: a.input, replies: replyWriter{conn: conn}}
	c.Rank = pmiversion.Rank{
		Number: rank, ID: a.id,
		Group: i.Name, Size: i.Size, Universe: i.Universe, Parent: i.Parent, Mapping: s.mapping,
		Keys: s.store.View(), Server: c,
	}
	if i.AppNum != nil {
		c.App = i.AppNum(rank)
	}
	c.pmi1, c.pmi2 = pmi1.New(&c.Rank), pmi2.New(&c.Rank, &s.nodeAttrs)
	return c
}

// run hears and answers until the connection ends.
func (c *rankSession) run(conn io.Reader) error {
	for over := false; ; {
		if problem := c.answerMessages(); problem != nil {
			return &ProtocolError{Rank: c.Number, Reason: problem.Error(), Head: transcript.Escape(c.input.firstBytes())}
		}
		if over && c.state == Inited && !c.aborted {
			return ErrUnfinalized
		}
		if over {
			return nil
		}
		n, err := conn.Read(c.input.readBuffer())
		c.input.addRead(n)
		over = err != nil
	}
}

// answerMessages answers all complete messages there are, with one write. A frozen server
// hears nothing any more, and drops what comes (pmi-wire.md 6.3).
func (c *rankSession) answerMessages() error {
	for !c.server.frozen.Load() {
		line, err := c.input.nextMessage()
		if err != nil {
			c.flush() // what was said before was right
			return err
		}
		if line == nil {
			return c.flush()
		}
		if c.input.isFrame {
			c.trace("<; ", line)
		} else {
			c.trace("< ", line)
		}
		if err := c.handleMessage(line); err != nil {
			return err
		}
	}
	// One that aborts too must not look like one that failed by itself.
	if !c.aborted && bytes.Contains(c.input.buf[c.input.start:], []byte("cmd=abort")) {
		c.aborted = true
		c.server.reportAborting(c.Number)
	}
	c.input.start = len(c.input.buf)
	c.Replies = c.Replies[:0]
	return nil
}

// handleMessage deals with one message, a request or a line of one.
func (c *rankSession) handleMessage(message []byte) error {
	if c.input.isFrame {
		c.pmi2.HandleFrame(message)
		return nil
	}
	err := c.pmi1.HandleLine(message)
	c.input.inBlock, c.input.pmi2 = c.pmi1.InSpawnBlock(), c.pmi1.SwitchedToPMI2()
	return err
}

// flush sends the answers collected.
func (c *rankSession) flush() error {
	if len(c.Replies) == 0 {
		return nil
	}
	err := c.sendReply(c.Replies)
	c.Replies = c.Replies[:0]
	return err
}

// sendReply sends whole messages. Any goroutine may call it.
func (c *rankSession) sendReply(lines []byte) error {
	if c.server.frozen.Load() {
		return nil
	}
	if c.server.Trace != nil {
		c.traceAnswers(lines)
	}
	return c.replies.send(lines)
}

// traceAnswers shows lines and frames one by one.
func (c *rankSession) traceAnswers(answers []byte) {
	for len(answers) > 0 {
		f := messageReader{buf: answers, pmi2: true}
		if body, err := f.nextMessage(); err == nil && f.isFrame && bytes.HasPrefix(body, []byte("cmd=")) {
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
	if c.server.Trace != nil {
		c.server.Trace(c.Number, arrow+transcript.Escape(line))
	}
}

// setState takes the rank to another state.
func (c *rankSession) setState(to State) {
	from := c.state
	if from == to {
		return
	}
	c.state, c.Inited = to, to == Inited
	c.server.mu.Lock()
	c.server.states[c.localIndex] = to
	c.server.mu.Unlock()
	c.server.reportState(c.Number, from, to)
}

// maxUnreadBytes is how much a client may leave unread, in bytes, while it goes on
// asking; beside what the socket holds.
const maxUnreadBytes = 1 << 20

// A replyWriter writes for several goroutines, and only one of them ever waits for
// the reader: who finds a write under way leaves his lines with the writer. So
// who releases a barrier does not wait for a rank that asks and does not read.
type replyWriter struct {
	conn io.Writer

	mu       sync.Mutex // guards what follows
	writing  bool
	queue    []byte // what to write next
	spareBuf []byte
	failed   bool // the peer is gone; its reader will notice
}

// send writes b, or leaves a copy of it to be written. It fails if there is too
// much of that.
func (o *replyWriter) send(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		return nil
	}
	if o.writing {
		o.queue = append(o.queue, b...)
		if len(o.queue) > maxUnreadBytes {
			return errNotReading
		}
		return nil
	}
	o.writing = true
	o.write(b)
	for len(o.queue) > 0 && !o.failed {
		next := o.queue
		o.queue, o.spareBuf = o.spareBuf[:0], nil
		o.write(next)
		o.spareBuf = next
	}
	o.writing = false
	return nil
}

// write lets go of the lock meanwhile.
func (o *replyWriter) write(b []byte) {
	o.mu.Unlock()
	_, err := o.conn.Write(b)
	o.mu.Lock()
	o.failed = o.failed || err != nil
}
