//go:build linux

package helper

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

// A process is a rank of the job on this node, from its plan to its exit. All but
// pmiState belongs to the session's goroutine.
type process struct {
	group   *group
	number  int          // in the job
	plan    job.RankPlan // in the group
	path    string       // of the program on this node
	staged  string       // the parcel that is the program; empty: none is
	tty     bool         // it has a pseudo-terminal
	argv    []string
	env     []string // of its app; its identity is added at the start
	dir     string
	pid     int // 0: not started
	floor   int64
	started time.Time
	dying   bool      // it was about to end when it was told to
	exit    *job.Exit // set when reaped

	in       *sink // nil: stdin is /dev/null
	out, err *source
	pmi      pmiStream
	tcp      *tcpSession  // that is pmi, if the rank comes in by the port
	id       int          // its PMI_ID then
	pmiState atomic.Int32 // a job.PMIState, set by the goroutine that serves pmi
	said     bool         // all it said before its end was sent

	born  chan struct{} // closed when mpiexec was told that it runs
	talk  sync.Mutex    // guards ended
	ended bool          // mpiexec was told so
}

// attach puts goroutines on our ends of the rank's pipes.
func (r *process) attach(p rank.Pipes, window int, send func(wire.Message) error) {
	if r.in != nil {
		go r.in.run(p.Stdin())
	}
	r.out = newSource(r.number, wire.Stdout, p.Stdout(), window, send)
	r.err = newSource(r.number, wire.Stderr, p.Stderr(), window, send)
	go r.out.run()
	go r.err.run()
	if r.tcp != nil {
		r.pmi = r.tcp
	} else {
		r.pmi = newPMIConn(p.PMI())
	}
}

// alive reports whether the rank was started and not yet reaped.
func (r *process) alive() bool { return r.pid != 0 && r.exit == nil }

// reaped notes how the rank ended. The usage is that of the rank and of the
// children it waited for; seen is the largest memory that was seen of it while it ran.
func (r *process) reaped(status unix.WaitStatus, used unix.Rusage, seen int64, now time.Time) {
	r.exit = &job.Exit{
		Rank:  r.number,
		Usage: usageOf(&used, now.Sub(r.started)),
	}
	if r.exit.Usage.MaxRSS <= r.floor { // it may be ours
		r.exit.Usage.MaxRSS = seen
	}
	if status.Signaled() {
		r.exit.Signal = int(status.Signal())
		r.exit.Core = status.CoreDump()
	} else {
		r.exit.Code = status.ExitStatus()
	}
}

// forget lets the rank talk into nothing from now on.
func (r *process) forget() {
	if r.pid == 0 {
		return
	}
	r.out.forget()
	r.err.forget()
	if r.in != nil {
		r.in.close()
	}
}

// lastWords asks for the rank's remaining output and calls done when it was sent
// (IO-10). It may take as long as its reader likes, unless the rank has failed or the job
// is being ended: then, or when hurry closes, lastWords is the limit. What the rank last
// said on PMI counts too, or an abort would be taken for a crash.
func (r *process) lastWords(hurry <-chan struct{}, done func()) {
	r.out.OwnerEnded()
	r.err.OwnerEnded()
	r.pmi.OwnerEnded()
	if r.in != nil {
		r.in.close()
	}
	if r.exit.Status() != 0 {
		now := make(chan struct{})
		close(now)
		hurry = now
	}
	go func() {
		var late <-chan time.Time
		for _, said := range []<-chan struct{}{r.pmi.lastAnswer(), r.out.drained, r.err.drained} {
			for waiting := true; waiting; {
				select {
				case <-said:
					waiting = false
				case <-hurry:
					hurry, late = nil, time.After(lastWords)
				case <-late:
					done()
					return
				}
			}
		}
		done()
	}()
}

// resize tells the terminal of a rank, if it has one, how large that is.
func (r *process) resize(size unix.Winsize) {
	if r.tty && r.out != nil {
		rank.Resize(r.out.File, size)
	}
}
