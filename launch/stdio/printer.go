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

	mu        sync.Mutex // guards what follows, up to filled
	queue     []queueItem
	holdCount int         // how many want the output of ranks held back
	held      []queueItem // that output, and all else about ranks
	closed    bool
	onFailure func(err error, file bool) // told when w, or a file, takes no more; may be nil
	writeErr  error                      // why w takes no more; nil: it does

	filled chan struct{}
	done   chan struct{} // closed when all is written

	// What follows belongs to run.
	terminal   *sink
	routes     map[int][]*sink     // where the output of each rank goes; no entry: the terminal
	dueSinks   map[*sink]time.Time // those that want to be told the time, and when at the latest
	uncredited map[int]int         // bytes written and not yet credited, by rank
	creditStep int                 // how much is owed before credit is given
	files      []*sink
	label      *labelMaker
	observe    func(rank int, data []byte) // sees what ranks write; no data: the end; nil: nobody does
}

// A queueItem is output of a rank, or the news that some are over, or a line of mpiexec itself, or
// where output is to go from now on.
type queueItem struct {
	from         Sender // to its helper
	data         *wire.Data
	rank         int
	endedRanks   []int // ranks that are over, one after the other
	ownLine      []byte
	routing      *outputRouting
	addedRouting *outputRouting // the same, of ranks that come later
	pid          int            // of the rank, which has started
	done         func()         // is called when all up to this piece is written; nil: nobody waits for that
}

// An outputMixer puts the output of several ranks together: lines, collapse or ordered.
type outputMixer interface {
	AddOutput(out *writeBuffer, rank int, piece []byte)
	RankEnded(out *writeBuffer, rank int)
	WriteOwnLine(out *writeBuffer, line []byte)
	WriteDue(out *writeBuffer, now time.Time) (next time.Time, err error)
	FlushAll(out *writeBuffer)
}

// A sink is something that is written to.
type sink struct {
	w      io.Writer
	mixer  outputMixer
	out    writeBuffer
	failed bool
}

// An outputRouting says where the output of the ranks goes.
type outputRouting struct {
	terminal outputMixer
	routes   map[int][]*sink // of each rank; the terminal is nil
	files    []*sink
	window   int // of each rank, in bytes
	observe  func(rank int, data []byte)

	label      *labelMaker
	laterRanks GroupRanks // those that come later
	shown      []int      // those of them whose stream goes to the terminal

	output      job.Output
	stream      string
	lines       func() *lineAssembler
	filesByName map[string]*sink // files by name
}

// Stdout starts a printer of the ranks' standard output to w, which ends by Close.
func Stdout(w io.Writer) *Printer { return newPrinter(wire.Stdout, w) }

// Stderr starts a printer of their standard error, and of our own lines.
func Stderr(w io.Writer) *Printer { return newPrinter(wire.Stderr, w) }

func newPrinter(stream wire.Stream, w io.Writer) *Printer {
	p := &Printer{stream: stream, filled: make(chan struct{}, 1), done: make(chan struct{}),
		terminal: &sink{w: w, mixer: newLineAssembler(nil)}, dueSinks: make(map[*sink]time.Time),
		uncredited: make(map[int]int), creditStep: wire.Window / 4}
	go p.run()
	return p
}

// Write takes a line of our own. It never waits: who owns the state of a job must not
// hang on a terminal.
func (p *Printer) Write(line []byte) (int, error) {
	p.enqueue(queueItem{ownLine: bytes.Clone(line)})
	return len(line), nil
}

// Close lets the printer write what it has, and end.
func (p *Printer) Close() {
	p.mu.Lock()
	p.closed, p.holdCount = true, 0
	p.queueHeld()
	p.mu.Unlock()
	p.wakeUp()
}

// Done returns a channel that closes when everything has been written after Close.
func (p *Printer) Done() <-chan struct{} { return p.done }

// WriteError returns why nothing more can be written, but for files of ranks; nil: it can.
func (p *Printer) WriteError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writeErr
}

