package launch

import (
	"io"
	"sync"
	"time"

	"remshell/wire"
)

// holdTime is how long an unfinished line waits for its rest, so that prompts
// show (IO-8).
const holdTime = 50 * time.Millisecond

// A printer writes one output stream of all ranks. It alone waits for the user's
// terminal; the connections fill its queue, which credit bounds: a rank gets leave
// to write on when its bytes have been written here.
type printer struct {
	stream wire.Stream
	w      io.Writer
	lines  *Lines
	gone   func() // nobody reads any more

	mu     sync.Mutex // guards queue and closed
	queue  []piece
	closed bool
	filled chan struct{}
	done   chan struct{} // closed when all is written

	broken bool
	owed   map[int]int // bytes written and not yet credited, by rank
}

// A piece is output of a rank, or with end the news that the rank is over.
type piece struct {
	from *node
	rank int
	data []byte
	end  bool
}

func newPrinter(stream wire.Stream, w io.Writer, label bool, gone func()) *printer {
	p := &printer{stream: stream, w: w, lines: NewLines(label), gone: gone,
		filled: make(chan struct{}, 1), done: make(chan struct{}), owed: make(map[int]int)}
	go p.run()
	return p
}

func (p *printer) put(x piece) {
	p.mu.Lock()
	p.queue = append(p.queue, x)
	p.mu.Unlock()
	p.notify()
}

// close lets the printer write what it has, and end.
func (p *printer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.notify()
}

func (p *printer) notify() {
	select {
	case p.filled <- struct{}{}:
	default:
	}
}

func (p *printer) run() {
	defer close(p.done)
	var out []byte
	for {
		batch, closed := p.next()
		out = out[:0]
		for _, x := range batch {
			if x.end {
				out = p.lines.End(out, x.rank)
			} else {
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
func (p *printer) next() (batch []piece, closed bool) {
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

func (p *printer) write(out []byte) {
	if p.broken || len(out) == 0 {
		return
	}
	if _, err := p.w.Write(out); err != nil {
		p.broken = true
		p.gone()
	}
}

// credit gives the ranks leave to write on, in steps large enough to be few.
func (p *printer) credit(batch []piece) {
	for _, x := range batch {
		p.owed[x.rank] += len(x.data)
		if owed := p.owed[x.rank]; owed >= wire.Window/4 {
			x.from.conn.Send(&wire.Credit{Rank: x.rank, Stream: p.stream, Bytes: owed})
			delete(p.owed, x.rank)
		}
	}
}
