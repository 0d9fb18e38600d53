package stdio

import (
	"io"
	"os"
	"slices"
	"sync"

	"remshell/wire"
)

// A stdinFeeder reads our standard input for some ranks, and never more ahead than the
// slowest of them has asked for: the rest stays where it is (IO-2, IO-4).
type stdinFeeder struct {
	in io.Reader

	ended chan struct{} // closed when run returns; nil: it was not called

	mu         sync.Mutex // guards the rest
	readers    []StdinReader
	closed     bool
	changed    sync.Cond
	bytesTaken int64        // bytes that were read
	bytesRead  int64        // bytes of those that were read by the rank that has read most
	uncertain  map[int]bool // ranks that may have read more: they run, or nobody has told
}

// A StdinReader is a rank that gets our standard input.
type StdinReader struct {
	Rank      int
	Node      int    // where it is, as its launch counts: those of one node follow each other
	To        Sender // to its helper
	InProcess bool   // where that is
	unread    int    // bytes that it was sent and has not read
}

// An inputSource reads up to so many bytes of our standard input, and sends them on.
type inputSource interface {
	// limits are how many bytes may be under way to a reader at most, and how many more at least
	// before any are read.
	limits() (most, least int)
	readAndSend(allowed int) error
}

func newStdinFeeder(in io.Reader) *stdinFeeder {
	f := &stdinFeeder{in: in}
	f.changed.L = &f.mu
	return f
}

// addReaders lets ranks read.
func (f *stdinFeeder) addReaders(readers []StdinReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers, f.uncertain = readers, make(map[int]bool)
	for _, r := range readers {
		f.uncertain[r.Rank] = true
	}
}

// run reads until the input ends or nobody wants it. A read that is under way when the
// job ends stays so until the program leaves. failed is told why there is no more to read,
// unless it is the end.
func (f *stdinFeeder) run(failed func(error)) {
	defer close(f.ended)
	from, done := f.chooseSource()
	defer done()
	f.feedFrom(from, failed)
}

// feedFrom is run from one intake, or from where it says that another one is needed.
func (f *stdinFeeder) feedFrom(from inputSource, failed func(error)) {
	for {
		allowed := f.waitForCredit(from.limits())
		if allowed == 0 {
			return
		}
		err := from.readAndSend(allowed)
		switch {
		case err == nil:
		case err == errNoSplice:
			from = f.newCopySource()
		case err != io.EOF && f.hasReaders():
			failed(err) // no rank may take it for the end of its input, and end well
			return
		default:
			f.sendToAll(nil)
			return
		}
	}
}

// chooseSource is how our input gets to its readers: without being copied, if it can.
func (f *stdinFeeder) chooseSource() (from inputSource, done func()) {
	if p := f.newSpliceSource(); p != nil {
		return p, p.close
	}
	return f.newCopySource(), func() {}
}

func (f *stdinFeeder) newCopySource() inputSource { return &copySource{f, make([]byte, wire.Window)} }

// activeReaders are those who still read.
func (f *stdinFeeder) activeReaders() []StdinReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.readers)
}

// copySource is the intake of any input, for readers that may be anywhere.
type copySource struct {
	f   *stdinFeeder
	buf []byte
}

func (c *copySource) limits() (most, least int) { return len(c.buf), 1 }

func (c *copySource) readAndSend(allowed int) error {
	n, err := c.f.in.Read(c.buf[:allowed])
	if n > 0 {
		c.f.sendToAll(c.buf[:n])
	}
	return err
}

// hasReaders reports whether any rank still reads.
func (f *stdinFeeder) hasReaders() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && len(f.readers) > 0
}

// waitForCredit returns how many bytes may be read, of most that may be under way to each reader: as soon
// as they are at least so many, or 0 when nobody wants more.
func (f *stdinFeeder) waitForCredit(most, least int) int {
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
		if most-unread >= least {
			return most - unread
		}
		f.changed.Wait()
	}
}

// sendToAll passes a piece on to all who still read, once to each node; an empty one is the end.
func (f *stdinFeeder) sendToAll(piece []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytesTaken += int64(len(piece))
	for i := range f.readers {
		f.readers[i].unread += len(piece)
	}
	for rest := f.readers; len(rest) > 0; {
		together := readersOnFirstNode(rest)
		rest[0].To(stdinMessage(rest[:together], piece))
		rest = rest[together:]
	}
}

// readersOnFirstNode is how many readers, from the first on, are on the node of the first.
func readersOnFirstNode(readers []StdinReader) int {
	other := slices.IndexFunc(readers, func(r StdinReader) bool { return r.Node != readers[0].Node })
	if other < 0 {
		return len(readers)
	}
	return other
}

// stdinMessage is the message that gives readers of one node a piece.
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

// addCredit notes that a rank has read.
func (f *stdinFeeder) addCredit(rank, n int) {
	f.changeLocked(func() {
		for i := range f.readers {
			if r := &f.readers[i]; r.Rank == rank {
				r.unread -= n
			}
		}
	})
}

// dropReader notes that a rank reads no more: it has closed its input, or is over. What it has
// not read is lost without an error (IO-3).
func (f *stdinFeeder) dropReader(rank int) {
	f.changeLocked(func() {
		f.readers = slices.DeleteFunc(f.readers, func(r StdinReader) bool { return r.Rank == rank })
	})
}

// rankEnded notes that a rank is over, which has read so many bytes; below 0: that is not known.
func (f *stdinFeeder) rankEnded(rank int, read int64) {
	f.dropReader(rank)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uncertain[rank] && read >= 0 {
		delete(f.uncertain, rank)
		f.bytesRead = max(f.bytesRead, min(read, f.bytesTaken))
	}
}

// seekBack ends the feeding, and seeks our input back over what no rank has read, if it is a file: whatever reads it
// next finds that there, as behind every program that reads a part of its input (POSIX, XCU 1.4, INPUT FILES). It returns
// how many bytes are lost, if no rank has read anything at all.
func (f *stdinFeeder) seekBack() (lost int64) {
	f.close()
	file := f.file()
	if file != nil && f.ended != nil {
		<-f.ended // it may be reading, which waits for nobody
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

// file is our input, if that is a file in which one can seek.
func (f *stdinFeeder) file() *os.File {
	if file, ok := f.in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return nil
}

// close ends the feeding.
func (f *stdinFeeder) close() { f.changeLocked(func() { f.closed = true }) }

func (f *stdinFeeder) changeLocked(what func()) {
	f.mu.Lock()
	what()
	f.mu.Unlock()
	f.changed.Signal()
}