// setOnFailure says who is to be told when nothing can be written any more.
func (p *Printer) setOnFailure(tell func(err error, file bool)) {
	p.mu.Lock()
	p.onFailure = tell
	p.mu.Unlock()
}

func (p *Printer) enqueue(x queueItem) {
	p.mu.Lock()
	if p.holdCount > 0 && x.ownLine == nil {
		p.held = append(p.held, x)
	} else {
		p.queue = append(p.queue, x)
	}
	p.mu.Unlock()
	p.wakeUp()
}

// holdOutput keeps the output of ranks back until release is called as often. Credit bounds how much that is.
func (p *Printer) holdOutput() {
	p.mu.Lock()
	p.holdCount++
	p.mu.Unlock()
}

func (p *Printer) releaseOutput() {
	p.mu.Lock()
	p.holdCount = max(0, p.holdCount-1)
	p.queueHeld()
	p.mu.Unlock()
	p.wakeUp()
}

// queueHeld queues what was kept back, if nobody wants that any more. p.mu is held.
func (p *Printer) queueHeld() {
	if p.holdCount == 0 {
		p.queue, p.held = append(p.queue, p.held...), nil
	}
}

// enqueueEnd puts the news that a rank is over into the queue. At the end of a job they all end, and
// the queue shall not hold a piece for each.
func (p *Printer) enqueueEnd(rank int) {
	p.mu.Lock()
	queue := &p.queue
	if p.holdCount > 0 {
		queue = &p.held
	}
	if last := len(*queue) - 1; last >= 0 && (*queue)[last].endedRanks != nil {
		(*queue)[last].endedRanks = append((*queue)[last].endedRanks, rank)
	} else {
		*queue = append(*queue, queueItem{endedRanks: []int{rank}})
	}
	p.mu.Unlock()
	p.wakeUp()
}

func (p *Printer) wakeUp() {
	select {
	case p.filled <- struct{}{}:
	default:
	}
}

func (p *Printer) run() {
	defer close(p.done)
	var batch []queueItem
	for closed := false; !closed; {
		batch, closed = p.nextBatch(batch)
		for _, x := range batch {
			p.handlePiece(x)
		}
		p.writeDue()
		p.giveCredit(batch)
		for _, x := range batch {
			if x.done != nil {
				x.done()
			}
		}
	}
	p.writeRest()
}

