package stdio

import (
	"io"
	"os"
	"slices"
	"sync"

	"remshell/wire"
)

// A feeder reads our standard input for some ranks, and never more ahead than the
// slowest of them has asked for: the rest stays where it is (IO-2, IO-4).
type feeder struct {
	in io.Reader

	ended chan struct{} // closed when run returns; nil: it was not called

	mu      sync.Mutex // guards the rest
	readers []Reader
	closed  bool
	more    sync.Cond
	taken   int64        // bytes that were read
	read    int64        // bytes of those that were read by the rank that has read most
	unknown map[int]bool // ranks that may have read more: they run, or nobody has told
}

// A Reader is a rank that gets our standard input.
type Reader struct {
	Rank      int
	Node      int  // where it is, as its launch counts: those of one node follow each other
	To        Send // to its helper
	InProcess bool // where that is
	unread    int  // bytes that it was sent and has not read
}

// An intake reads up to so many bytes of our standard input, and sends them on.
type intake interface {
	// bounds are how many bytes may be under way to a reader at most, and how many more at least
	// before any are read.
	bounds() (most, least int)
	take(allowed int) error
}

func newFeeder(in io.Reader) *feeder {
	f := &feeder{in: in}
	f.more.L = &f.mu
	return f
}

// let lets ranks read.
func (f *feeder) let(readers []Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers, f.unknown = readers, make(map[int]bool)
	for _, r := range readers {
		f.unknown[r.Rank] = true
	}
}

// run reads until the input ends or nobody wants it. A read that is under way when the
// job ends stays so until the program leaves. failed is told why there is no more to read,
// unless it is the end.
func (f *feeder) run(failed func(error)) {
	defer close(f.ended)
	from, done := f.intake()
	defer done()
	f.feed(from, failed)
}

// feed is run from one intake, or from where it says that another one is needed.
func (f *feeder) feed(from intake, failed func(error)) {
	for {
		allowed := f.wait(from.bounds())
		if allowed == 0 {
			return
		}
		err := from.take(allowed)
		switch {
		case err == nil:
		case err == errNoPassage:
			from = f.copying()
		case err != io.EOF && f.wanted():
			failed(err) // no rank may take it for the end of its input, and end well
			return
		default:
			f.send(nil)
			return
		}
	}
}

// intake is how our input gets to its readers: without being copied, if it can.
func (f *feeder) intake() (from intake, done func()) {
	if p := f.passage(); p != nil {
		return p, p.close
	}
	return f.copying(), func() {}
}

func (f *feeder) copying() intake { return &copying{f, make([]byte, wire.Window)} }

// reading are those who still read.
func (f *feeder) reading() []Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.readers)
}

// copying is the intake of any input, for readers that may be anywhere.
type copying struct {
	f   *feeder
	buf []byte
}

func (c *copying) bounds() (most, least int) { return len(c.buf), 1 }

func (c *copying) take(allowed int) error {
	n, err := c.f.in.Read(c.buf[:allowed])
	if n > 0 {
		c.f.send(c.buf[:n])
	}
	return err
}

// wanted reports whether any rank still reads.
func (f *feeder) wanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && len(f.readers) > 0
}

// wait returns how many bytes may be read, of most that may be under way to each reader: as soon
// as they are at least so many, or 0 when nobody wants more.
func (f *feeder) wait(most, least int) int {
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
		f.more.Wait()
	}
}

// send passes a piece on to all who still read, once to each node; an empty one is the end.
func (f *feeder) send(piece []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken += int64(len(piece))
	for i := range f.readers {
		f.readers[i].unread += len(piece)
	}
	for rest := f.readers; len(rest) > 0; {
		together := neighbours(rest)
		rest[0].To(forAll(rest[:together], piece))
		rest = rest[together:]
	}
}

// neighbours is how many readers, from the first on, are on the node of the first.
func neighbours(readers []Reader) int {
	other := slices.IndexFunc(readers, func(r Reader) bool { return r.Node != readers[0].Node })
	if other < 0 {
		return len(readers)
	}
	return other
}

// forAll is the message that gives readers of one node a piece.
func forAll(readers []Reader, piece []byte) wire.Message {
	if len(readers) == 1 {
		return &wire.Data{Rank: readers[0].Rank, Stream: wire.Stdin, Bytes: piece}
	}
	ranks := make([]int, len(readers))
	for i, r := range readers {
		ranks[i] = r.Rank
	}
	return &wire.Feed{Ranks: ranks, Bytes: piece}
}

// grant notes that a rank has read.
func (f *feeder) grant(rank, n int) {
	f.change(func() {
		for i := range f.readers {
			if r := &f.readers[i]; r.Rank == rank {
				r.unread -= n
			}
		}
	})
}

// drop notes that a rank reads no more: it has closed its input, or is over. What it has
// not read is lost without an error (IO-3).
func (f *feeder) drop(rank int) {
	f.change(func() {
		f.readers = slices.DeleteFunc(f.readers, func(r Reader) bool { return r.Rank == rank })
	})
}

// over notes that a rank is over, which has read so many bytes; below 0: that is not known.
func (f *feeder) over(rank int, read int64) {
	f.drop(rank)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknown[rank] && read >= 0 {
		delete(f.unknown, rank)
		f.read = max(f.read, min(read, f.taken))
	}
}

// giveBack ends the feeding, and seeks our input back over what no rank has read, if it is a file: whatever reads it
// next finds that there, as behind every program that reads a part of its input (POSIX, XCU 1.4, INPUT FILES). It returns
// how many bytes are lost, if no rank has read anything at all.
func (f *feeder) giveBack() (lost int64) {
	f.close()
	file := f.file()
	if file != nil && f.ended != nil {
		<-f.ended // it may be reading, which waits for nobody
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.taken - f.read
	if rest == 0 || len(f.unknown) > 0 {
		return 0
	}
	if file != nil {
		if _, err := file.Seek(-rest, io.SeekCurrent); err == nil {
			return 0
		}
	}
	if f.read > 0 {
		return 0
	}
	return rest
}

// file is our input, if that is a file in which one can seek.
func (f *feeder) file() *os.File {
	if file, ok := f.in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return nil
}

// close ends the feeding.
func (f *feeder) close() { f.change(func() { f.closed = true }) }

func (f *feeder) change(what func()) {
	f.mu.Lock()
	what()
	f.mu.Unlock()
	f.more.Signal()
}
