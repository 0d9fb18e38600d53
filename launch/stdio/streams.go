/*
Package stdio is where the standard streams of all ranks meet those of mpiexec: the printers
of what ranks write, with labels, patterns and files, and the feeder of what they read.

	helpers --- Data ---> Streams ---> printer of stdout ---> terminal, files
	   ^                     '-------> printer of stderr ---> terminal, files
	   |                                     |
	   '---- Credit -------------------------'
	   '-- Data, Feed ---- feeder <--- our standard input
	           Credit -------^

A rank writes when it has credit, and gets more when its bytes have been written here; we read
our input when the slowest of its readers has asked for more. So nothing grows, whoever is slow.

The package knows no nodes: who hands it a rank's output says with it how that rank's helper is
reached. Ranks are numbered through the job, those of spawned groups behind all others.
*/
package stdio

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"remshell/fault"
	"remshell/job"
	"remshell/wire"
)

// A Send takes a message for a helper, and never waits for it to be written.
type Send func(wire.Message) error

// Streams are those of one job and of all groups that are spawned in it.
type Streams struct {
	out, err *Printer
	feed     *feeder
	pids     atomic.Bool // labels show process IDs
	routes   [2]*routing // of stdout and stderr; set by Open

	mu   sync.Mutex     // guards last
	last map[int][]byte // what each rank last wrote to stderr, at most maxLast bytes
}

// maxLast is how much of a rank's stderr is kept for a report, in bytes.
const maxLast = 512

// A Told is who wants to know what becomes of the streams. The printers call it, in goroutines
// of their own.
type Told struct {
	Output     func(rank int, stream string, data []byte) // sees what ranks write; no data: the end; nil: nobody does
	StdoutGone func(err error)                            // our standard output takes no more
	FileFailed func(err error)                            // a file takes no more of a rank's output
}

// New returns the streams of a job of which nothing runs yet: in is what ranks will read; nil:
// there is nothing. The printers are the caller's own, too, for lines that are no rank's.
func New(in io.Reader, out, err *Printer) *Streams {
	return &Streams{out: out, err: err, feed: newFeeder(in), last: make(map[int][]byte)}
}

// Open opens the files for the output of a job's ranks, and tells the printers where what
// goes. Nothing has been started yet (IO-13). The error is a *fault.Error.
func (s *Streams) Open(wanted job.Streams, who Ranks, told Told) error {
	if err := tooHigh(wanted, who.Size); err != nil {
		return err
	}
	out, err := route(wanted, wanted.Out, who, "stdout")
	if err != nil {
		return err
	}
	errs, err := route(wanted, wanted.Err, who, "stderr")
	if err != nil {
		out.close()
		return err
	}
	s.routes = [2]*routing{out, errs}
	if told.Output != nil {
		out.tap = func(rank int, data []byte) { told.Output(rank, "stdout", data) }
		errs.tap = func(rank int, data []byte) { told.Output(rank, "stderr", data) }
	}
	s.pids.Store(strings.Contains(wanted.Out.Label+wanted.Err.Label, "%P"))
	s.out.onGone(func(err error, file bool) {
		if file {
			told.FileFailed(err)
		} else {
			told.StdoutGone(err)
		}
	})
	s.err.onGone(func(err error, file bool) {
		if file { // who closes our standard error does not want to hear of it
			told.FileFailed(err)
		}
	})
	s.out.put(piece{route: out})
	s.err.put(piece{route: errs})
	return nil
}

// tooHigh is the error of an option that names a rank that there is not.
func tooHigh(wanted job.Streams, size int) error {
	for _, x := range []struct {
		option string
		ranks  job.Ranks
	}{{"-stdin", wanted.Stdin}, {"--pty", wanted.PTY}, {"-output-from", wanted.Show}} {
		if last := x.ranks.Last(); last >= size {
			return &fault.Error{Text: fmt.Sprintf("%s: there is no rank %d", x.option, last), Remedy: fmt.Sprintf("ranks are 0 to %d", size-1)}
		}
	}
	return nil
}

