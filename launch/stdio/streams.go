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

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A Sender takes a message for a helper, and never waits for it to be written.
type Sender func(wire.Message) error

// Streams are those of one job and of all groups that are spawned in it.
type Streams struct {
	out, err       *Printer
	feed           *stdinFeeder
	labelsShowPIDs atomic.Bool       // labels show process IDs
	routes         [2]*outputRouting // of stdout and stderr; set by Open

	mu          sync.Mutex     // guards last
	stderrTails map[int][]byte // what each rank last wrote to stderr, at most maxLast bytes
}

// maxStderrTail is how much of a rank's stderr is kept for a report, in bytes.
const maxStderrTail = 512

// An Observers is who wants to know what becomes of the streams. The printers call it, in goroutines
// of their own.
type Observers struct {
	OnOutput     func(rank int, stream string, data []byte) // sees what ranks write; no data: the end; nil: nobody does
	OnStdoutGone func(err error)                            // our standard output takes no more
	OnFileFailed func(err error)                            // a file takes no more of a rank's output
}

// New returns the streams of a job of which nothing runs yet: in is what ranks will read; nil:
// there is nothing. The printers are the caller's own, too, for lines that are no rank's.
func New(in io.Reader, out, err *Printer) *Streams {
	return &Streams{out: out, err: err, feed: newStdinFeeder(in), stderrTails: make(map[int][]byte)}
}

// Open opens the files for the output of a job's ranks, and tells the printers where what
// goes. Nothing has been started yet (IO-13). The error is a *usererr.Error.
func (s *Streams) Open(wanted job.Streams, who GroupRanks, told Observers) error {
	if err := rankOptionError(wanted, who.Size); err != nil {
		return err
	}
	out, err := newRouting(wanted, wanted.Out, who, "stdout")
	if err != nil {
		return err
	}
	errs, err := newRouting(wanted, wanted.Err, who, "stderr")
	if err != nil {
		out.close()
		return err
	}
	s.routes = [2]*outputRouting{out, errs}
	if told.OnOutput != nil {
		out.observe = func(rank int, data []byte) { told.OnOutput(rank, "stdout", data) }
		errs.observe = func(rank int, data []byte) { told.OnOutput(rank, "stderr", data) }
	}
	s.labelsShowPIDs.Store(strings.Contains(wanted.Out.Label+wanted.Err.Label, "%P"))
	s.out.setOnFailure(func(err error, file bool) {
		if file {
			told.OnFileFailed(err)
		} else {
			told.OnStdoutGone(err)
		}
	})
	s.err.setOnFailure(func(err error, file bool) {
		if file { // who closes our standard error does not want to hear of it
			told.OnFileFailed(err)
		}
	})
	s.out.enqueue(queueItem{routing: out})
	s.err.enqueue(queueItem{routing: errs})
	return nil
}

// rankOptionError is the error of an option that names a rank that there is not.
func rankOptionError(wanted job.Streams, size int) error {
	for _, x := range []struct {
		option string
		ranks  job.RankSet
	}{{"-stdin", wanted.Stdin}, {"--pty", wanted.PTY}, {"-output-from", wanted.ShownRanks}} {
		if last := x.ranks.LastRank(); last >= size {
			return &usererr.Error{Text: fmt.Sprintf("%s: there is no rank %d", x.option, last), Remedy: fmt.Sprintf("ranks are 0 to %d", size-1)}
		}
	}
	return nil
}

// A GroupOutput is where the output of a group goes that is to be spawned. Its files are open: it
// ends by Grow or by Close.
type GroupOutput struct{ out, err *outputRouting }

// PrepareGroup opens the files for the output of a group, of which nobody has been started yet.
// One group at a time is prepared. The error is a *usererr.Error.
func (s *Streams) PrepareGroup(wanted job.Streams, who GroupRanks) (*GroupOutput, error) {
	out, err := s.routes[0].forLaterRanks(wanted, who)
	if err != nil {
		return nil, err
	}
	errs, err := s.routes[1].forLaterRanks(wanted, who)
	if err != nil {
		out.close()
		return nil, err
	}
	return &GroupOutput{out, errs}, nil
}

