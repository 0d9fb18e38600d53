package stdio

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"remshell/wire"
)

// A Printer writes one output stream (stdout or stderr) of all ranks, and lines of mpiexec:
//
//	ranks --- pieces ---> queue ---> sinks: the terminal, files
//	  ^                                 |
//	  '------------- credit ------------'
//
// "The terminal" is mpiexec's own stdout or stderr, even if that is a pipe or a file. Only the printer's goroutine
// waits for the terminal. Credit limits the length of the queue: a rank gets new credit when its bytes have been
// written.
type Printer struct {
	stream wire.Stream

	mu        sync.Mutex // guards the fields up to filled
	queue     []queueItem
	holdCount int         // how many callers want the output of ranks held back
	releasing int         // calls of releaseOutput to come, once a text is written to the other stream
	held      []queueItem // held output and other items about ranks
	closed    bool
	onFailure func(err error, file bool) // called once when the terminal or a file cannot be written to; may be nil
	writeErr  error                      // why the terminal cannot be written to; nil: it can

	filled chan struct{}
	done   chan struct{} // closed when everything is written

	// Only run uses the fields below.
	terminal   *sink
	routes     map[int][]*sink     // by rank, where its output goes; no entry: to the terminal
	dueSinks   map[*sink]time.Time // sinks with a WriteDue to call, and when at the latest
	uncredited map[int]int         // by rank, bytes written for which no credit was given yet
	creditStep int                 // how many such bytes are credited at once
	files      []*sink
	label      *labelMaker
	observe    func(rank int, data []byte) // receives the output of ranks, and no data at a rank's end; nil: not observed
}

// A queueItem is one item in the queue of a Printer: output of a rank, ends of ranks, a line of mpiexec, new
// destinations of the output (routing), or the process ID of a rank.
type queueItem struct {
	from         Sender // sends to the rank's helper
	data         *wire.Data
	rank         int
	endedRanks   []int // in the order of their ends
	ownLine      []byte
	routing      *outputRouting
	addedRouting *outputRouting // routing for ranks of a spawned group
	pid          int            // of the rank, which has started
	done         func()         // called when everything up to this item is written; may be nil
}

// An outputMixer merges the output of several ranks. It is a lineAssembler, lineMerger or rankSequencer.
type outputMixer interface {
	AddOutput(out *writeBuffer, rank int, piece []byte)
	RankEnded(out *writeBuffer, rank int)
	WriteOwnLine(out *writeBuffer, line []byte)
	WriteDue(out *writeBuffer, now time.Time) (next time.Time, err error)
	FlushAll(out *writeBuffer)
}

// A sink is a destination of output: the terminal or a file.
type sink struct {
	w      io.Writer
	mixer  outputMixer
	out    writeBuffer
	failed bool
}

// Stdout starts a printer that writes the ranks' standard output to w. Close ends it.
func Stdout(w io.Writer) *Printer { return newPrinter(wire.Stdout, w) }

// Stderr starts a printer that writes the ranks' standard error, and lines of mpiexec, to w.
func Stderr(w io.Writer) *Printer { return newPrinter(wire.Stderr, w) }

func newPrinter(stream wire.Stream, w io.Writer) *Printer {
	p := &Printer{stream: stream, filled: make(chan struct{}, 1), done: make(chan struct{}),
		terminal: &sink{w: w, mixer: newLineAssembler(nil)}, dueSinks: make(map[*sink]time.Time),
		uncredited: make(map[int]int), creditStep: wire.Window / 4}
	go p.run()
	return p
}

// Write queues a copy of a line that comes from mpiexec itself. It never blocks, because the goroutine that
// supervises the job must not wait for a terminal.
func (p *Printer) Write(line []byte) (int, error) {
	p.enqueue(queueItem{ownLine: bytes.Clone(line)})
	return len(line), nil
}

// Close makes the printer write everything that is queued and then end. It does not wait for that. Output that is
// still held back is written when it is released, or at once if no release was announced.
func (p *Printer) Close() {
	p.mu.Lock()
	p.closed = true
	p.queueHeld()
	p.mu.Unlock()
	p.wakeUp()
}

// Done returns a channel that is closed after Close, when everything has been written.
func (p *Printer) Done() <-chan struct{} { return p.done }

// WriteError returns the first error that occurred while writing to the terminal, or nil if there was none.
func (p *Printer) WriteError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writeErr
}

