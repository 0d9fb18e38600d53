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

// maxQueued is how many bytes may wait for the clients of a rank that do not read (PMIX-24).
const maxQueued = 64 << 20

// errOverrun is the end of a client that asks and does not read the answers.
var errOverrun = fmt.Errorf("it does not read: %d MiB of answers wait for it", maxQueued>>20)

// errGone is the answer to who writes to a client that has gone.
var errGone = errors.New("the client has gone")

// An outbox writes the messages to one client, in the order in which they were put. Who puts one
// never waits for the client:
//
//	put --- nothing waits, and the kernel has room ---> written at once, by who puts it
//	    \-- else ---> queue ---> a goroutine, as long as there is something in it
//
// An answer that had to wait for a goroutine would cost two changes of threads.
type outbox struct {
	conn io.WriteCloser
	raw  syscall.RawConn // of conn; nil: it has none, and nothing is written at once
	rank *atomic.Int64   // bytes not yet written to all clients of the rank

	mu      sync.Mutex // guards what follows
	queue   [][]byte   // not yet given to conn
	bytes   int        // not yet written
	writing bool
	endErr  error // why nothing is written any more
}

// enqueue adds a message, which is the outbox's from now on. errOverrun says that too much waits; then
// the connection is closed.
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

// writeNow writes what the kernel takes without waiting, and returns how much that is. What has failed
// fails again for who waits. It needs o.mu, and that nobody writes.
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

// rawOf is the descriptor of a connection; nil: it has none.
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

// enqueueUnlessBehind is put unless so many bytes wait already; then, or when it is over, nothing is put.
func (o *outbox) enqueueUnlessBehind(bytes int, message []byte) bool {
	o.mu.Lock()
	behind := o.bytes > bytes
	o.mu.Unlock()
	return !behind && o.enqueue(message) == nil
}

// write empties the queue.
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

// next takes a message from the queue; nil: there is none, and writing has ended.
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

// close writes nothing any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endWith(errGone)
}

// endWith needs o.mu.
func (o *outbox) endWith(why error) {
	if o.endErr == nil {
		o.endErr = why
		o.countQueued(-o.bytes)
	}
	o.queue = nil
}

// countQueued notes that more bytes wait, or fewer. It needs o.mu.
func (o *outbox) countQueued(more int) {
	o.bytes += more
	o.rank.Add(int64(more))
}

// hasOverrun reports whether the client was cut off since it does not read.
func (o *outbox) hasOverrun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.endErr == errOverrun
}
