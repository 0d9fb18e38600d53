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

// An outputStream carries one output stream of a rank to mpiexec, never more than
// a window of bytes ahead of the credit it was given. A rank that writes faster
// than somebody reads thus waits in its own write, and nobody else does.
type outputStream struct {
	rank.PipeReader
	number    int // of the rank
	stream    wire.Stream
	send      func(wire.Message) error
	readLimit int        // of the next read; belongs to run
	data      *wire.Data // what it reads
	pipeSize  pipeGrowth

	mu          sync.Mutex // guards the next two
	credit      int
	discard     bool // nobody listens any more: read and forget
	creditAdded sync.Cond

	reaped  chan struct{} // closed when the rank was reaped; nil: nobody waits for that
	drained chan struct{} // closed when the rank's last word was sent, or the pipe ended
	ended   chan struct{} // closed when run returns: the pipe has no writer any more
}

func newOutputStream(number int, stream wire.Stream, file *os.File, window int, send func(wire.Message) error) *outputStream {
	s := &outputStream{PipeReader: rank.PipeReader{File: file}, number: number, stream: stream, send: send,
		credit: window, drained: make(chan struct{}), ended: make(chan struct{})}
	s.creditAdded.L = &s.mu
	s.Buffer = func(fd int) []byte {
		// Only what has something to say needs room. With nothing there, this asks for the
		// end, or for what has come in between.
		s.data = wire.NewData(min(max(rank.BytesAvailable(fd), 256), s.readLimit, wire.Window))
		return s.data.Bytes
	}
	return s
}

// addCredit adds credit.
func (s *outputStream) addCredit(bytes int) {
	s.mu.Lock()
	s.credit += bytes
	s.mu.Unlock()
	s.creditAdded.Signal()
}

// discardRest lets the rank write on, into nothing.
func (s *outputStream) discardRest() {
	s.mu.Lock()
	s.discard = true
	s.mu.Unlock()
	s.creditAdded.Signal()
}

// RankExited tells that the rank was reaped, once.
func (s *outputStream) RankExited() {
	s.PipeReader.RankExited()
	if s.reaped != nil {
		close(s.reaped)
	}
}

// close closes our end. The rank of a terminal, who leads its session, would be hung up by that: he may have closed his
// streams before he exits.
func (s *outputStream) close() {
	if s.reaped != nil {
		<-s.reaped
	}
	s.File.Close()
}

// run reads until the pipe ends. It closes drained at the latest then.
func (s *outputStream) run() {
	defer close(s.ended)
	defer s.pipeSize.releaseSize()
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
		allowed, discard := s.awaitCredit()
		data, err := s.readData(allowed, !told)
		switch {
		case err == rank.ErrDrained:
			tell()
		case data == nil:
			return
		case discard:
			data.Release()
		default:
			s.useCredit(len(data.Bytes))
			s.pipeSize.countPassed(s.File, len(data.Bytes))
			data.Rank, data.Stream = s.number, s.stream
			s.send(data)
		}
		if s.IsDrained() {
			tell()
		}
	}
}

// readData waits for what there is to read, up to limit bytes. It is nil at the end.
func (s *outputStream) readData(limit int, tellIdle bool) (data *wire.Data, err error) {
	s.readLimit = limit
	n, err := s.ReadOnce(tellIdle)
	data, s.data = s.data, nil
	if n <= 0 {
		return nil, err
	}
	data.Bytes = data.Bytes[:n]
	return data, err
}

// awaitCredit returns how many bytes may be read now, at least one.
func (s *outputStream) awaitCredit() (allowed int, discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit <= 0 && !s.discard {
		s.creditAdded.Wait()
	}
	if s.discard {
		return wire.Window, true
	}
	return s.credit, false
}

func (s *outputStream) useCredit(bytes int) {
	s.mu.Lock()
	s.credit -= bytes
	s.mu.Unlock()
}

// A pipeGrowth is how much the pipe of a source is to hold once much flows through it, so that a rank that writes much is
// not stopped by each piece: as much as may be under way of it. It belongs to run.
type pipeGrowth struct {
	pool        *pipe.SizePool // nil: pipes stay as they are
	wanted      int            // bytes; 0: it has been asked for
	passedBytes int            // bytes, until then
	taken       int            // of the pool
}

