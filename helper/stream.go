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

/*
An outputStream carries one output stream of a rank to mpiexec. It sends no more bytes than its credit allows. So a
rank that writes too fast waits in its own write(2), and delays no other rank. The path of its bytes, by
goroutine:

	the rank     write(2) to a pipe
	this stream  outputStream.run: PipeReader.ReadOnce, then wire.Conn.Send of a wire.Data; the session takes no part
	the Conn     runWriter: to the helper's stdout, and so through sshd or a pipe to mpiexec
	the node     node.Listener.Listen: Validator.CheckMessage, Job.streamHandler, stdio.Streams.HandleData
	the printer  stdio.Printer.run: handleItem adds whole lines with labels to a buffer, writeDue writes it
	             giveCredit: wire.Credit back to this stream (Session.addCredit)
*/
type outputStream struct {
	rank.PipeReader
	number    int // the rank's number in the job
	stream    wire.Stream
	send      func(wire.Message) error
	readLimit int        // bytes; owned by run
	data      *wire.Data // what the next read fills; owned by run
	pipeSize  pipeGrowth

	mu          sync.Mutex // guards credit and discard
	credit      int
	discard     bool // mpiexec does not need the output any more: read and drop it
	creditAdded sync.Cond

	reaped  chan struct{} // closed when the rank was reaped; nil: not a terminal
	drained chan struct{} // closed when all that the rank wrote was sent, or the pipe ended
	ended   chan struct{} // closed when run returns: the pipe has no writer any more
}

func newOutputStream(number int, stream wire.Stream, file *os.File, window int, send func(wire.Message) error) *outputStream {
	s := &outputStream{PipeReader: rank.PipeReader{File: file}, number: number, stream: stream, send: send,
		credit: window, drained: make(chan struct{}), ended: make(chan struct{})}
	s.creditAdded.L = &s.mu
	s.Buffer = func(fd int) []byte {
		// Only a pipe with data needs a large buffer. If there is none, this read finds the end of the pipe, or what
		// has arrived in between.
		s.data = wire.NewData(min(max(rank.BytesAvailable(fd), 256), s.readLimit, wire.Window))
		return s.data.Bytes
	}
	return s
}

// addCredit allows the stream to send the given number of bytes in addition to those allowed before.
func (s *outputStream) addCredit(bytes int) {
	s.mu.Lock()
	s.credit += bytes
	s.mu.Unlock()
	s.creditAdded.Signal()
}

// discardRest makes the stream drop all further output. The rank can continue to write.
func (s *outputStream) discardRest() {
	s.mu.Lock()
	s.discard = true
	s.mu.Unlock()
	s.creditAdded.Signal()
}

// RankExited tells the stream that the rank has ended. It is called only once.
func (s *outputStream) RankExited() {
	s.PipeReader.RankExited()
	if s.reaped != nil {
		close(s.reaped)
	}
}

// close closes the helper's end of the stream. If the stream is a terminal, close first waits until the rank
// has ended: closing a terminal sends SIGHUP to the leader of its session, the rank.
func (s *outputStream) close() {
	if s.reaped != nil {
		<-s.reaped
	}
	s.File.Close()
}

// run sends the rank's output to mpiexec until the pipe ends. It closes drained when everything that the rank wrote is
// sent, at the latest when it returns.
func (s *outputStream) run() {
	defer close(s.ended)
	defer s.pipeSize.releaseSize()
	defer s.close()
	isDrained := false
	markDrained := func() {
		if !isDrained {
			isDrained = true
			close(s.drained)
		}
	}
	defer markDrained()
	for {
		allowed, discard := s.awaitCredit()
		data, err := s.readData(allowed, !isDrained)
		switch {
		case err == rank.ErrDrained:
			markDrained()
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
			markDrained()
		}
	}
}

// readData waits for output of the rank and reads up to limit bytes of it. data is nil at the end of the pipe, and if
// err is ErrDrained. PipeReader.ReadOnce describes reportDrained.
func (s *outputStream) readData(limit int, reportDrained bool) (data *wire.Data, err error) {
	s.readLimit = limit
	n, err := s.ReadOnce(reportDrained)
	data, s.data = s.data, nil
	if n <= 0 {
		return nil, err
	}
	data.Bytes = data.Bytes[:n]
	return data, err
}

