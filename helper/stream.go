//go:build linux

package helper

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/pipe"
	"remshell/wire"
)

// A source carries one output stream of a rank to mpiexec, never more than
// a window of bytes ahead of the credit it was given. A rank that writes faster
// than somebody reads thus waits in its own write, and nobody else does.
type source struct {
	rank.Reader
	number int // of the rank
	stream wire.Stream
	send   func(wire.Message) error
	limit  int        // of the next read; belongs to run
	data   *wire.Data // what it reads
	width  width

	mu      sync.Mutex // guards the next two
	credit  int
	discard bool // nobody listens any more: read and forget
	more    sync.Cond

	owner   chan struct{} // closed when the rank was reaped; nil: nobody waits for that
	drained chan struct{} // closed when the rank's last word was sent, or the pipe ended
	ended   chan struct{} // closed when run returns: the pipe has no writer any more
}

func newSource(number int, stream wire.Stream, file *os.File, window int, send func(wire.Message) error) *source {
	s := &source{Reader: rank.Reader{File: file}, number: number, stream: stream, send: send,
		credit: window, drained: make(chan struct{}), ended: make(chan struct{})}
	s.more.L = &s.mu
	s.Room = func(fd int) []byte {
		// Only what has something to say needs room. With nothing there, this asks for the
		// end, or for what has come in between.
		s.data = wire.NewData(min(max(rank.Unread(fd), 256), s.limit, wire.Window))
		return s.data.Bytes
	}
	return s
}

// grant adds credit.
func (s *source) grant(bytes int) {
	s.mu.Lock()
	s.credit += bytes
	s.mu.Unlock()
	s.more.Signal()
}

// forget lets the rank write on, into nothing.
func (s *source) forget() {
	s.mu.Lock()
	s.discard = true
	s.mu.Unlock()
	s.more.Signal()
}

// OwnerEnded tells that the rank was reaped, once.
func (s *source) OwnerEnded() {
	s.Reader.OwnerEnded()
	if s.owner != nil {
		close(s.owner)
	}
}

// close closes our end. The rank of a terminal, who leads its session, would be hung up by that: he may have closed his
// streams before he exits.
func (s *source) close() {
	if s.owner != nil {
		<-s.owner
	}
	s.File.Close()
}

// run reads until the pipe ends. It closes drained at the latest then.
func (s *source) run() {
	defer close(s.ended)
	defer s.width.giveBack()
	defer s.close()
	told := false
	tell := func() {
		if !told {
			told = true
			close(s.drained)
		}
	}
	defer tell()
	for {
		allowed, discard := s.wait()
		data, err := s.read(allowed, !told)
		switch {
		case err == rank.ErrIdle:
			tell()
		case data == nil:
			return
		case discard:
			data.Release()
		default:
			s.spend(len(data.Bytes))
			s.width.passed(s.File, len(data.Bytes))
			data.Rank, data.Stream = s.number, s.stream
			s.send(data)
		}
		if s.SaidAll() {
			tell()
		}
	}
}

// read waits for what there is to read, up to limit bytes. It is nil at the end.
func (s *source) read(limit int, tellIdle bool) (data *wire.Data, err error) {
	s.limit = limit
	n, err := s.ReadOnce(tellIdle)
	data, s.data = s.data, nil
	if n <= 0 {
		return nil, err
	}
	data.Bytes = data.Bytes[:n]
	return data, err
}

// wait returns how many bytes may be read now, at least one.
func (s *source) wait() (allowed int, discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit <= 0 && !s.discard {
		s.more.Wait()
	}
	if s.discard {
		return wire.Window, true
	}
	return s.credit, false
}

func (s *source) spend(bytes int) {
	s.mu.Lock()
	s.credit -= bytes
	s.mu.Unlock()
}

// A width is how much the pipe of a source is to hold once much flows through it, so that a rank that writes much is
// not stopped by each piece: as much as may be under way of it. It belongs to run.
type width struct {
	pool   *pipe.Pool // nil: pipes stay as they are
	wanted int        // bytes; 0: it has been asked for
	flowed int        // bytes, until then
	taken  int        // of the pool
}

