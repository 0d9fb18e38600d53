/*
Package stdio connects the standard streams of all ranks with those of mpiexec. Printers write the ranks'
output to the terminal and to files, with labels. A feeder sends mpiexec's standard input to ranks.

	helpers --- Data ---> Streams ---> printer of stdout ---> terminal, files
	   ^                     '-------> printer of stderr ---> terminal, files
	   |                                     |
	   '---- Credit -------------------------'
	   '-- Data, StdinBroadcast ---- feeder <--- mpiexec's standard input
	           Credit ---------------^

A rank may send output while it has credit. It gets more credit when its bytes have been written. mpiexec reads its
input when the slowest rank that receives the input has credit. So the memory in use is limited, even if a terminal or a
rank is slow.

helper/stream.go describes how output gets from a rank to this package. This package has no list of nodes. Each piece of
a rank's output comes with a Sender, which sends messages to the rank's helper. Ranks are numbered within the whole job:
the ranks of a spawned group follow all earlier ranks.
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

// A Sender is a function that sends a message to a helper. It must not wait until the message has been
// written to the connection.
type Sender func(wire.Message) error

// Streams are the standard streams of one job, including its spawned groups.
type Streams struct {
	out, err       *Printer
	feed           *stdinFeeder
	labelsShowPIDs atomic.Bool       // labels show process IDs
	routes         [2]*outputRouting // of stdout and stderr; set by Open

	mu          sync.Mutex     // guards stderrTails
	stderrTails map[int][]byte // by rank, the last bytes of its stderr, at most maxStderrTail
}

// maxStderrTail is how many bytes at the end of a rank's stderr are kept for reports.
const maxStderrTail = 512

// Observers contains functions that the printers call, on their own goroutines.
type Observers struct {
	OnOutput     func(rank int, stream string, data []byte) // receives the output of ranks, and no data at a rank's end; may be nil
	OnStdoutGone func(err error)                            // called when mpiexec's standard output cannot be written to
	OnFileFailed func(err error)                            // called when a file for a rank's output cannot be written to
}

// New returns the streams of a job that has not started. The ranks read their standard input from in, which may be nil.
// The caller may also write lines of its own to the printers.
func New(in io.Reader, out, err *Printer) *Streams {
	return &Streams{out: out, err: err, feed: newStdinFeeder(in), stderrTails: make(map[int][]byte)}
}

// Open opens the files for the ranks' output, and sets where output goes. It must be called before any
// process is started (rule IO-13). The error is a *usererr.Error.
func (s *Streams) Open(options job.Streams, ranks GroupRanks, observers Observers) error {
	if err := rankOptionError(options, ranks.Size); err != nil {
		return err
	}
	out, err := newRouting(options, options.Out, ranks, "stdout")
	if err != nil {
		return err
	}
	errs, err := newRouting(options, options.Err, ranks, "stderr")
	if err != nil {
		out.close()
		return err
	}
	s.routes = [2]*outputRouting{out, errs}
	if observers.OnOutput != nil {
		out.observe = func(rank int, data []byte) { observers.OnOutput(rank, "stdout", data) }
		errs.observe = func(rank int, data []byte) { observers.OnOutput(rank, "stderr", data) }
	}
	s.labelsShowPIDs.Store(strings.Contains(options.Out.Label+options.Err.Label, "%P"))
	s.out.setOnFailure(func(err error, file bool) {
		if file {
			observers.OnFileFailed(err)
		} else {
			observers.OnStdoutGone(err)
		}
	})
	s.err.setOnFailure(func(err error, file bool) {
		if file { // a closed standard error is not reported
			observers.OnFileFailed(err)
		}
	})
	s.out.enqueue(queueItem{routing: out})
	s.err.enqueue(queueItem{routing: errs})
	return nil
}

// rankOptionError returns an error if an option names a rank that does not exist.
func rankOptionError(options job.Streams, size int) error {
	for _, x := range []struct {
		option string
		ranks  job.RankSet
	}{{"-stdin", options.Stdin}, {"--pty", options.PTY}, {"-output-from", options.ShownRanks}} {
		if last := x.ranks.LastRank(); last >= size {
			return &usererr.Error{Text: fmt.Sprintf("%s: there is no rank %d", x.option, last), Remedy: fmt.Sprintf("ranks are 0 to %d", size-1)}
		}
	}
	return nil
}

// A GroupOutput contains the open output files of a group of ranks that is about to be spawned. It must be passed to
// AddGroup or closed.
type GroupOutput struct{ out, err *outputRouting }

// PrepareGroup opens the files for the output of a spawned group that has not started. Only one group at a
// time may be prepared. The error is a *usererr.Error.
func (s *Streams) PrepareGroup(options job.Streams, ranks GroupRanks) (*GroupOutput, error) {
	out, err := s.routes[0].forLaterRanks(options, ranks)
	if err != nil {
		return nil, err
	}
	errs, err := s.routes[1].forLaterRanks(options, ranks)
	if err != nil {
		out.close()
		return nil, err
	}
	return &GroupOutput{out, errs}, nil
}

// Close closes the files of a group that will not be started.
func (g *GroupOutput) Close() {
	g.out.close()
	g.err.close()
}

// AddGroup makes the printers use the prepared files of a spawned group. It must be called before the ranks of the
// group start.
func (s *Streams) AddGroup(g *GroupOutput) {
	s.out.enqueue(queueItem{addedRouting: g.out})
	s.err.enqueue(queueItem{addedRouting: g.err})
}

// HoldOutput begins to hold back the output of ranks. Each call must be followed by ReleaseOutput. Lines of
// mpiexec itself are still written.
func (s *Streams) HoldOutput() {
	s.out.holdOutput()
	s.err.holdOutput()
}

// ReleaseOutput writes text to standard error and then releases the output of both streams that HoldOutput
// has held back.
func (s *Streams) ReleaseOutput(text string) {
	s.out.announceRelease()
	s.err.announceRelease()
	s.err.enqueue(queueItem{ownLine: []byte(text), done: func() {
		s.out.releaseOutput()
		s.err.releaseOutput()
	}})
}

// HandleData handles data from a rank's helper. The data is a piece of output, or the message that the rank has closed
// its stdin. The piece is freed once it has been written. HandleData never blocks.
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

// RankStarted sets the process ID of a rank, for labels that show it. It must be called before the rank's
// first output.
func (s *Streams) RankStarted(rank, pid int) {
	if pid != 0 && s.labelsShowPIDs.Load() {
		s.out.enqueue(queueItem{rank: rank, pid: pid})
		s.err.enqueue(queueItem{rank: rank, pid: pid})
	}
}

// RankEnded records that a rank has ended. If its last line is unfinished, that line is then written. The
// output of other ranks no longer waits for this rank.
func (s *Streams) RankEnded(rank int) {
	s.out.enqueueEnd(rank)
	s.err.enqueueEnd(rank)
}

// SetStdinReaders sets the ranks that receive mpiexec's standard input. It must be called before any of them has
// started.
func (s *Streams) SetStdinReaders(readers []StdinReader) { s.feed.setReaders(readers) }

// FeedStdin starts to read mpiexec's standard input. It must be called after the ranks have been started. If the input
// fails before its end while a rank is still reading it, failed is called on another goroutine.
func (s *Streams) FeedStdin(failed func(error)) {
	if s.feed.in != nil {
		s.feed.ended = make(chan struct{})
		go s.feed.run(failed)
	}
}

// CreditStdin records that a rank has read some bytes of mpiexec's standard input.
func (s *Streams) CreditStdin(rank, bytes int) { s.feed.addCredit(rank, bytes) }

// StdinReaderEnded records that a rank has ended. read is the number of bytes of mpiexec's standard input
// that the rank has read, or negative if that is unknown.
func (s *Streams) StdinReaderEnded(rank int, read int64) { s.feed.rankEnded(rank, read) }

// SeekStdinBack stops reading standard input. It must be called when all ranks have ended. If the input is a
// file, it seeks back to the bytes that no rank has read. If the input is not a file, and no rank has read
// anything, it returns how many bytes are lost.
func (s *Streams) SeekStdinBack() (lost int64) { return s.feed.seekBack() }

// Close stops reading mpiexec's standard input. It does not close the printers.
func (s *Streams) Close() { s.feed.close() }

// keepStderrTail keeps the end of a rank's stderr.
func (s *Streams) keepStderrTail(rank int, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) < maxStderrTail {
		text = append(s.stderrTails[rank], text...)
	}
	s.stderrTails[rank] = bytes.Clone(text[max(0, len(text)-maxStderrTail):])
}

// StderrTail returns the end of a rank's stderr, at most maxStderrTail bytes.
func (s *Streams) StderrTail(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderrTails[rank])
}