// nextBatch waits for pieces; there are none when a sink wants to be told the time. The
// printer is done with those it returned before.
func (p *Printer) nextBatch(old []queueItem) (batch []queueItem, closed bool) {
	clear(old)
	var late <-chan time.Time
	if due, any := p.nextDue(); any {
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

// nextDue is when the first of the sinks wants to be told the time.
func (p *Printer) nextDue() (first time.Time, any bool) {
	for _, due := range p.dueSinks {
		if !any || due.Before(first) {
			first, any = due, true
		}
	}
	return first, any
}

// handlePiece hands a piece to the sinks that it is for.
func (p *Printer) handlePiece(x queueItem) {
	switch {
	case x.routing != nil:
		p.writeRest() // what it was told to do before, which an attempt of the job may have left
		p.terminal.mixer, p.routes, p.files = x.routing.terminal, x.routing.routes, x.routing.files
		p.label, p.creditStep, p.observe = x.routing.label, x.routing.window/4, x.routing.observe
	case x.addedRouting != nil:
		p.addRanks(x.addedRouting)
	case x.pid != 0:
		p.label.pids[x.rank] = x.pid
	case x.ownLine != nil:
		p.terminal.mixer.WriteOwnLine(&p.terminal.out, x.ownLine)
		p.dueSinks[p.terminal] = time.Time{}
	case x.endedRanks != nil:
		for _, rank := range x.endedRanks {
			p.rankEnded(rank)
		}
	default:
		p.addOutput(x.rank, x.data.Bytes)
	}
}

// maxMixed is how much output of a rank is put together before a sink that has much is written to, in bytes: labels
// make ten times as much of short lines, and a window of it is not to be laid out for each rank (IO-11).
const maxMixed = 64 << 10

// addOutput hands output of a rank to its sinks.
func (p *Printer) addOutput(rank int, data []byte) {
	if p.observe != nil && len(data) > 0 {
		p.observe(rank, data)
	}
	p.eachSink(rank, false, func(o *sink) {
		for part := range slices.Chunk(data, maxMixed) {
			o.mixer.AddOutput(&o.out, rank, part)
			if o.out.copiedLen() >= maxMixed {
				p.writeSink(o)
			}
		}
		p.dueSinks[o] = time.Time{}
	})
}

// rankEnded tells the sinks that a rank is over.
func (p *Printer) rankEnded(rank int) {
	if p.observe != nil {
		p.observe(rank, nil)
	}
	delete(p.uncredited, rank) // most of its leave is left, should it have left somebody who writes
	p.eachSink(rank, true, func(o *sink) {
		o.mixer.RankEnded(&o.out, rank)
		p.dueSinks[o] = time.Time{}
	})
}

// addRanks takes in ranks that come later.
func (p *Printer) addRanks(r *outputRouting) {
	p.label.addRanks(r.laterRanks)
	p.creditStep = min(p.creditStep, r.window/4) // or they would wait for leave that nobody gives
	p.files = append(p.files, r.files...)
	if len(r.routes) > 0 && p.routes == nil {
		p.routes = make(map[int][]*sink)
	}
	maps.Copy(p.routes, r.routes)
	if ordered, ok := p.terminal.mixer.(*rankSequencer); ok {
		ordered.ranks = append(ordered.ranks, r.shown...)
	}
}

// eachSink calls do with each sink of a rank. The end of a rank is of interest to the
// terminal, whether it is shown there or not.
func (p *Printer) eachSink(rank int, end bool, do func(*sink)) {
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

// writeDue tells the busy sinks the time, and writes what they have.
func (p *Printer) writeDue() {
	now := time.Now()
	for o := range p.dueSinks {
		next, err := o.mixer.WriteDue(&o.out, now)
		if next.IsZero() {
			delete(p.dueSinks, o)
		} else {
			p.dueSinks[o] = next
		}
		p.sinkFailed(o, err)
		p.writeSink(o)
	}
}

// writeSink writes what a sink has.
func (p *Printer) writeSink(o *sink) {
	if o.failed {
		o.out = writeBuffer{}
		return
	}
	p.sinkFailed(o, o.out.writeTo(o.w))
}

// sinkFailed tells, once, that a sink takes no more.
func (p *Printer) sinkFailed(o *sink, err error) {
	if err == nil || o.failed {
		return
	}
	o.failed = true
	p.mu.Lock()
	if o == p.terminal {
		p.writeErr = err
	}
	tell := p.onFailure
	p.mu.Unlock()
	if tell != nil {
		tell(err, o != p.terminal)
	}
}

// giveCredit gives the ranks leave to write on, in steps large enough to be few.
func (p *Printer) giveCredit(batch []queueItem) {
	for _, x := range batch {
		if x.data == nil {
			continue
		}
		stream, n := x.data.Stream, len(x.data.Bytes)
		x.data.Release()
		p.uncredited[x.rank] += n
		if owed := p.uncredited[x.rank]; owed >= p.creditStep && x.from != nil {
			x.from(&wire.Credit{Rank: x.rank, Stream: stream, Bytes: owed})
			delete(p.uncredited, x.rank)
		}
	}
}

// writeRest writes all that is held back, and closes the files.
func (p *Printer) writeRest() {
	defer func() { p.files, p.uncredited = nil, make(map[int]int) }()
	for _, o := range append([]*sink{p.terminal}, p.files...) {
		if ordered, ok := o.mixer.(*rankSequencer); ok {
			ordered.EndAll()
			p.dueSinks[o] = time.Time{}
			for len(p.dueSinks) > 0 && !o.failed {
				p.writeDue()
				if p.dueSinks[o].After(time.Now()) {
					break
				}
			}
		}
		o.mixer.FlushAll(&o.out)
		p.writeSink(o)
		delete(p.dueSinks, o)
		if file, ok := o.w.(*os.File); ok && o != p.terminal {
			p.sinkFailed(o, file.Close())
		}
	}
}