// Bytes that widen pipes, and that they hold in all.
const (
	flowsFrom = 4 * pipe.Ordinary
	widthAll  = 8 << 20 // the kernel lets a user have 64 MiB in all his pipes
)

// passed notes that so many bytes have come through a pipe.
func (w *width) passed(file *os.File, bytes int) {
	if w.pool == nil || w.wanted <= pipe.Ordinary {
		return
	}
	if w.flowed += bytes; w.flowed >= flowsFrom {
		w.taken, w.wanted = w.pool.Widen(file, w.wanted), 0
	}
}

// giveBack leaves to others what the pipe was given.
func (w *width) giveBack() {
	if w.taken > 0 {
		w.pool.Give(w.taken)
	}
}

// A stdinWriter carries Data from mpiexec to the stdin of one rank. It takes what comes
// from the moment the rank is planned, and passes it on when the rank runs.
type stdinWriter struct {
	last string // what a terminal takes for the end; empty: closing it is the end
	rank int
	send func(wire.Message) error

	written int64         // bytes; belongs to run until over is closed, as the next does
	left    int           // a read end of the pipe, where ours was closed with all written; -1: there is none
	unread  int64         // bytes in the pipe when the rank read no more
	over    chan struct{} // closed when run returns

	mu    sync.Mutex   // guards the rest
	file  *os.File     // our end of the pipe; nil: the rank does not run yet
	queue []*wire.Data // bounded by the credit mpiexec has
	ended bool         // no more will come
	more  sync.Cond
}

func newStdinWriter(rank int, send func(wire.Message) error) *stdinWriter {
	s := &stdinWriter{rank: rank, send: send, left: -1, over: make(chan struct{})}
	s.more.L = &s.mu
	return s
}

// push takes a piece; an empty one is the end of the stream.
func (s *stdinWriter) push(piece *wire.Data) {
	s.mu.Lock()
	if piece.Len() == 0 {
		s.ended = true
	} else if !s.ended {
		s.queue = append(s.queue, piece)
	}
	s.mu.Unlock()
	s.more.Signal()
}

// run writes to file what is pushed until the end of the stream, or until the rank
// reads no more, which it tells mpiexec.
func (s *stdinWriter) run(file *os.File) {
	defer close(s.over)
	defer file.Close()
	s.mu.Lock()
	s.file = file
	s.mu.Unlock()
	for {
		piece := s.next()
		if piece == nil {
			file.WriteString(s.last)
			if s.last == "" {
				s.left, _ = rank.ReadEnd(file)
			}
			return
		}
		n, err := piece.Pour(file)
		s.written += int64(n)
		if err != nil {
			s.unread = unreadIn(file)
			s.push(&wire.Data{})
			s.send(&wire.Data{Rank: s.rank, Stream: wire.Stdin})
			return
		}
		s.send(&wire.Credit{Rank: s.rank, Stream: wire.Stdin, Bytes: n})
	}
}

// unreadIn is how many bytes are in a pipe.
func unreadIn(file *os.File) (n int64) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { n = int64(rank.Unread(int(fd))) })
	}
	return n
}

// consumed returns, once, how many bytes a rank that is over has read of its input; -1: that is not known.
func (s *stdinWriter) consumed() int64 {
	select {
	case <-s.over:
	default:
		return -1
	}
	switch {
	case s.last != "":
		return -1 // a terminal does not tell
	case s.left >= 0:
		s.unread = int64(rank.Unread(s.left))
		unix.Close(s.left)
	}
	return max(0, s.written-s.unread)
}

// next waits for a piece; it is nil at the end of the stream.
func (s *stdinWriter) next() *wire.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.ended {
		s.more.Wait()
	}
	if len(s.queue) == 0 {
		return nil
	}
	piece := s.queue[0]
	s.queue = s.queue[1:]
	return piece
}

// close ends the stream at once: a rank that is gone reads nothing more.
func (s *stdinWriter) close() {
	s.push(&wire.Data{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	if s.file != nil {
		s.file.SetWriteDeadline(time.Unix(1, 0))
	}
}
