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

// Magic is the first text that a helper sends. The first byte of Magic does not occur in text, so that mpiexec can
// tell Magic from the output of a login shell (rule IO-14).
const Magic = "\x00remshell helper\x00\xff\n"

// maxNoise is the maximum number of bytes that a login shell may print before Magic.
const maxNoise = 1 << 20

// ErrClosed is returned by Send if the Conn has been closed, or if a successor has taken over its stream.
var ErrClosed = errors.New("connection closed")

// A HelloError is returned when no helper has replied. Noise is the text that arrived instead.
type HelloError struct {
	Noise []byte
	Err   error
}

func (e *HelloError) Error() string {
	return fmt.Sprintf("mpiexec on that host did not answer: %v", e.Err)
}
func (e *HelloError) Unwrap() error { return e.Err }

// A Conn carries messages over a byte stream. Any goroutine may call Send. Send never waits for the other
// end; the amount of queued output is limited by Credit messages instead. Only one goroutine may call Recv. A
// writer goroutine exists only while there is something to write, because nearly all connections of a large
// job are idle.
type Conn struct {
	*connState
	replaced bool // a Successor has taken over the stream; guarded by connState.mu
}

// A connState is the state of one stream. A Conn and its successors share one connState (Successor).
type connState struct {
	rw        io.ReadWriteCloser
	side      Side
	in        *input
	inProcess *inProcessReader // set for a stream within this process, which does not use in and the fields below; else nil

	mu       sync.Mutex    // guards the rest
	frames   [][]byte      // encoded and not yet written: frames shared with other Conns, and the bytes before them
	outBuf   []byte        // bytes to write after frames
	spareBuf []byte        // replaces outBuf while outBuf is being written
	writing  int           // number of bytes that the writer has taken and not yet written
	writer   chan struct{} // closed when the writer ends; nil: no writer
	closed   bool
	err      error // of a failed write; every later Send returns it
}

// NewConn returns a Conn over rw and takes ownership of rw. self is the caller's side. The Conn accepts only
// messages that the other side may send.
func NewConn(rw io.ReadWriteCloser, self Side) *Conn {
	if j, ok := rw.(interface{ inProcess() *InProcess }); ok {
		return &Conn{connState: &connState{rw: rw, side: self, inProcess: &inProcessReader{InProcess: j.inProcess(), self: self}}}
	}
	return &Conn{connState: &connState{rw: rw, side: self, in: newInput(rw)}}
}

// Successor returns a Conn that takes over the stream of c. After that, c.Send returns ErrClosed and c.Close
// does not close the stream. So code of an earlier attempt (one run of all ranks) cannot interfere. Messages
// sent by c are written before messages sent by the successor. Only one goroutine may call Recv of either Conn.
func (c *Conn) Successor() *Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = true
	return &Conn{connState: c.connState}
}

// Send encodes m and queues it for the writer. If a write fails, only later calls of Send return the error, so the last
// messages before a failure may be lost without an error. If m is a Data from NewData, Send releases it.
func (c *Conn) Send(m Message) error {
	if c.inProcess != nil {
		return c.sendInProcess(func() error { return c.inProcess.post(m) })
	}
	if data, ok := m.(*Data); ok && data.splice != nil {
		return errSpliced // encoded without its bytes, it would mean the end of the stream
	}
	err := c.appendFrame(func(buf []byte) []byte { return appendFrame(buf, m) })
	if data, ok := m.(*Data); ok {
		data.Release()
	}
	return err
}

// A Frame is an encoded message. The same Frame can be sent on many Conns.
type Frame []byte

// Encode returns the encoded form of m.
func Encode(m Message) Frame { return appendFrame(nil, m) }

// TooLarge reports whether the encoded m exceeds the limit for messages of its kind, or is only a few bytes below it.
func TooLarge(m Message) bool {
	return len(Encode(m)) > kindOf(m).MaxBody-2*binary.MaxVarintLen64
}

// shareFrameFrom is the minimum size in bytes for which SendFrame does not copy a Frame. The result of a fence
// of 1,000 nodes may have several MiB. A copy for each node would need a thousand times as much memory.
const shareFrameFrom = 16 << 10

// SendFrame sends a message that is already encoded. f must not change afterwards.
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

// InProcess reports whether the other end of the connection is in this process.
func (c *Conn) InProcess() bool { return c.inProcess != nil }

// sendInProcess calls send, or returns ErrClosed if a successor has taken over the stream.
func (c *Conn) sendInProcess(send func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replaced {
		return ErrClosed
	}
	return send()
}

// sendError returns the reason why nothing more can be sent, or nil if messages can be sent. The caller must hold c.mu.
func (c *Conn) sendError() error {
	if c.err == nil && (c.closed || c.replaced) {
		return ErrClosed
	}
	return c.err
}

// appendFrame adds a frame to the bytes that wait to be written. add appends the frame to buf.
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

// unwritten reports whether something waits to be written. The caller must hold c.mu.
func (c *Conn) unwritten() bool { return len(c.outBuf) > 0 || len(c.frames) > 0 }

// startWriter starts the writer goroutine unless it is already running. The caller must hold c.mu.
func (c *Conn) startWriter() {
	if c.writer == nil {
		c.writer = make(chan struct{})
		go c.runWriter(c.spareBuf)
		c.spareBuf = nil
	}
}

// runWriter is the function of the writer goroutine. It writes all pending messages together, and returns when none are
// left.
func (c *Conn) runWriter(buffer []byte) {
	var err error
	for {
		pieces := c.takePending(buffer, err)
		if pieces == nil {
			return
		}
		buffer = pieces[len(pieces)-1]
		err = c.writeAll(pieces)
	}
}

