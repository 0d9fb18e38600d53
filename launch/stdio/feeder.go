package stdio

import (
	"io"
	"os"
	"slices"
	"sync"

	"remshell/wire"
)

// A stdinFeeder reads mpiexec's standard input and sends it to some ranks. It reads only as much as the
// slowest of these ranks can accept, and leaves the rest in the input (rules IO-2, IO-4).
type stdinFeeder struct {
	in io.Reader

	ended chan struct{} // closed when run returns; nil: run was not called

	mu         sync.Mutex // guards the fields below
	readers    []StdinReader
	closed     bool
	changed    sync.Cond
	bytesTaken int64        // bytes read from in
	bytesRead  int64        // bytes of these that were read by the rank that has read most
	uncertain  map[int]bool // ranks that may have read more: they run, or their count is not known
}

// A StdinReader is a rank that receives mpiexec's standard input.
type StdinReader struct {
	Rank      int
	Node      int    // index of its node; ranks of one node must be adjacent
	To        Sender // sends to its helper
	InProcess bool   // its helper runs inside this process
	unread    int    // bytes sent to it that it has not read
}

// An inputSource reads mpiexec's standard input and sends it to the ranks.
type inputSource interface {
	// limits returns the maximum number of bytes that may be in flight to a reader, and the minimum credit that is
	// needed for a read.
	limits() (maxBytes, minCredit int)
	readAndSend(allowed int) error
}

func newStdinFeeder(in io.Reader) *stdinFeeder {
	f := &stdinFeeder{in: in}
	f.changed.L = &f.mu
	return f
}

// setReaders sets the ranks that receive the input.
func (f *stdinFeeder) setReaders(readers []StdinReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers, f.uncertain = readers, make(map[int]bool)
	for _, r := range readers {
		f.uncertain[r.Rank] = true
	}
}

// run reads until the input ends or no rank reads any more. If the input fails before its end, run calls the function
// failed. If a read blocks, run does not return at the end of the job, but remains blocked until mpiexec exits.
func (f *stdinFeeder) run(failed func(error)) {
	defer close(f.ended)
	from, done := f.chooseSource()
	defer done()
	f.feedFrom(from, failed)
}

// feedFrom reads from one source until the input ends. If the source returns errNoSplice, it continues with a
// copySource.
func (f *stdinFeeder) feedFrom(source inputSource, failed func(error)) {
	for {
		allowed := f.waitForCredit(source.limits())
		if allowed == 0 {
			return
		}
		err := source.readAndSend(allowed)
		switch {
		case err == nil:
		case err == errNoSplice:
			source = f.newCopySource()
		case err != io.EOF && f.hasReaders():
			failed(err) // no rank may take the failure for the end of its input and succeed
			return
		default:
			f.sendToAll(nil)
			return
		}
	}
}

// chooseSource returns a spliceSource if the input can be spliced (moved without copying), and a copySource
// otherwise. The caller must call done to free the source.
func (f *stdinFeeder) chooseSource() (source inputSource, done func()) {
	if p := f.newSpliceSource(); p != nil {
		return p, p.close
	}
	return f.newCopySource(), func() {}
}

func (f *stdinFeeder) newCopySource() inputSource { return &copySource{f, make([]byte, wire.Window)} }

// activeReaders returns the ranks that still read the input.
func (f *stdinFeeder) activeReaders() []StdinReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.readers)
}

// A copySource reads input of any kind, not only from pipes, and sends copies of it to ranks on any node.
type copySource struct {
	f   *stdinFeeder
	buf []byte
}

func (c *copySource) limits() (maxBytes, minCredit int) { return len(c.buf), 1 }

func (c *copySource) readAndSend(allowed int) error {
	n, err := c.f.in.Read(c.buf[:allowed])
	if n > 0 {
		c.f.sendToAll(c.buf[:n])
	}
	return err
}

// hasReaders reports whether any rank still reads the input.
func (f *stdinFeeder) hasReaders() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && len(f.readers) > 0
}

