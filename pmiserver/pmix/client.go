package pmix

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A client is a connection that has authenticated as a rank of this node, or as a child process of one (rule
// PMIX-21). Only the goroutine that calls run may use its fields, except out and eventCodes.
type client struct {
	server *Server
	group  *group
	rank   *localRank
	in     *bufio.Reader // reads from the connection

	major      int     // major version of the client's PMIx library
	eventCodes codeSet // has a lock of its own

	state       State        // copy of rank.state for this goroutine; other goroutines read rank.state
	badMessages int          // consecutive messages that could not be decoded
	nodeReads   readSequence // Gets for ranks of this node
	remoteReads readSequence // Gets for ranks of other nodes
	out         outbox
}

// proc returns the namespace and rank by which messages identify the client.
func (c *client) proc() bfrops.Proc {
	return bfrops.Proc{Namespace: c.group.Namespace, Rank: bfrops.Rank(c.rank.number)}
}

// isEnding reports whether the client must no longer wait for other processes (rule PMIX-64).
func (c *client) isEnding() bool { return c.group.isEnding() }

// A requestInfo contains the parts of a request that are needed for the reply.
type requestInfo struct {
	tag     uint32
	command string // for traces, such as FENCE
}

// errJunk is the error for a client that sends invalid messages or does not read its replies. Functions return it
// wrapped in an error that adds a reason.
var errJunk = errors.New("the rank sent an invalid PMIx message")

func isJunk(err error) bool { return errors.Is(err, errJunk) }

func junkError(reason string) error { return fmt.Errorf("%w (%s)", errJunk, reason) }

// readBufferSize is the size in bytes of each connection's read buffer. Nearly all messages fit into it, so
// that one system call reads header and body.
const readBufferSize = 512

// readHandshake reads the first message of a connection, the handshake.
func readHandshake(conn io.Reader) (h message.Handshake, err error) {
	var head [message.HeaderSize]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return h, err
	}
	size, err := message.ParseFirstHeader(head)
	if err != nil {
		return h, err
	}
	body, err := readBody(conn, size)
	if err != nil {
		return h, err
	}
	return message.ParseHandshake(body)
}

// run reads and handles messages until the connection ends. It returns nil if the client has finalized or has never
// asked for its job info. It returns errJunk if the messages cannot be decoded or the client does not read its replies.
// If the connection ends without finalize, run returns the error of the read.
func (c *client) run() error {
	for {
		err := c.readMessage()
		switch {
		case err == nil:
		case isJunk(err):
			return err
		case c.out.hasOverrun():
			return junkError(errOverrun.Error())
		case c.state == Initialized:
			return err
		default:
			return nil
		}
	}
}

// readMessage reads one message and handles its request. Nothing refers to the memory of the message afterwards.
func (c *client) readMessage() error {
	var head [message.HeaderSize]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return err
	}
	h, err := message.ParseHeader(head)
	if err != nil {
		return junkError(err.Error())
	}
	body, err := readBody(c.in, h.Size)
	if err != nil {
		return err
	}
	request, err := message.Parse(body)
	var refusal *message.Refusal
	switch {
	case errors.Is(err, message.ErrEmpty):
		return junkError(err.Error())
	case errors.As(err, &refusal):
		return c.refuse(h.Tag, refusal)
	}
	c.badMessages = 0
	c.traceRequest(request)
	c.handleRequest(requestInfo{h.Tag, message.NameOf(request)}, request)
	return nil
}

// maxFirstAlloc is the maximum number of bytes that are allocated for a message before its body has arrived.
const maxFirstAlloc = 64 << 10

// readBody reads size bytes. It allocates at most maxFirstAlloc bytes at first, and more as bytes arrive.
func readBody(conn io.Reader, size int) ([]byte, error) {
	if size <= maxFirstAlloc {
		body := make([]byte, size)
		_, err := io.ReadFull(conn, body)
		return body, err
	}
	var body bytes.Buffer
	_, err := io.CopyN(&body, conn, int64(size))
	return body.Bytes(), err
}

// refuse replies to a message that is not a valid request. It returns errJunk after maxBadMessages malformed
// messages in a row.
func (c *client) refuse(tag uint32, r *message.Refusal) error {
	c.note(r.Error())
	if !r.NoReply {
		c.replyStatus(requestInfo{tag, r.Command}, r.Status)
	}
	if r.Status != message.Malformed {
		return nil
	}
	if c.badMessages++; c.badMessages >= maxBadMessages {
		return junkError(r.Error())
	}
	return nil
}

// replyStatus sends a reply that consists of a status only. Any goroutine may call it.
func (c *client) replyStatus(request requestInfo, s message.Status) {
	c.reply(request, s.String(), message.AppendStatus(message.NewReply(request.tag), s))
}

// reply sends a reply that NewReply has begun. summary describes the reply in the trace. Any goroutine may call this
// method.
func (c *client) reply(request requestInfo, summary string, reply []byte) {
	whole, fits := message.FinishReply(reply)
	if !fits {
		summary = message.NoMemory.String()
		c.note(fmt.Sprintf("PMIx: a reply of %d bytes to the rank is too large to send", len(reply)))
	}
	c.traceReply(request.command, summary)
	c.out.enqueue(whole)
}

// setState records a new state of the rank.
func (c *client) setState(state State) {
	c.state = state
	c.group.setState(c.rank, state)
}

func (c *client) note(text string) { c.group.reportNote(c.rank.number, text) }