// takePending returns the pieces that wait to be written, and stores buffer as the buffer for the next messages. The
// writer has just written the content of buffer. err is the result of the last write. If err is not nil, or nothing
// waits, takePending returns nil and the writer ends.
func (c *Conn) takePending(buffer []byte, err error) (pieces [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(buffer) > maxBatch {
		buffer = nil
	}
	if err == nil && c.unwritten() {
		pieces = append(c.frames, c.outBuf)
		c.frames, c.outBuf = nil, buffer[:0]
		c.writing = totalLength(pieces)
		return pieces
	}
	c.writing = 0
	if c.err = err; err != nil {
		c.frames, c.outBuf = nil, nil
	}
	c.outBuf, c.spareBuf = reusable(c.outBuf), reusable(buffer)
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

// Backlog returns the number of bytes that were passed to Send and are not yet written. The number is large if the
// other side or the network is slow. It is 0 if the other side is in this process.
func (c *Conn) Backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing + totalLength(c.frames) + len(c.outBuf)
}

// These are the sizes of the write buffer in bytes.
const (
	minBatch  = 128
	flowBatch = 32 << 10 // a buffer of this size has carried output, and is kept when there is nothing to write
	maxBatch  = 1 << 20  // a larger buffer is freed after use
)

// reusable returns batch with length 0, for reuse. If the capacity of batch is below flowBatch, it returns nil.
func reusable(batch []byte) []byte {
	if cap(batch) < flowBatch {
		return nil
	}
	return batch[:0]
}

// writeAll writes the pieces in order. It sets each piece to nil, so that its memory can be freed.
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

// Recv returns the next message. It returns io.EOF if the stream ended between two messages, and a Violation
// if the other end sent something that it must not send. The caller owns the byte slices in the message.
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
	return m, Decode(m, body)
}

// readBody reads the body of message m. The body has size bytes. For large Data messages it uses a buffer from the pool
// buffers.
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

// readStep is the maximum number of bytes that are allocated for a body before any of its bytes has arrived.
const readStep = 64 << 10

// readGrowing reads size bytes. It allocates at most readStep bytes, or twice the bytes that have arrived if that is
// more (rule TRUST-31).
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

// decodeFrame decodes the message in a complete frame. self is the side of the receiver.
func decodeFrame(f Frame, self Side) (Message, error) {
	size, n := binary.Uvarint(f[1:])
	k, err := checkHeader(f[0], size, self)
	if err != nil {
		return nil, err
	}
	m := k.New()
	return m, Decode(m, f[1+n:])
}

// SendHello sends Magic and then h, which is the first message of a helper.
func (c *Conn) SendHello(h *Hello) error {
	if c.inProcess != nil {
		return c.Send(h)
	}
	c.mu.Lock()
	c.outBuf = append(c.outBuf, Magic...)
	c.mu.Unlock()
	return c.Send(h)
}

// ReceiveHello waits for the helper's Hello message. It also returns the text that the login shell printed before the
// message. If it fails, the error is a *HelloError.
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

// skipNoise reads up to the end of Magic and returns the bytes before it.
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
	return noise, fmt.Errorf("%d bytes of other text arrived instead of its greeting", len(noise))
}

// Flush waits until everything that was sent has been written, or a write has failed.
func (c *Conn) Flush() {
	if writer := c.writerDone(); writer != nil {
		<-writer
	}
}

// writerDone returns a channel that is closed when the writer goroutine ends. It returns nil if no writer is
// running.
func (c *Conn) writerDone() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer
}

// stopSending makes every later Send fail, and calls drop, which discards unsent messages. If a successor has taken
// over the stream, stopSending does nothing and returns false.
func (c *Conn) stopSending(drop func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.replaced {
		c.closed = true
		drop()
	}
	return !c.replaced
}

// closeTimeout is the maximum time for which Close waits for a peer that does not read the remaining messages.
const closeTimeout = 2 * time.Second

// Close waits for at most closeTimeout until all pending data is written. Then it closes the stream.
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

// Abandon closes the stream at once. Messages that have not been written yet are lost.
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

// appendFrame appends the frame of message m to buf and returns the result.
func appendFrame(buf []byte, m Message) []byte {
	buf = append(buf, NumberOf(m))
	// The length precedes the body and is known only after it: reserve bytes for
	// the longest length, encode behind them, and then move the body forward.
	start := len(buf)
	c := newCodec(append(buf, make([]byte, binary.MaxVarintLen32)...), false)
	defer c.free()
	m.Fields(c)
	body := c.buf[start+binary.MaxVarintLen32:]
	buf = binary.AppendUvarint(c.buf[:start], uint64(len(body)))
	return append(buf, body...)
}

// Decode decodes body, the body of a frame, into m, which must be an empty message. If decoding fails, the error is
// a Violation.
func Decode(m Message, body []byte) error {
	c := newCodec(body, true)
	defer c.free()
	m.Fields(c)
	switch {
	case c.err == nil && len(c.buf) == 0:
		return nil
	case c.err == nil || c.err == errShort:
		return unknownKind(NumberOf(m))
	}
	return Violation(fmt.Sprintf("the host sent %s message with an impossible value: %v", article(NameOf(m)), c.err))
}

// unexpected returns io.ErrUnexpectedEOF if err is io.EOF, since a stream must not end inside a message. It returns
// any other error unchanged.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
