package stdio

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A Printer writes one output stream of all ranks, and lines of our own:
//
//	ranks --- pieces ---> queue ---> sinks: the terminal, files
//	  ^                                 |
//	  '------------- credit ------------'
//
// It alone waits for the user's terminal. Credit bounds the queue: a rank gets leave to
// write on when its bytes have been written here.
type Printer struct {
	stream wire.Stream

	mu     sync.Mutex // guards what follows, up to filled
	queue  []piece
	holds  int     // how many want the output of ranks held back
	held   []piece // that output, and all else about ranks
	closed bool
	gone   func(err error, file bool) // told when w, or a file, takes no more; may be nil
	lost   error                      // why w takes no more; nil: it does

	filled chan struct{}
	done   chan struct{} // closed when all is written

	// What follows belongs to run.
	terminal *sink
	routes   map[int][]*sink     // where the output of each rank goes; no entry: the terminal
	busy     map[*sink]time.Time // those that want to be told the time, and when at the latest
	owed     map[int]int         // bytes written and not yet credited, by rank
	step     int                 // how much is owed before credit is given
	files    []*sink
	label    *labels
	tap      func(rank int, data []byte) // sees what ranks write; no data: the end; nil: nobody does
}

// A piece is output of a rank, or the news that some are over, or a line of mpiexec itself, or
// where output is to go from now on.
type piece struct {
	from  Send // to its helper
	data  *wire.Data
	rank  int
	ends  []int // ranks that are over, one after the other
	ours  []byte
	route *routing
	grown *routing // the same, of ranks that come later
	pid   int      // of the rank, which has started
	after func()   // is called when all up to this piece is written; nil: nobody waits for that
}

// A mixer puts the output of several ranks together: lines, collapse or ordered.
type mixer interface {
	Add(out *chunks, rank int, piece []byte)
	End(out *chunks, rank int)
	Ours(out *chunks, line []byte)
	Tick(out *chunks, now time.Time) (next time.Time, err error)
	Flush(out *chunks)
}

// A sink is something that is written to.
type sink struct {
	w      io.Writer
	mix    mixer
	out    chunks
	broken bool
}

// A routing says where the output of the ranks goes.
type routing struct {
	terminal mixer
	routes   map[int][]*sink // of each rank; the terminal is nil
	files    []*sink
	window   int // of each rank, in bytes
	tap      func(rank int, data []byte)

	label *labels
	who   Ranks // those that come later
	shown []int // those of them whose stream goes to the terminal

	wanted job.Output
	stream string
	lines  func() *lines
	named  map[string]*sink // files by name
}

// Stdout starts a printer of the ranks' standard output to w, which ends by Close.
func Stdout(w io.Writer) *Printer { return newPrinter(wire.Stdout, w) }

// Stderr starts a printer of their standard error, and of our own lines.
func Stderr(w io.Writer) *Printer { return newPrinter(wire.Stderr, w) }

func newPrinter(stream wire.Stream, w io.Writer) *Printer {
	p := &Printer{stream: stream, filled: make(chan struct{}, 1), done: make(chan struct{}),
		terminal: &sink{w: w, mix: newLines(nil)}, busy: make(map[*sink]time.Time),
		owed: make(map[int]int), step: wire.Window / 4}
	go p.run()
	return p
}

// Write takes a line of our own. It never waits: who owns the state of a job must not
// hang on a terminal.
func (p *Printer) Write(line []byte) (int, error) {
	p.put(piece{ours: bytes.Clone(line)})
	return len(line), nil
}

// Close lets the printer write what it has, and end.
func (p *Printer) Close() {
	p.mu.Lock()
	p.closed, p.holds = true, 0
	p.letGo()
	p.mu.Unlock()
	p.notify()
}

// Done returns a channel that closes when everything has been written after Close.
func (p *Printer) Done() <-chan struct{} { return p.done }

// Lost returns why nothing more can be written, but for files of ranks; nil: it can.
func (p *Printer) Lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// onGone says who is to be told when nothing can be written any more.
func (p *Printer) onGone(tell func(err error, file bool)) {
	p.mu.Lock()
	p.gone = tell
	p.mu.Unlock()
}

func (p *Printer) put(x piece) {
	p.mu.Lock()
	if p.holds > 0 && x.ours == nil {
		p.held = append(p.held, x)
	} else {
		p.queue = append(p.queue, x)
	}
	p.mu.Unlock()
	p.notify()
}

// hold keeps the output of ranks back until release is called as often. Credit bounds how much that is.
func (p *Printer) hold() {
	p.mu.Lock()
	p.holds++
	p.mu.Unlock()
}

func (p *Printer) release() {
	p.mu.Lock()
	p.holds = max(0, p.holds-1)
	p.letGo()
	p.mu.Unlock()
	p.notify()
}

// letGo queues what was kept back, if nobody wants that any more. p.mu is held.
func (p *Printer) letGo() {
	if p.holds == 0 {
		p.queue, p.held = append(p.queue, p.held...), nil
	}
}

// putEnd puts the news that a rank is over into the queue. At the end of a job they all end, and
// the queue shall not hold a piece for each.
func (p *Printer) putEnd(rank int) {
	p.mu.Lock()
	queue := &p.queue
	if p.holds > 0 {
		queue = &p.held
	}
	if last := len(*queue) - 1; last >= 0 && (*queue)[last].ends != nil {
		(*queue)[last].ends = append((*queue)[last].ends, rank)
	} else {
		*queue = append(*queue, piece{ends: []int{rank}})
	}
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
	var batch []piece
	for closed := false; !closed; {
		batch, closed = p.next(batch)
		for _, x := range batch {
			p.take(x)
		}
		p.write()
		p.credit(batch)
		for _, x := range batch {
			if x.after != nil {
				x.after()
			}
		}
	}
	p.finish()
}