// Bytes that widen pipes, and that they hold in all.
const (
	growAfter      = 4 * pipe.DefaultSize
	maxGrowthTotal = 8 << 20 // the kernel lets a user have 64 MiB in all his pipes
)

// countPassed notes that so many bytes have come through a pipe.
func (w *pipeGrowth) countPassed(file *os.File, bytes int) {
	if w.pool == nil || w.wanted <= pipe.DefaultSize {
		return
	}
	if w.passedBytes += bytes; w.passedBytes >= growAfter {
		w.taken, w.wanted = w.pool.GrowPipe(file, w.wanted), 0
	}
}

// releaseSize leaves to others what the pipe was given.
func (w *pipeGrowth) releaseSize() {
	if w.taken > 0 {
		w.pool.GiveBack(w.taken)
	}
}

// A stdinWriter carries Data from mpiexec to the stdin of one rank. It takes what comes
// from the moment the rank is planned, and passes it on when the rank runs.
type stdinWriter struct {
	eofText string // what a terminal takes for the end; empty: closing it is the end
	rank    int
	send    func(wire.Message) error

	written int64         // bytes; belongs to run until over is closed, as the next does
	readEnd int           // a read end of the pipe, where ours was closed with all written; -1: there is none
	unread  int64         // bytes in the pipe when the rank read no more
	done    chan struct{} // closed when run returns

	mu         sync.Mutex   // guards the rest
	file       *os.File     // our end of the pipe; nil: the rank does not run yet
	queue      []*wire.Data // bounded by the credit mpiexec has
	ended      bool         // no more will come
	pieceAdded sync.Cond
}

func newStdinWriter(rank int, send func(wire.Message) error) *stdinWriter {
	s := &stdinWriter{rank: rank, send: send, readEnd: -1, done: make(chan struct{})}
	s.pieceAdded.L = &s.mu
	return s
}

// addPiece takes a piece; an empty one is the end of the stream.
func (s *stdinWriter) addPiece(piece *wire.Data) {
	s.mu.Lock()
	if piece.Len() == 0 {
		s.ended = true
	} else if !s.ended {
		s.queue = append(s.queue, piece)
	}
	s.mu.Unlock()
	s.pieceAdded.Signal()
}

// run writes to file what is pushed until the end of the stream, or until the rank
// reads no more, which it tells mpiexec.
func (s *stdinWriter) run(file *os.File) {
	defer close(s.done)
	defer file.Close()
	s.mu.Lock()
	s.file = file
	s.mu.Unlock()
	for {
		piece := s.nextPiece()
		if piece == nil {
			file.WriteString(s.eofText)
			if s.eofText == "" {
				s.readEnd, _ = rank.OpenReadEnd(file)
			}
			return
		}
		n, err := piece.WriteToFile(file)
		s.written += int64(n)
		if err != nil {
			s.unread = unreadIn(file)
			s.addPiece(&wire.Data{})
			s.send(&wire.Data{Rank: s.rank, Stream: wire.Stdin})
			return
		}
		s.send(&wire.Credit{Rank: s.rank, Stream: wire.Stdin, Bytes: n})
	}
}

// unreadIn is how many bytes are in a pipe.
func unreadIn(file *os.File) (n int64) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { n = int64(rank.BytesAvailable(int(fd))) })
	}
	return n
}

// consumedBytes returns, once, how many bytes a rank that is over has read of its input; -1: that is not known.
func (s *stdinWriter) consumedBytes() int64 {
	select {
	case <-s.done:
	default:
		return -1
	}
	switch {
	case s.eofText != "":
		return -1 // a terminal does not tell
	case s.readEnd >= 0:
		s.unread = int64(rank.BytesAvailable(s.readEnd))
		unix.Close(s.readEnd)
	}
	return max(0, s.written-s.unread)
}

// nextPiece waits for a piece; it is nil at the end of the stream.
func (s *stdinWriter) nextPiece() *wire.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.ended {
		s.pieceAdded.Wait()
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
	s.addPiece(&wire.Data{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	if s.file != nil {
		s.file.SetWriteDeadline(time.Unix(1, 0))
	}
}
