package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Magic is what a helper says before anything else. It begins with a byte that is
// no text, so that whatever a login shell printed can be told from it (IO-14).
const Magic = "\x00remshell helper\x00\xff\n"

// maxNoise is how much a login shell may print before Magic.
const maxNoise = 1 << 20

// ErrClosed is what Send returns after Close.
var ErrClosed = errors.New("connection closed")

// A HelloError says that no helper answered. Noise is what came instead.
type HelloError struct {
	Noise []byte
	Err   error
}

func (e *HelloError) Error() string { return fmt.Sprintf("no helper answered: %v", e.Err) }
func (e *HelloError) Unwrap() error { return e.Err }

// A Conn carries messages over a byte stream. Any goroutine may Send; Send never
// waits for the other end, since what is unbounded is bounded by Credit. One
// goroutine calls Recv. There is a writer as long as there is something to write: of
// the connections of a large job nearly all are idle.
type Conn struct {
	*connState
	replaced bool // what goes on is another Conn's; guarded by carrier.mu
}

// A connState is the stream of a Conn, and of those that go on with it (Renew).
type connState struct {
	rw        io.ReadWriteCloser
	side      Side
	in        *input
	inProcess *inProcessReader // over one, which needs neither in nor what follows; else nil

	mu       sync.Mutex    // guards the rest
	frames   [][]byte      // encoded, not yet written: frames that others have, too, and what was before them
	outBuf   []byte        // what comes behind them
	spareBuf []byte        // for what comes when out is being written
	writing  int           // bytes that the writer has taken and not yet written
	writer   chan struct{} // closes when the writer ends; nil: there is none
	closed   bool
	err      error // of a failed write; every later Send returns it
}

// NewConn starts a Conn over rw, which it owns from now on. It is that of the side given, and
// takes only what the other one may say.
func NewConn(rw io.ReadWriteCloser, self Side) *Conn {
	if j, ok := rw.(interface{ inProcess() *InProcess }); ok {
		return &Conn{connState: &connState{rw: rw, side: self, inProcess: &inProcessReader{InProcess: j.inProcess(), self: self}}}
	}
	return &Conn{connState: &connState{rw: rw, side: self, in: newInput(rw)}}
}

// Successor returns a Conn that goes on with the stream of c, which sends nothing more, nor closes it:
// who still has c is of a conversation that is over. What c was sent goes out before what the new
// one is. One goroutine calls Recv, of either.
func (c *Conn) Successor() *Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = true
	return &Conn{connState: c.connState}
}

// Send encodes m and leaves it to the writer. The error is that of an earlier
// write; what was sent last may be lost without one. What NewData gave is gone then.
func (c *Conn) Send(m Message) error {
	if c.inProcess != nil {
		return c.sendInProcess(func() error { return c.inProcess.post(m) })
	}
	if data, ok := m.(*Data); ok && data.splice != nil {
		return errSpliced // without its bytes it would say that the stream has ended
	}
	err := c.appendFrame(func(buf []byte) []byte { return appendFrame(buf, m) })
	if data, ok := m.(*Data); ok {
		data.Release()
	}
	return err
}

// A Frame is a message that was encoded once, to be sent to many.
type Frame []byte

// Encode makes a Frame of m.
func Encode(m Message) Frame { return appendFrame(nil, m) }

// TooLarge reports whether a message is larger than its kind may be, whatever number it gets.
func TooLarge(m Message) bool {
	return len(Encode(m)) > kindOf(m).MaxBody-2*binary.MaxVarintLen64
}

// shareFrameFrom is the size from which a Frame is not copied: what a fence of 1,000 nodes
// spreads is some MiB, and would be there a thousand times.
const shareFrameFrom = 16 << 10