// next waits for pieces; there are none when a sink wants to be told the time. The
// printer is done with those it returned before.
func (p *Printer) next(old []piece) (batch []piece, closed bool) {
	clear(old)
	var late <-chan time.Time
	if due, any := p.due(); any {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		late = timer.C
	}
	for {
		p.mu.Lock()
		batch, closed = p.queue, p.closed
		p.queue, old = old[:0], nil
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

// due is when the first of the sinks wants to be told the time.
func (p *Printer) due() (first time.Time, any bool) {
	for _, due := range p.busy {
		if !any || due.Before(first) {
			first, any = due, true
		}
	}
	return first, any
}

// take hands a piece to the sinks that it is for.
func (p *Printer) take(x piece) {
	switch {
	case x.route != nil:
		p.finish() // what it was told to do before, which an attempt of the job may have left
		p.terminal.mix, p.routes, p.files = x.route.terminal, x.route.routes, x.route.files
		p.label, p.step, p.tap = x.route.label, x.route.window/4, x.route.tap
	case x.grown != nil:
		p.grow(x.grown)
	case x.pid != 0:
		p.label.pids[x.rank] = x.pid
	case x.ours != nil:
		p.terminal.mix.Ours(&p.terminal.out, x.ours)
		p.busy[p.terminal] = time.Time{}
	case x.ends != nil:
		for _, rank := range x.ends {
			p.end(rank)
		}
	default:
		p.add(x.rank, x.data.Bytes)
	}
}

// mixedAtOnce is how much output of a rank is put together before a sink that has much is written to, in bytes: labels
// make ten times as much of short lines, and a window of it is not to be laid out for each rank (IO-11).
const mixedAtOnce = 64 << 10

// add hands output of a rank to its sinks.
func (p *Printer) add(rank int, data []byte) {
	if p.tap != nil && len(data) > 0 {
		p.tap(rank, data)
	}
	p.each(rank, false, func(o *sink) {
		for part := range slices.Chunk(data, mixedAtOnce) {
			o.mix.Add(&o.out, rank, part)
			if o.out.copied() >= mixedAtOnce {
				p.pour(o)
			}
		}
		p.busy[o] = time.Time{}
	})
}

// end tells the sinks that a rank is over.
func (p *Printer) end(rank int) {
	if p.tap != nil {
		p.tap(rank, nil)
	}
	delete(p.owed, rank) // most of its leave is left, should it have left somebody who writes
	p.each(rank, true, func(o *sink) {
		o.mix.End(&o.out, rank)
		p.busy[o] = time.Time{}
	})
}

// grow takes in ranks that come later.
func (p *Printer) grow(r *routing) {
	p.label.grow(r.who)
	p.step = min(p.step, r.window/4) // or they would wait for leave that nobody gives
	p.files = append(p.files, r.files...)
	if len(r.routes) > 0 && p.routes == nil {
		p.routes = make(map[int][]*sink)
	}
	maps.Copy(p.routes, r.routes)
	if ordered, ok := p.terminal.mix.(*ordered); ok {
		ordered.ranks = append(ordered.ranks, r.shown...)
	}
}

// each calls do with each sink of a rank. The end of a rank is of interest to the
// terminal, whether it is shown there or not.
func (p *Printer) each(rank int, end bool, do func(*sink)) {
	sinks, routed := p.routes[rank]
	shown := !routed || end
	for _, o := range sinks {
		if o == nil {
			shown = true
		} else {
			do(o)
		}
	}
	if shown {
		do(p.terminal)
	}
}

// write tells the busy sinks the time, and writes what they have.
func (p *Printer) write() {
	now := time.Now()
	for o := range p.busy {
		next, err := o.mix.Tick(&o.out, now)
		if next.IsZero() {
			delete(p.busy, o)
		} else {
			p.busy[o] = next
		}
		p.failed(o, err)
		p.pour(o)
	}
}

// pour writes what a sink has.
func (p *Printer) pour(o *sink) {
	if o.broken {
		o.out = chunks{}
		return
	}
	p.failed(o, o.out.writeTo(o.w))
}

// failed tells, once, that a sink takes no more.
func (p *Printer) failed(o *sink, err error) {
	if err == nil || o.broken {
		return
	}
	o.broken = true
	p.mu.Lock()
	if o == p.terminal {
		p.lost = err
	}
	tell := p.gone
	p.mu.Unlock()
	if tell != nil {
		tell(err, o != p.terminal)
	}
}

// credit gives the ranks leave to write on, in steps large enough to be few.
func (p *Printer) credit(batch []piece) {
	for _, x := range batch {
		if x.data == nil {
			continue
		}
		stream, n := x.data.Stream, len(x.data.Bytes)
		x.data.Release()
		p.owed[x.rank] += n
		if owed := p.owed[x.rank]; owed >= p.step && x.from != nil {
			x.from(&wire.Credit{Rank: x.rank, Stream: stream, Bytes: owed})
			delete(p.owed, x.rank)
		}
	}
}

// finish writes all that is held back, and closes the files.
func (p *Printer) finish() {
	defer func() { p.files, p.owed = nil, make(map[int]int) }()
	for _, o := range append([]*sink{p.terminal}, p.files...) {
		if ordered, ok := o.mix.(*ordered); ok {
			ordered.Finish()
			p.busy[o] = time.Time{}
			for len(p.busy) > 0 && !o.broken {
				p.write()
				if p.busy[o].After(time.Now()) {
					break
				}
			}
		}
		o.mix.Flush(&o.out)
		p.pour(o)
		delete(p.busy, o)
		if file, ok := o.w.(*os.File); ok && o != p.terminal {
			p.failed(o, file.Close())
		}
	}
}
