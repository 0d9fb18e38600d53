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

// A rankSession serves one rank over one connection, with PMI-1 or PMI-2. Only the goroutine that calls Serve uses it.
// The exception is the field replies, which other goroutines also use when a barrier or a spawn is complete.
type rankSession struct {
	pmiversion.Rank
	server     *Server
	ctx        context.Context
	localIndex int   // index in server.info.Ranks
	state      State // a copy of server.states[localIndex], which other goroutines read

	input messageReader
	pmi1  *pmi1.Conversation
	pmi2  *pmi2.Conversation

	spawns  atomic.Int32 // spawn requests not yet answered
	aborted bool

	replies replyWriter
	pending sync.WaitGroup // work under way for this rank: its spawns, and the fence of the node
}

func (s *Server) newSession(ctx context.Context, local int, conn io.ReadWriter, a identifiedConn) *rankSession {
	i := &s.info
	rank := i.Ranks[local]
	c := &rankSession{server: s, ctx: ctx, localIndex: local, state: Connected, input: a.input, replies: replyWriter{conn: conn}}
	c.Rank = pmiversion.Rank{
		Number: rank, ID: a.id,
		Group: i.Name, Size: i.Size, Universe: i.Universe, Parent: i.Parent, Mapping: s.mapping,
		Keys: s.store.View(), Session: c,
	}
	if i.AppNum != nil {
		c.App = i.AppNum(rank)
	}
	c.pmi1, c.pmi2 = pmi1.New(&c.Rank), pmi2.New(&c.Rank, &s.nodeAttrs)
	return c
}

// run reads requests and replies to them until the connection ends.
func (c *rankSession) run(conn io.Reader) error {
	for over := false; ; {
		if problem := c.handleMessages(); problem != nil {
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

// handleMessages handles all complete messages in the input buffer and sends all replies in one write. If the
// server is frozen, it discards all input (pmi-wire.md 6.3).
func (c *rankSession) handleMessages() error {
	for !c.server.frozen.Load() {
		line, err := c.input.nextMessage()
		if err != nil {
			c.flush() // replies to the valid requests before
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
	// A rank that aborts too must not look as if it failed by itself.
	if !c.aborted && bytes.Contains(c.input.buf[c.input.start:], []byte("cmd=abort")) {
		c.aborted = true
		c.server.reportAborting(c.Number)
	}
	c.input.start = len(c.input.buf)
	c.Replies = c.Replies[:0]
	return nil
}

// handleMessage handles one message, which is a request or one line of a longer request.
func (c *rankSession) handleMessage(message []byte) error {
	if c.input.isFrame {
		c.pmi2.HandleFrame(message)
		return nil
	}
	err := c.pmi1.HandleLine(message)
	c.input.inBlock, c.input.pmi2 = c.pmi1.InSpawnBlock(), c.pmi1.SwitchedToPMI2()
	return err
}

// flush sends the replies that have been collected.
func (c *rankSession) flush() error {
	if len(c.Replies) == 0 {
		return nil
	}
	err := c.sendReply(c.Replies)
	c.Replies = c.Replies[:0]
	return err
}

// sendReply sends one or more complete messages. Any goroutine may call it.
func (c *rankSession) sendReply(lines []byte) error {
	if c.server.frozen.Load() {
		return nil
	}
	if c.server.Trace != nil {
		c.traceReplies(lines)
	}
	return c.replies.send(lines)
}

// traceReplies calls the trace function for each line or frame of the replies.
func (c *rankSession) traceReplies(replies []byte) {
	for len(replies) > 0 {
		f := messageReader{buf: replies, pmi2: true}
		if body, err := f.nextMessage(); err == nil && f.isFrame && bytes.HasPrefix(body, []byte("cmd=")) {
			c.trace(">; ", body)
			replies = replies[f.start:]
			continue
		}
		line, rest, _ := bytes.Cut(replies, []byte("\n"))
		c.trace("> ", line)
		replies = rest
	}
}

func (c *rankSession) trace(arrow string, line []byte) {
	if c.server.Trace != nil {
		c.server.Trace(c.Number, arrow+transcript.Escape(line))
	}
}

// setState changes the rank's state and reports the change.
func (c *rankSession) setState(state State) {
	from := c.state
	if from == state {
		return
	}
	c.state, c.Inited = state, state == Inited
	c.server.mu.Lock()
	c.server.states[c.localIndex] = state
	c.server.mu.Unlock()
	c.server.reportState(c.Number, from, state)
}

// maxUnreadBytes is the maximum number of bytes of replies that a client may leave unread while it sends more
// requests. Bytes in the socket's buffer do not count.
const maxUnreadBytes = 1 << 20

// A replyWriter lets several goroutines write to one connection. If another goroutine is already writing, bytes are
// queued for that goroutine. So at most one goroutine waits for a client that does not read. Normally it is not a
// goroutine that releases a barrier.
type replyWriter struct {
	conn io.Writer

	mu       sync.Mutex // guards the fields below
	writing  bool
	queue    []byte // bytes to write next
	spareBuf []byte
	failed   bool // the peer is gone; the reading goroutine will notice
}

// send writes b. If another goroutine is writing, it queues a copy of b instead. It returns errNotReading if
// more than maxUnreadBytes bytes are queued.
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

// write writes b. The caller must hold o.mu, which is unlocked during the write.
func (o *replyWriter) write(b []byte) {
	o.mu.Unlock()
	_, err := o.conn.Write(b)
	o.mu.Lock()
	o.failed = o.failed || err != nil
}
