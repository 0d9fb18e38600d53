package wire

import (
	"errors"
	"io"
	"sync"
)

// An InProcess is one end of a stream inside one process, for a helper that runs inside mpiexec. Two Conns over the
// two ends pass Data without copying the bytes. They encode all other messages, so that neither side can change
// values of the other side.
type InProcess struct{ in, out *mailbox }

// NewInProcess returns the two ends of a new stream within this process.
func NewInProcess() (first, second *InProcess) {
	a, b := newMailbox(), newMailbox()
	return &InProcess{a, b}, &InProcess{b, a}
}

var errNoBytes = errors.New("this connection inside one process carries only messages, not bytes")

// Read always returns an error. An InProcess carries messages only through a Conn, which does not call Read.
func (j *InProcess) Read([]byte) (int, error) { return 0, errNoBytes }

// Write always returns an error. An InProcess carries messages only through a Conn, which does not call Write.
func (j *InProcess) Write([]byte) (int, error) { return 0, errNoBytes }

// Close ends both directions of the stream. Messages that were sent before can still be received.
func (j *InProcess) Close() error {
	j.Fail(io.EOF)
	return nil
}

// Fail ends both directions of the stream. The other end then receives cause instead of io.EOF.
func (j *InProcess) Fail(cause error) {
	j.in.close(io.EOF)
	j.out.close(cause)
}

// inProcess returns j. NewConn calls this method to find an InProcess that is embedded in another type.
func (j *InProcess) inProcess() *InProcess { return j }

// A mailbox is the queue of messages in one direction of an InProcess. It has no size limit of its own,
// because Credit messages limit the amount of Data.
type mailbox struct {
	mu     sync.Mutex // guards the rest
	queue  []any      // Frame or *Data
	ended  error      // why nothing more comes, or nil; io.EOF: closed normally
	filled sync.Cond
}

func newMailbox() *mailbox {
	m := new(mailbox)
	m.filled.L = &m.mu
	return m
}

func (b *mailbox) close(cause error) {
	b.mu.Lock()
	if b.ended == nil {
		b.ended = cause
	}
	b.mu.Unlock()
	b.filled.Broadcast()
}

func (b *mailbox) post(x any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return ErrClosed
	}
	b.queue = append(b.queue, x)
	b.filled.Signal()
	return nil
}

// takeAll waits until there are messages, and returns all that are queued. If no more messages can come, the
// error says why.
func (b *mailbox) takeAll(buffer []any) ([]any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && b.ended == nil {
		b.filled.Wait()
	}
	if len(b.queue) == 0 {
		return nil, b.ended
	}
	taken := b.queue
	b.queue = buffer[:0]
	return taken, nil
}

// post queues m, so that the other end can receive it.
func (j *InProcess) post(m Message) error {
	data, ok := m.(*Data)
	if !ok {
		return j.out.post(Encode(m))
	}
	if data.pooled == nil && data.splice == nil { // the sender may reuse its bytes: copy them
		own := NewData(len(data.Bytes))
		own.Rank, own.Stream = data.Rank, data.Stream
		copy(own.Bytes, data.Bytes)
		data = own
	}
	return j.out.post(data)
}

// An inProcessReader returns the queued messages of an InProcess one by one.
type inProcessReader struct {
	*InProcess
	self  Side
	batch []any
	next  int
}

func (r *inProcessReader) recv() (Message, error) {
	if r.next == len(r.batch) {
		clear(r.batch)
		batch, err := r.in.takeAll(r.batch)
		if err != nil {
			return nil, err
		}
		r.batch, r.next = batch, 0
	}
	x := r.batch[r.next]
	r.next++
	if frame, ok := x.(Frame); ok {
		return decodeFrame(frame, r.self)
	}
	return x.(*Data), nil
}