// SendFrame is Send for an encoded message, which nobody may change any more.
func (c *Conn) SendFrame(f Frame) error {
	if c.inProcess != nil {
		return c.sendInProcess(func() error { return c.inProcess.out.post(f) })
	}
	if len(f) < shareFrameFrom {
		return c.appendFrame(func(buf []byte) []byte { return append(buf, f...) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.sendError(); err != nil {
		return err
	}
	if len(c.outBuf) > 0 {
		c.frames = append(c.frames, c.outBuf)
		c.outBuf = nil
	}
	c.frames = append(c.frames, f)
	c.startWriter()
	return nil
}

// InProcess reports whether the other end is inside of this process.
func (c *Conn) InProcess() bool { return c.inProcess != nil }

// sendInProcess sends inside of one process, unless nothing is sent any more.
func (c *Conn) sendInProcess(send func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replaced {
		return ErrClosed
	}
	return send()
}

// sendError returns why nothing can be sent any more, or nil. It needs c.mu.
func (c *Conn) sendError() error {
	if c.err == nil && (c.closed || c.replaced) {
		return ErrClosed
	}
	return c.err
}

// appendFrame lets add put a frame behind what waits to be written.
func (c *Conn) appendFrame(add func(buf []byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.sendError(); err != nil {
		return err
	}
	if c.outBuf == nil {
		c.outBuf = make([]byte, 0, minBatch)
	}
	c.outBuf = add(c.outBuf)
	c.startWriter()
	return nil
}

// unwritten reports whether something waits to be written. It needs c.mu.
func (c *Conn) unwritten() bool { return len(c.outBuf) > 0 || len(c.frames) > 0 }

// startWriter sees to it that there is a writer. It needs c.mu.
func (c *Conn) startWriter() {
	if c.writer == nil {
		c.writer = make(chan struct{})
		go c.runWriter(c.spareBuf)
		c.spareBuf = nil
	}
}

// runWriter is the one writer: it takes all that has gathered and writes it at once, until nothing
// has.
func (c *Conn) runWriter(spare []byte) {
	var err error
	for {
		pieces := c.takePending(spare, err)
		if pieces == nil {
			return
		}
		spare = pieces[len(pieces)-1]
		err = c.writeAll(pieces)
	}
}

// takePending takes what has gathered, of which the last piece is the writer's; none is its end, as is
// an error of its last write. What comes meanwhile goes into spare.
func (c *Conn) takePending(spare []byte, err error) (pieces [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(spare) > maxBatch {
		spare = nil
	}
	if err == nil && c.unwritten() {
		pieces = append(c.frames, c.outBuf)
		c.frames, c.outBuf = nil, spare[:0]
		c.writing = totalLength(pieces)
		return pieces
	}
	c.writing = 0
	if c.err = err; err != nil {
		c.frames, c.outBuf = nil, nil
	}
	c.outBuf, c.spareBuf = reusable(c.outBuf), reusable(spare)
	close(c.writer)
	c.writer = nil
	return nil
}

func totalLength(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// Backlog is how many bytes were sent and are not written: the other end, or the way there, is
// slow. Inside one process there is none.
func (c *Conn) Backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing + totalLength(c.frames) + len(c.outBuf)
}

// Sizes of a buffer for what is written, in bytes.
const (
	minBatch  = 128
	flowBatch = 32 << 10 // output flows through it: it is kept when there is nothing to write
	maxBatch  = 1 << 20  // one large message shall not hold its memory for ever
)

// reusable is a buffer that is worth to be kept, or nil.
func reusable(batch []byte) []byte {
	if cap(batch) < flowBatch {
		return nil
	}
	return batch[:0]
}

// writeAll writes pieces in their order, and lets go of each.
func (c *Conn) writeAll(pieces [][]byte) error {
	for i, p := range pieces {
		pieces[i] = nil
		if len(p) == 0 {
			continue
		}
		if _, err := c.rw.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Recv returns the next message. io.EOF means that the stream ended between two
// messages, a Violation that the other end said what it may not. Byte slices in a message
// are the caller's.
func (c *Conn) Recv() (Message, error) {
	if c.inProcess != nil {
		return c.inProcess.recv()
	}
	kind, err := c.in.ReadByte()
	if err != nil {
		return nil, err
	}
	size, err := binary.ReadUvarint(c.in)
	if err != nil {
		return nil, unexpected(err)
	}
	k, err := checkHeader(kind, size, c.side)
	if err != nil {
		return nil, err
	}
	m := k.New()
	body, err := c.readBody(m, int(size))
	if err != nil {
		return nil, unexpected(err)
	}
	return m, decode(m, body)
}

// readBody reads what m is to be decoded from.
func (c *Conn) readBody(m Message, size int) ([]byte, error) {
	data, pooled := m.(*Data)
	if _, shared := m.(*StdinBroadcast); pooled || shared {
		c.in.growForOutput()
	}
	if pooled && size >= pooledFrom {
		data.pooled = buffers.Get().(*dataBuffer)
		_, err := io.ReadFull(c.in, data.pooled[:size])
		return data.pooled[:size], err
	}
	return readGrowing(c.in, size)
}

// readStep is how much is read before it is believed that more will come.
const readStep = 64 << 10

// readGrowing reads size bytes, into memory that at most doubles with what has come (TRUST-31).
func readGrowing(r io.Reader, size int) ([]byte, error) {
	buf := make([]byte, min(size, readStep))
	for n := 0; ; {
		if _, err := io.ReadFull(r, buf[n:]); err != nil {
			return nil, err
		}
		if n = len(buf); n == size {
			return buf, nil
		}
		buf = append(make([]byte, 0, min(size, 2*n)), buf...)
		buf = buf[:cap(buf)]
	}
}

// decodeFrame is the message in a whole frame.
func decodeFrame(f Frame, self Side) (Message, error) {
	size, n := binary.Uvarint(f[1:])
	k, err := checkHeader(f[0], size, self)
	if err != nil {
		return nil, err
	}
	m := k.New()
	return m, decode(m, f[1+n:])
}

// SendHello is the first word of a helper.
func (c *Conn) SendHello(h *Hello) error {
	if c.inProcess != nil {
		return c.Send(h)
	}
	c.mu.Lock()
	c.outBuf = append(c.outBuf, Magic...)
	c.mu.Unlock()
	return c.Send(h)
}

// ReceiveHello waits for a helper's Announce and returns its Hello and what came before
// it. The error is a *GreetError.
func (c *Conn) ReceiveHello() (*Hello, []byte, error) {
	noise, err := c.skipNoise()
	if err != nil {
		return nil, noise, &HelloError{noise, unexpected(err)}
	}
	m, err := c.Recv()
	if err != nil {
		return nil, noise, &HelloError{noise, unexpected(err)}
	}
	h, ok := m.(*Hello)
	if !ok {
		return nil, noise, &HelloError{noise, fmt.Errorf("%T came first", m)}
	}
	return h, noise, nil
}

// skipNoise reads up to and including Magic and returns what came before.
func (c *Conn) skipNoise() ([]byte, error) {
	if c.inProcess != nil {
		return nil, nil
	}
	var noise []byte
	for len(noise) < maxNoise {
		piece, err := c.in.ReadSlice('\n')
		noise = append(noise, piece...)
		if bytes.HasSuffix(noise, []byte(Magic)) {
			return noise[:len(noise)-len(Magic)], nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return noise, err
		}
	}
	return noise, fmt.Errorf("%d bytes of text and no helper", len(noise))
}

// Flush waits until what was sent has been written, or cannot be.
func (c *Conn) Flush() {
	if writer := c.writerDone(); writer != nil {
		<-writer
	}
}

// writerDone is closed when the writer ends; nil: there is none.
func (c *Conn) writerDone() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer
}

// stopSending lets nothing more be sent, and drops what is to be dropped; false: the stream is another
// Conn's by now.
func (c *Conn) stopSending(drop func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.replaced {
		c.closed = true
		drop()
	}
	return !c.replaced
}

// closeTimeout is how long Close waits for an end that takes nothing any more.
const closeTimeout = 2 * time.Second

// Close lets the writer finish what was sent, if the other end takes it, and closes
// the stream.
func (c *Conn) Close() error {
	if !c.stopSending(func() {}) {
		return nil
	}
	if c.inProcess != nil {
		return c.rw.Close()
	}
	if writer := c.writerDone(); writer != nil {
		late := time.NewTimer(closeTimeout)
		defer late.Stop()
		select {
		case <-writer:
		case <-late.C:
		}
	}
	return c.rw.Close()
}

// Abandon closes the stream without waiting for anything that was sent.
func (c *Conn) Abandon() error {
	if !c.stopSending(func() { c.frames, c.outBuf = nil, nil }) {
		return nil
	}
	if c.inProcess != nil {
		return c.rw.Close()
	}
	err := c.rw.Close()
	c.Flush()
	return err
}

func appendFrame(buf []byte, m Message) []byte {
	buf = append(buf, numberOf(m))
	// The length stands before the body, but is known only after it: leave room
	// for the longest, encode in place, and close the gap.
	start := len(buf)
	c := newCodec(append(buf, make([]byte, binary.MaxVarintLen32)...), false)
	defer c.free()
	m.fields(c)
	body := c.buf[start+binary.MaxVarintLen32:]
	buf = binary.AppendUvarint(c.buf[:start], uint64(len(body)))
	return append(buf, body...)
}

func decode(m Message, body []byte) error {
	c := newCodec(body, true)
	defer c.free()
	m.fields(c)
	switch {
	case c.err == nil && len(c.buf) == 0:
		return nil
	case c.err == nil || c.err == errShort:
		return unknownKind(numberOf(m))
	}
	return Violation(fmt.Sprintf("%s that cannot be: %v", article(NameOf(m)), c.err))
}

// unexpected makes an end of file inside something an error of its own.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