// Close closes the files of a group that is not started.
func (g *GroupOutput) Close() {
	g.out.close()
	g.err.close()
}

// AddGroup takes in a group, before anything of it runs.
func (s *Streams) AddGroup(g *GroupOutput) {
	s.out.enqueue(queueItem{addedRouting: g.out})
	s.err.enqueue(queueItem{addedRouting: g.err})
}

// HoldOutput keeps the output of ranks back until Release is called as often. Lines of our own are written.
func (s *Streams) HoldOutput() {
	s.out.holdOutput()
	s.err.holdOutput()
}

// ReleaseOutput writes a text to standard error. Then it lets go what was kept back of both streams.
func (s *Streams) ReleaseOutput(text string) {
	s.err.enqueue(queueItem{ownLine: []byte(text), done: func() {
		s.out.releaseOutput()
		s.err.releaseOutput()
	}})
}

// HandleData takes what the helper of a rank sends of its streams: a piece of output, which is
// released when it has been written, or that the rank reads no more. It never waits.
func (s *Streams) HandleData(m *wire.Data, helper Sender) {
	x := queueItem{from: helper, rank: m.Rank, data: m}
	switch m.Stream {
	case wire.Stdout:
		s.out.enqueue(x)
	case wire.Stderr:
		s.keepStderrTail(m.Rank, m.Bytes)
		s.err.enqueue(x)
	case wire.Stdin:
		s.feed.dropReader(m.Rank)
	}
}

// RankStarted tells the process ID of a rank, for labels that have it. That has to come before any
// of its output.
func (s *Streams) RankStarted(rank, pid int) {
	if pid != 0 && s.labelsShowPIDs.Load() {
		s.out.enqueue(queueItem{rank: rank, pid: pid})
		s.err.enqueue(queueItem{rank: rank, pid: pid})
	}
}

// RankEnded tells that a rank is over: what it has not ended of a line ends now, and nobody waits
// for what it might write.
func (s *Streams) RankEnded(rank int) {
	s.out.enqueueEnd(rank)
	s.err.enqueueEnd(rank)
}

// AddStdinReaders says which ranks get our standard input, before any of them runs.
func (s *Streams) AddStdinReaders(readers []StdinReader) { s.feed.addReaders(readers) }

// FeedStdin begins to read our standard input, once the ranks were let go. failed is told why there
// is no more, unless it is the end of the input, if any rank wants more.
func (s *Streams) FeedStdin(failed func(error)) {
	if s.feed.in != nil {
		s.feed.ended = make(chan struct{})
		go s.feed.run(failed)
	}
}

// CreditStdin tells that a rank has read so many bytes of our standard input.
func (s *Streams) CreditStdin(rank, bytes int) { s.feed.addCredit(rank, bytes) }

// StdinReaderEnded tells that a rank is over, and how many bytes of our standard input it has read; below 0: that is not known.
func (s *Streams) StdinReaderEnded(rank int, read int64) { s.feed.rankEnded(rank, read) }

// SeekStdinBack ends the feeding, when all ranks are over. Input that no rank has read is there again for whatever reads it next, if
// it is a file. Otherwise it returns how many bytes are lost, if no rank has read any.
func (s *Streams) SeekStdinBack() (lost int64) { return s.feed.seekBack() }

// Close ends the feeding. The printers are their owner's.
func (s *Streams) Close() { s.feed.close() }

// keepStderrTail keeps the end of what a rank writes to stderr.
func (s *Streams) keepStderrTail(rank int, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) < maxStderrTail {
		text = append(s.stderrTails[rank], text...)
	}
	s.stderrTails[rank] = bytes.Clone(text[max(0, len(text)-maxStderrTail):])
}

// StderrTail is the end of what a rank has written to stderr, at most 512 bytes of it.
func (s *Streams) StderrTail(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderrTails[rank])
}
