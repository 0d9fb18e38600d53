package pmix

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxQueued is how many bytes may wait for a client that does not read (PMIX-24).
const maxQueued = 64 << 20

// errOverrun is the end of a client that asks and does not read the answers.
var errOverrun = fmt.Errorf("it does not read: %d MiB of answers wait for it", maxQueued>>20)

// errGone is the answer to who writes to a client that has gone.
var errGone = errors.New("the client has gone")

// An outbox writes the messages to one client, in the order in which they were put. Who puts one
// never waits for the client, and there is no goroutine but while something is to be written.
type outbox struct {
	conn io.WriteCloser

	mu      sync.Mutex // guards what follows
	queue   [][]byte   // not yet given to conn
	bytes   int        // not yet written
	writing bool
	over    error // why nothing is written any more
}

// put adds a message, which is the outbox's from now on. errOverrun says that too much waits; then
// the connection is closed.
func (o *outbox) put(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.over != nil:
		return o.over
	case o.bytes+len(message) > maxQueued:
		o.end(errOverrun)
		o.conn.Close()
		return errOverrun
	}
	o.queue = append(o.queue, message)
	o.bytes += len(message)
	if !o.writing {
		o.writing = true
		go o.write()
	}
	return nil
}

// putUnless is put unless so many bytes wait already; then, or when it is over, nothing is put.
func (o *outbox) putUnless(bytes int, message []byte) bool {
	o.mu.Lock()
	behind := o.bytes > bytes
	o.mu.Unlock()
	return !behind && o.put(message) == nil
}

// write empties the queue.
func (o *outbox) write() {
	for {
		message := o.next()
		if message == nil {
			return
		}
		_, err := o.conn.Write(message)
		o.written(len(message), err)
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

func (o *outbox) written(bytes int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= bytes
	if err != nil {
		o.end(errGone)
	}
}

// close writes nothing any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end(errGone)
}

// end needs o.mu.
func (o *outbox) end(why error) {
	if o.over == nil {
		o.over = why
	}
	o.queue = nil
}

// overran reports whether the client was cut off since it does not read.
func (o *outbox) overran() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over == errOverrun
}
