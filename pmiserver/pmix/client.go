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

// A client is a connection that a rank, or a child of one, has introduced as its own (PMIX-21).
// All of it belongs to the goroutine of run, but for out and events.
type client struct {
	server *Server
	group  *group
	rank   *localRank
	in     *bufio.Reader // from its connection

	major      int     // version of its library
	eventCodes codeSet // belongs to itself

	state       State        // as in rank, which is for others to read
	badMessages int          // messages in a row that could not be read
	nodeReads   readSequence // of ranks of this node for which it asks
	remoteReads readSequence // of others
	out         outbox
}

// proc is what the client's rank is called in messages.
func (c *client) proc() bfrops.Proc {
	return bfrops.Proc{Namespace: c.group.Namespace, Rank: bfrops.Rank(c.rank.number)}
}

// isEnding reports whether the client is not to wait for others any more (PMIX-64).
func (c *client) isEnding() bool { return c.group.isEnding() }

// A requestInfo is what an answer needs to know of its request.
type requestInfo struct {
	tag     uint32
	command string // FENCE
}

// errJunk is wrapped by what is wrong with a client that cannot be understood.
var errJunk = errors.New("talks junk on PMIx")

func isJunk(err error) bool { return errors.Is(err, errJunk) }

func junkError(why string) error { return fmt.Errorf("%w (%s)", errJunk, why) }

// readBufferSize is the room in which a client's next message is read, or the beginning of it: header and
// body of nearly all of them come with one call to the kernel. It is held for each connection.
const readBufferSize = 512

// readHandshake reads how a client introduces itself.
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

// run hears and answers until the connection ends: nil is the end of one that has finalized or
// has asked for nothing, errJunk that of one that is not to be understood.
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

// readMessage reads a message and does what it asks for. The room for it is held no longer than that.
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

// maxFirstAlloc is how much room a message gets before more of it has come than its header.
const maxFirstAlloc = 64 << 10

// readBody reads so many bytes, and makes room for them as they come.
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

// refuse answers a message that is no request, and gives up on a client that sends several.
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

// replyStatus sends an answer that is a status alone. Any goroutine may call it.
func (c *client) replyStatus(to requestInfo, s message.Status) {
	c.reply(to, s.String(), message.AppendStatus(message.NewReply(to.tag), s))
}

// reply sends an answer, which NewReply began, and what it says in words. Any goroutine may call
// it.
func (c *client) reply(to requestInfo, words string, reply []byte) {
	whole, fits := message.FinishReply(reply)
	if !fits {
		words = message.NoMemory.String()
		c.note(fmt.Sprintf("PMIx: an answer of %d bytes is more than its client can read", len(reply)))
	}
	c.traceReply(to.command, words)
	c.out.enqueue(whole)
}

// setState notes that the rank has taken a step.
func (c *client) setState(to State) {
	c.state = to
	c.group.setState(c.rank, to)
}

func (c *client) note(text string) { c.group.reportNote(c.rank.number, text) }