// waitForCredit waits until all ranks can accept minCredit bytes, and returns how many bytes may be read. It keeps
// the bytes in flight to each rank within maxBytes. It returns 0 if no rank reads any more.
func (f *stdinFeeder) waitForCredit(maxBytes, minCredit int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.closed || len(f.readers) == 0 {
			return 0
		}
		unread := 0
		for _, r := range f.readers {
			unread = max(unread, r.unread)
		}
		if maxBytes-unread >= minCredit {
			return maxBytes - unread
		}
		f.changed.Wait()
	}
}

// sendToAll sends a piece of input to all ranks that still read. It sends the piece only once to each node.
// An empty piece means end of file.
func (f *stdinFeeder) sendToAll(piece []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytesTaken += int64(len(piece))
	for i := range f.readers {
		f.readers[i].unread += len(piece)
	}
	for rest := f.readers; len(rest) > 0; {
		count := readersOnFirstNode(rest)
		rest[0].To(stdinMessage(rest[:count], piece))
		rest = rest[count:]
	}
}

// readersOnFirstNode returns how many elements at the start of readers are on the same node as the first one.
func readersOnFirstNode(readers []StdinReader) int {
	end := slices.IndexFunc(readers, func(r StdinReader) bool { return r.Node != readers[0].Node })
	if end < 0 {
		return len(readers)
	}
	return end
}

// stdinMessage returns the message that sends a piece of input to readers on one node.
func stdinMessage(readers []StdinReader, piece []byte) wire.Message {
	if len(readers) == 1 {
		return &wire.Data{Rank: readers[0].Rank, Stream: wire.Stdin, Bytes: piece}
	}
	ranks := make([]int, len(readers))
	for i, r := range readers {
		ranks[i] = r.Rank
	}
	return &wire.StdinBroadcast{Ranks: ranks, Bytes: piece}
}

// addCredit records that a rank has read n bytes of the input.
func (f *stdinFeeder) addCredit(rank, n int) {
	f.changeLocked(func() {
		for i := range f.readers {
			if r := &f.readers[i]; r.Rank == rank {
				r.unread -= n
			}
		}
	})
}

// dropReader removes a rank that has closed its stdin or has ended. Bytes that were sent to the rank but not read are
// lost, which is not an error (rule IO-3).
func (f *stdinFeeder) dropReader(rank int) {
	f.changeLocked(func() {
		f.readers = slices.DeleteFunc(f.readers, func(r StdinReader) bool { return r.Rank == rank })
	})
}

// rankEnded records that a rank has ended. read is the number of bytes that the rank has read, or negative if
// that is unknown.
func (f *stdinFeeder) rankEnded(rank int, read int64) {
	f.dropReader(rank)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uncertain[rank] && read >= 0 {
		delete(f.uncertain, rank)
		f.bytesRead = max(f.bytesRead, min(read, f.bytesTaken))
	}
}

// seekBack stops reading. If the input is a file, it seeks back to the bytes that no rank has read (POSIX, XCU 1.4,
// INPUT FILES). The next program that uses the same input then finds them. If the input is not a file and no rank has
// read anything, seekBack returns how many bytes are lost. In all other cases it returns 0.
func (f *stdinFeeder) seekBack() (lost int64) {
	f.close()
	file := f.file()
	if file != nil && f.ended != nil {
		<-f.ended // a read of a file does not block for long
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.bytesTaken - f.bytesRead
	if rest == 0 || len(f.uncertain) > 0 {
		return 0
	}
	if file != nil {
		if _, err := file.Seek(-rest, io.SeekCurrent); err == nil {
			return 0
		}
	}
	if f.bytesRead > 0 {
		return 0
	}
	return rest
}

// file returns the input if it is a regular file, and nil otherwise.
func (f *stdinFeeder) file() *os.File {
	if file, ok := f.in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return nil
}

// close stops reading.
func (f *stdinFeeder) close() { f.changeLocked(func() { f.closed = true }) }

func (f *stdinFeeder) changeLocked(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	f.changed.Signal()
}