// awaitCredit waits until mpiexec allows more output. It returns how many bytes may be read, at least one.
// discard is true if output is to be dropped.
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

// A pipeGrowth enlarges the pipe of a stream once growAfter bytes have passed through it. A rank that writes
// much output then has to wait less often. Only outputStream.run uses it.
type pipeGrowth struct {
	pool        *pipe.SizePool // nil: pipes keep their size
	wanted      int            // bytes; 0: the pipe was enlarged already
	passedBytes int            // bytes counted so far
	taken       int            // bytes taken from pool
}

// growAfter is the number of bytes after which a pipe is enlarged. maxGrowthTotal limits the growth of all pipes
// together, in bytes.
const (
	growAfter      = 4 * pipe.DefaultSize
	maxGrowthTotal = 8 << 20 // the kernel lets one user have 64 MiB in all pipes
)

// countPassed counts bytes that have passed through a pipe, and enlarges the pipe when their sum reaches growAfter.
func (w *pipeGrowth) countPassed(file *os.File, bytes int) {
	if w.pool == nil || w.wanted <= pipe.DefaultSize {
		return
	}
	if w.passedBytes += bytes; w.passedBytes >= growAfter {
		w.taken, w.wanted = w.pool.GrowPipe(file, w.wanted), 0
	}
}

// releaseSize gives the bytes by which the pipe was enlarged back to the pool, so that other pipes can grow.
func (w *pipeGrowth) releaseSize() {
	if w.taken > 0 {
		w.pool.GiveBack(w.taken)
	}
}

// A stdinWriter writes input from mpiexec to the stdin of one rank. It accepts data before the rank is running, and
// writes the data once the rank is running.
type stdinWriter struct {
	eofText string // written to a terminal at the end of input; empty: the pipe is closed instead
	rank    int
	send    func(wire.Message) error

	written int64         // bytes; like readEnd and unread, owned by run until done is closed
	readEnd int           // a read end of the pipe, kept to count unread bytes after all was written; -1: none
	unread  int64         // bytes left in the pipe when the rank stopped reading
	done    chan struct{} // closed when run returns

	mu         sync.Mutex   // guards the fields below
	file       *os.File     // our end of the pipe; nil: the rank does not run yet
	queue      []*wire.Data // bounded by mpiexec's credit
	ended      bool         // no more will come
	pieceAdded sync.Cond
}

func newStdinWriter(rank int, send func(wire.Message) error) *stdinWriter {
	s := &stdinWriter{rank: rank, send: send, readEnd: -1, done: make(chan struct{})}
	s.pieceAdded.L = &s.mu
	return s
}

// addPiece queues a piece of input. An empty piece ends the stream.
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

// run writes the queued pieces to file until the stream ends. If the rank stops reading, run reports that
// to mpiexec and returns.
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
			s.unread = countUnread(file)
			s.addPiece(&wire.Data{})
			s.send(&wire.Data{Rank: s.rank, Stream: wire.Stdin})
			return
		}
		s.send(&wire.Credit{Rank: s.rank, Stream: wire.Stdin, Bytes: n})
	}
}

// countUnread returns how many bytes a pipe contains.
func countUnread(file *os.File) (n int64) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { n = int64(rank.BytesAvailable(int(fd))) })
	}
	return n
}

// consumedBytes returns how many bytes of its input an ended rank has read, or -1 if that is unknown. It may
// be called only once.
func (s *stdinWriter) consumedBytes() int64 {
	select {
	case <-s.done:
	default:
		return -1
	}
	switch {
	case s.eofText != "":
		return -1 // a terminal does not count
	case s.readEnd >= 0:
		s.unread = int64(rank.BytesAvailable(s.readEnd))
		unix.Close(s.readEnd)
	}
	return max(0, s.written-s.unread)
}

// nextPiece waits for a piece of input and returns it. It returns nil at the end of the stream.
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

// close ends the stream at once and drops queued pieces. It is called when the rank has ended.
func (s *stdinWriter) close() {
	s.addPiece(&wire.Data{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	if s.file != nil {
		s.file.SetWriteDeadline(time.Unix(1, 0))
	}
}
