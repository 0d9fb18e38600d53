package launch

import (
	"io"
	"sync"

	"remshell/wire"
)

// A feeder reads our standard input for one rank, and never more than the rank's
// window ahead: what is not asked for stays where it is (IO-2).
type feeder struct {
	in io.Reader

	mu     sync.Mutex // guards credit and closed
	credit int
	closed bool
	more   sync.Cond
}

func newFeeder(in io.Reader) *feeder {
	f := &feeder{in: in, credit: wire.Window}
	f.more.L = &f.mu
	return f
}

// run reads for a rank on a node until the input ends or nobody wants it. A read that is under way when
// the job ends stays so until the program leaves.
func (f *feeder) run(rank int, to *node) {
	buf := make([]byte, wire.Window)
	for {
		allowed := f.wait()
		if allowed == 0 {
			return
		}
		n, err := f.in.Read(buf[:allowed])
		if n > 0 {
			f.spend(n)
			to.conn.Send(&wire.Data{Rank: rank, Stream: wire.Stdin, Bytes: buf[:n]})
		}
		if err != nil {
			to.conn.Send(&wire.Data{Rank: rank, Stream: wire.Stdin})
			return
		}
	}
}

// wait returns how much may be read; 0 when nobody wants more.
func (f *feeder) wait() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.credit == 0 && !f.closed {
		f.more.Wait()
	}
	if f.closed {
		return 0
	}
	return f.credit
}

func (f *feeder) spend(n int) {
	f.mu.Lock()
	f.credit -= n
	f.mu.Unlock()
}

func (f *feeder) grant(n int) {
	f.mu.Lock()
	f.credit += n
	f.mu.Unlock()
	f.more.Signal()
}

func (f *feeder) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.more.Signal()
}
