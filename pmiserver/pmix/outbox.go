package pmix

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// maxQueued is the maximum number of unread bytes that may be queued for all clients of one rank (rule PMIX-24).
const maxQueued = 64 << 20

// errOverrun is returned when more than maxQueued bytes would be queued for the clients of a rank.
var errOverrun = fmt.Errorf("it has not read %d MiB of replies to its requests", maxQueued>>20)

// errGone is returned when a message is sent to a client whose connection has ended.
var errGone = errors.New("the PMIx client has closed its connection")

// An outbox sends messages to one client, in the order of the calls of enqueue. enqueue never waits for the
// client:
//
//	enqueue --- queue empty, socket buffer has space ---> written at once, by the caller
//	        \-- else ---> queue ---> a goroutine, until the queue is empty
//
// This avoids the two thread switches that a goroutine for every reply would cost.
type outbox struct {
	conn io.WriteCloser
	raw  syscall.RawConn // of conn; nil if it has none: then nothing is written at once
	rank *atomic.Int64   // bytes queued for all clients of the rank

	mu      sync.Mutex // guards the fields below
	queue   [][]byte   // messages not yet passed to conn.Write
	bytes   int        // bytes not yet written
	writing bool       // a goroutine runs write
	endErr  error      // why nothing is written any more; nil while it is
}

// enqueue adds a message to the queue. The caller must not change the message afterwards. If too many bytes
// are queued, enqueue closes the connection and returns errOverrun.
func (o *outbox) enqueue(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.endErr != nil:
		return o.endErr
	case o.rank.Load()+int64(len(message)) > maxQueued:
		o.endWith(errOverrun)
		o.conn.Close()
		return errOverrun
	}
	if !o.writing {
		message = message[o.writeNow(message):]
	}
	if len(message) == 0 {
		return nil
	}
	o.queue = append(o.queue, message)
	o.countQueued(len(message))
	if !o.writing {
		o.writing = true
		go o.write()
	}
	return nil
}

// writeNow writes as many bytes as the kernel takes without blocking, and returns their number. It does not report
// errors, because the next write to the connection returns them. The caller holds o.mu, and no goroutine runs write.
func (o *outbox) writeNow(message []byte) (n int) {
	if o.raw == nil {
		return 0
	}
	o.raw.Write(func(fd uintptr) (done bool) {
		n, _ = syscall.Write(int(fd), message)
		return true
	})
	return max(n, 0)
}

// rawOf returns the raw connection of conn. It returns nil if conn has none.
func rawOf(conn net.Conn) syscall.RawConn {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// enqueueUnlessBehind adds a message to the queue, unless more than limit bytes are already queued. It
// reports whether the message was added.
func (o *outbox) enqueueUnlessBehind(limit int, message []byte) bool {
	o.mu.Lock()
	behind := o.bytes > limit
	o.mu.Unlock()
	return !behind && o.enqueue(message) == nil
}

// write sends the queued messages to the client until the queue is empty.
func (o *outbox) write() {
	for {
		message := o.next()
		if message == nil {
			return
		}
		_, err := o.conn.Write(message)
		o.noteWritten(len(message), err)
	}
}

// next removes a message from the queue and returns it. If there is none, it sets o.writing to false and returns nil.
func (o *outbox) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue, o.writing = nil, false
		return nil
	}
	message := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	return message
}

func (o *outbox) noteWritten(bytes int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endErr == nil {
		o.countQueued(-bytes)
	}
	if err != nil {
		o.endWith(errGone)
	}
}

// close drops the queue. Later calls of enqueue return errGone.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endWith(errGone)
}

// endWith drops the queue. The first call also makes enqueue return cause from now on. The caller holds o.mu.
func (o *outbox) endWith(cause error) {
	if o.endErr == nil {
		o.endErr = cause
		o.countQueued(-o.bytes)
	}
	o.queue = nil
}

// countQueued adds a number of bytes, which may be negative, to the number of bytes that are queued for this
// client and for its rank. The caller holds o.mu.
func (o *outbox) countQueued(bytes int) {
	o.bytes += bytes
	o.rank.Add(int64(bytes))
}

// hasOverrun reports whether the connection was closed because the client does not read.
func (o *outbox) hasOverrun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.endErr == errOverrun
}
