package stdio

import (
	"io"
	"slices"
	"sync"

	"remshell/wire"
)

// A feeder reads our standard input for some ranks, and never more ahead than the
// slowest of them has asked for: the rest stays where it is (IO-2, IO-4).
type feeder struct {
	in io.Reader

	mu      sync.Mutex // guards the rest
	readers []Reader
	closed  bool
	more    sync.Cond
}

// A Reader is a rank that gets our standard input.
type Reader struct {
	Rank   int
	To     Send // to its helper
	credit int  // how many bytes it may be sent
}

func newFeeder(in io.Reader) *feeder {
	f := &feeder{in: in}
	f.more.L = &f.mu
	return f
}

// let lets ranks read, each with a window to begin with.
func (f *feeder) let(readers []Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers = readers
	for i := range readers {
		readers[i].credit = wire.Window
	}
}

// run reads until the input ends or nobody wants it. A read that is under way when the
// job ends stays so until the program leaves. failed is told why there is no more to read,
// unless it is the end.
func (f *feeder) run(failed func(error)) {
	buf := make([]byte, wire.Window)
	for {
		allowed := f.wait()
		if allowed == 0 {
			return
		}
		n, err := f.in.Read(buf[:allowed])
		if n > 0 {
			f.send(buf[:n])
		}
		switch {
		case err == nil:
		case err != io.EOF && f.wanted():
			failed(err) // no rank may take it for the end of its input, and end well
			return
		default:
			f.send(nil)
			return
		}
	}
}

// wanted reports whether any rank still reads.
func (f *feeder) wanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && len(f.readers) > 0
}

// wait returns how much may be read; 0 when nobody wants more.
func (f *feeder) wait() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.closed || len(f.readers) == 0 {
			return 0
		}
		least := wire.Window
		for _, r := range f.readers {
			least = min(least, r.credit)
		}
		if least > 0 {
			return least
		}
		f.more.Wait()
	}
}

// send passes a piece on to all who still read; an empty one is the end.
func (f *feeder) send(piece []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.readers {
		r := &f.readers[i]
		r.credit -= len(piece)
		r.To(&wire.Data{Rank: r.Rank, Stream: wire.Stdin, Bytes: piece})
	}
}

// grant notes that a rank has read.
func (f *feeder) grant(rank, n int) {
	f.change(func() {
		for i := range f.readers {
			if r := &f.readers[i]; r.Rank == rank {
				r.credit += n
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

// close ends the feeding.
func (f *feeder) close() { f.change(func() { f.closed = true }) }

func (f *feeder) change(what func()) {
	f.mu.Lock()
	what()
	f.mu.Unlock()
	f.more.Signal()
}