// setOnFailure sets the function to call when the terminal, or a file, cannot be written to.
func (p *Printer) setOnFailure(onFailure func(err error, file bool)) {
	p.mu.Lock()
	p.onFailure = onFailure
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

// holdOutput begins to hold back the output of ranks. Each call must be followed by releaseOutput. Credit
// limits how much output is held back.
func (p *Printer) holdOutput() {
	p.mu.Lock()
	p.holdCount++
	p.mu.Unlock()
}

// announceRelease records that releaseOutput will be called. Without this, Close would not wait for the
// release.
func (p *Printer) announceRelease() {
	p.mu.Lock()
	p.releasing++
	p.mu.Unlock()
}

func (p *Printer) releaseOutput() {
	p.mu.Lock()
	p.releasing--
	p.holdCount = max(0, p.holdCount-1)
	p.queueHeld()
	p.mu.Unlock()
	p.wakeUp()
}

// queueHeld queues the output that was held back. It does nothing while a call of releaseOutput is still due, unless
// the printer is closed and no release was announced. The caller must hold p.mu.
func (p *Printer) queueHeld() {
	if p.isAtEnd() {
		p.holdCount = 0
	}
	if p.holdCount == 0 {
		p.queue, p.held = append(p.queue, p.held...), nil
	}
}

// isAtEnd reports whether nothing more will be queued. The caller must hold p.mu.
func (p *Printer) isAtEnd() bool { return p.closed && p.releasing == 0 }

// enqueueEnd queues the end of a rank. Consecutive ends share one item, because all ranks of a job often end
// together.
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
			p.handleItem(x)
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

// nextBatch waits for queued items and returns them. It returns no items if a call of WriteDue is due. closed reports
// whether nothing more will be queued. old is the slice that the previous call returned, and is reused.
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
		batch, closed = p.queue, p.isAtEnd()
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

// nextDue returns the time at which the next call of WriteDue is due. any is false if there is none.
func (p *Printer) nextDue() (first time.Time, any bool) {
	for _, due := range p.dueSinks {
		if !any || due.Before(first) {
			first, any = due, true
		}
	}
	return first, any
}

// handleItem handles one item of the queue.
func (p *Printer) handleItem(x queueItem) {
	switch {
	case x.routing != nil:
		p.writeRest() // the rest of the previous attempt's output
		p.terminal.mixer, p.routes, p.files = x.routing.terminalMixer, x.routing.routes, x.routing.files
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

// maxMixed is the maximum number of bytes of a rank's output that are merged at a time. Larger pieces would need much
// memory, because labels can make short lines ten times as long (rule IO-11).
const maxMixed = 64 << 10

// addOutput passes output of a rank to its sinks.
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

// rankEnded reports to the sinks that a rank has ended.
func (p *Printer) rankEnded(rank int) {
	if p.observe != nil {
		p.observe(rank, nil)
	}
	delete(p.uncredited, rank) // a leftover child that writes still has most of the rank's credit
	p.eachSink(rank, true, func(o *sink) {
		o.mixer.RankEnded(&o.out, rank)
		p.dueSinks[o] = time.Time{}
	})
}

// addRanks makes the printer accept the output of a spawned group, and write it where r says.
func (p *Printer) addRanks(r *outputRouting) {
	p.label.addRanks(r.laterRanks)
	p.creditStep = min(p.creditStep, r.window/4) // otherwise ranks with a smaller window would never get credit
	p.files = append(p.files, r.files...)
	if len(r.routes) > 0 && p.routes == nil {
		p.routes = make(map[int][]*sink)
	}
	maps.Copy(p.routes, r.routes)
	if ordered, ok := p.terminal.mixer.(*rankSequencer); ok {
		ordered.ranks = append(ordered.ranks, r.shown...)
	}
}

// eachSink calls visit for each sink that receives the output of a rank. If end is true, it also calls visit for the
// terminal, even if the rank's output is not shown there.
func (p *Printer) eachSink(rank int, end bool, visit func(*sink)) {
	sinks, routed := p.routes[rank]
	shown := !routed || end
	for _, o := range sinks {
		if o == nil {
			shown = true
		} else {
			visit(o)
		}
	}
	if shown {
		visit(p.terminal)
	}
}

// writeDue calls WriteDue of all sinks in dueSinks, and writes their output.
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

// writeSink writes the output of a sink.
func (p *Printer) writeSink(o *sink) {
	if o.failed {
		o.out = writeBuffer{}
		return
	}
	p.sinkFailed(o, o.out.writeTo(o.w))
}

// sinkFailed handles the result of writing to a sink. It reports only the first error of each sink.
func (p *Printer) sinkFailed(o *sink, err error) {
	if err == nil || o.failed {
		return
	}
	o.failed = true
	p.mu.Lock()
	if o == p.terminal {
		p.writeErr = err
	}
	onFailure := p.onFailure
	p.mu.Unlock()
	if onFailure != nil {
		onFailure(err, o != p.terminal)
	}
}

// giveCredit allows the ranks to send as many further bytes as have been written. To save messages, it sends no credit
// until creditStep bytes of a rank have been written.
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

// writeRest writes everything that is still held back, and closes the files.
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
