package launch

import (
	"bytes"
	"io"
	"sync"
	"time"

	"remshell/wire"
)

// holdTime is how long an unfinished line waits for its rest, so that prompts
// show (IO-8).
const holdTime = 50 * time.Millisecond

// A Printer writes one output stream: that of all ranks, and lines of our own. It
// alone waits for the user's terminal; others fill its queue, which credit bounds: a
// rank gets leave to write on when its bytes have been written here.
type Printer struct {
	stream wire.Stream
	w      io.Writer
	lines  *Lines

	mu     sync.Mutex // guards the next three
	queue  []piece
	closed bool
	gone   func(error) // told when w takes no more; may be nil

	filled chan struct{}
	done   chan struct{} // closed when all is written
	broken bool
	owed   map[int]int // bytes written and not yet credited, by rank
}

// A piece is output of a rank, or with end the news that the rank is over, or with
// ours a line of mpiexec itself.
type piece struct {
	from *node
	rank int
	data []byte
	end  bool
	ours bool
}

// Stdout starts a printer of the ranks' standard output to w, which ends by Close.
func Stdout(w io.Writer, label bool) *Printer { return newPrinter(wire.Stdout, w, label) }

// Stderr starts a printer of their standard error, and of our own lines.
func Stderr(w io.Writer, label bool) *Printer { return newPrinter(wire.Stderr, w, label) }

func newPrinter(stream wire.Stream, w io.Writer, label bool) *Printer {
	p := &Printer{stream: stream, w: w, lines: NewLines(label),
		filled: make(chan struct{}, 1), done: make(chan struct{}), owed: make(map[int]int)}
	go p.run()
	return p
}

// Write takes a line of our own. It never waits: who owns the state of a job must not
// hang on a terminal.
func (p *Printer) Write(line []byte) (int, error) {
	p.put(piece{data: bytes.Clone(line), ours: true})
	return len(line), nil
}

// Close lets the printer write what it has, and end.
func (p *Printer) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.notify()
}

// Done returns a channel that closes when everything has been written after Close.
func (p *Printer) Done() <-chan struct{} { return p.done }

// onGone says who is to be told when nothing can be written any more.
func (p *Printer) onGone(tell func(error)) {
	p.mu.Lock()
	p.gone = tell
	p.mu.Unlock()
}

func (p *Printer) put(x piece) {
	p.mu.Lock()
	p.queue = append(p.queue, x)
	p.mu.Unlock()
	p.notify()
}

func (p *Printer) notify() {
	select {
	case p.filled <- struct{}{}:
	default:
	}
}

func (p *Printer) run() {
	defer close(p.done)
	var out []byte
	for {
		batch, closed := p.next()
		out = out[:0]
		for _, x := range batch {
			switch {
			case x.ours:
				out = p.lines.Ours(out, x.data)
			case x.end:
				out = p.lines.End(out, x.rank)
			default:
				out = p.lines.Add(out, x.rank, x.data)
			}
		}
		if len(batch) == 0 || closed {
			out = p.lines.FlushAll(out)
		}
		p.write(out)
		p.credit(batch)
		if closed {
			return
		}
	}
}

// next waits for pieces; there are none when the one unfinished line has waited
// long enough. Of several, none is shown before it is whole.
func (p *Printer) next() (batch []piece, closed bool) {
	var late <-chan time.Time
	if p.lines.Held() == 1 {
		timer := time.NewTimer(holdTime)
		defer timer.Stop()
		late = timer.C
	}
	for {
		p.mu.Lock()
		batch, closed = p.queue, p.closed
		p.queue = nil
		p.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch, closed
		}
		select {
		case <-p.filled:
		case <-late:
			return nil, false
		}
	}
}

func (p *Printer) write(out []byte) {
	if p.broken || len(out) == 0 {
		return
	}
	if _, err := p.w.Write(out); err != nil {
		p.broken = true
		p.mu.Lock()
		tell := p.gone
		p.mu.Unlock()
		if tell != nil {
			tell(err)
		}
	}
}

// credit gives the ranks leave to write on, in steps large enough to be few.
func (p *Printer) credit(batch []piece) {
	for _, x := range batch {
		if x.from == nil {
			continue
		}
		p.owed[x.rank] += len(x.data)
		if owed := p.owed[x.rank]; owed >= wire.Window/4 {
			x.from.conn.Send(&wire.Credit{Rank: x.rank, Stream: p.stream, Bytes: owed})
			delete(p.owed, x.rank)
		}
	}
}