// A Growth is where the output of a group goes that is to be spawned. Its files are open: it
// ends by Grow or by Close.
type Growth struct{ out, err *routing }

// Prepare opens the files for the output of a group, of which nobody has been started yet.
// One group at a time is prepared. The error is a *fault.Error.
func (s *Streams) Prepare(wanted job.Streams, who Ranks) (*Growth, error) {
	out, err := s.routes[0].grow(wanted, who)
	if err != nil {
		return nil, err
	}
	errs, err := s.routes[1].grow(wanted, who)
	if err != nil {
		out.close()
		return nil, err
	}
	return &Growth{out, errs}, nil
}

// Close closes the files of a group that is not started.
func (g *Growth) Close() {
	g.out.close()
	g.err.close()
}

// Grow takes in a group, before anything of it runs.
func (s *Streams) Grow(g *Growth) {
	s.out.put(piece{grown: g.out})
	s.err.put(piece{grown: g.err})
}

// Hold keeps the output of ranks back until Release is called as often. Lines of our own are written.
func (s *Streams) Hold() {
	s.out.hold()
	s.err.hold()
}

// Release writes a text to standard error. Then it lets go what was kept back of both streams.
func (s *Streams) Release(text string) {
	s.err.put(piece{ours: []byte(text), after: func() {
		s.out.release()
		s.err.release()
	}})
}

// Take takes what the helper of a rank sends of its streams: a piece of output, which is
// released when it has been written, or that the rank reads no more. It never waits.
func (s *Streams) Take(m *wire.Data, helper Send) {
	x := piece{from: helper, rank: m.Rank, data: m}
	switch m.Stream {
	case wire.Stdout:
		s.out.put(x)
	case wire.Stderr:
		s.keep(m.Rank, m.Bytes)
		s.err.put(x)
	case wire.Stdin:
		s.feed.drop(m.Rank)
	}
}

// Started tells the process ID of a rank, for labels that have it. That has to come before any
// of its output.
func (s *Streams) Started(rank, pid int) {
	if pid != 0 && s.pids.Load() {
		s.out.put(piece{rank: rank, pid: pid})
		s.err.put(piece{rank: rank, pid: pid})
	}
}

// Ended tells that a rank is over: what it has not ended of a line ends now, and nobody waits
// for what it might write.
func (s *Streams) Ended(rank int) {
	s.out.putEnd(rank)
	s.err.putEnd(rank)
}

// LetRead says which ranks get our standard input, before any of them runs.
func (s *Streams) LetRead(readers []Reader) { s.feed.let(readers) }

// Feed begins to read our standard input, once the ranks were let go. failed is told why there
// is no more, unless it is the end of the input, if any rank wants more.
func (s *Streams) Feed(failed func(error)) {
	if s.feed.in != nil {
		s.feed.ended = make(chan struct{})
		go s.feed.run(failed)
	}
}

// Read tells that a rank has read so many bytes of our standard input.
func (s *Streams) Read(rank, bytes int) { s.feed.grant(rank, bytes) }

// Over tells that a rank is over, and how many bytes of our standard input it has read; below 0: that is not known.
func (s *Streams) Over(rank int, read int64) { s.feed.over(rank, read) }

// GiveBack ends the feeding, when all ranks are over. Input that no rank has read is there again for whatever reads it next, if
// it is a file. Otherwise it returns how many bytes are lost, if no rank has read any.
func (s *Streams) GiveBack() (lost int64) { return s.feed.giveBack() }

// Close ends the feeding. The printers are their owner's.
func (s *Streams) Close() { s.feed.close() }

// keep keeps the end of what a rank writes to stderr.
func (s *Streams) keep(rank int, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) < maxLast {
		text = append(s.last[rank], text...)
	}
	s.last[rank] = bytes.Clone(text[max(0, len(text)-maxLast):])
}

// LastWords is the end of what a rank has written to stderr, at most 512 bytes of it.
func (s *Streams) LastWords(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.last[rank])
}
