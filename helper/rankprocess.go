//go:build linux

package helper

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/pipe"
	"remshell/wire"
)

// A Rank is a rank of the job on this node, from its plan to its exit. Only the session's goroutine may use its fields,
// except those that are safe for concurrent use.
type Rank struct {
	group          *Group
	Number         int          // in the job
	Plan           job.RankPlan // in the group
	lifecycleIndex int          // the number that the lifecycle gives it
	command        rank.Command // completed when the rank starts
	onGroupCPUs    bool         // runs on all CPUs of its group instead of the CPUs in its plan

	Child   rank.Process // PID 0: not started
	started time.Time
	dying   bool      // was exiting by itself when SIGTERM was sent
	barrier int       // from 1: in which PMI barrier it waited when a signal was sent; 0: in none
	Exit    *job.Exit // set when reaped

	stdin          *stdinWriter // nil: stdin is /dev/null
	stdout, stderr *outputStream
	pmi            pmiStream
	tcp            *tcpSession    // same as pmi if the rank connects by PMI_PORT, else nil
	pmiID          int            // its PMI_ID, if it connects by PMI_PORT
	pmiState       atomic.Int32   // a job.PMIState, set by the goroutine that serves pmi
	initedBy       [2]atomic.Bool // by protocol: it has sent init

	announced    chan struct{} // closed when Started is sent and the streams are attached
	reportMu     sync.Mutex    // guards exitReported
	exitReported bool          // Exited was sent, or is not wanted
}

// attachStreams starts the goroutines that read and write the helper's ends of the rank's pipes.
func (r *Rank) attachStreams(window int, pool *pipe.SizePool, send func(wire.Message) error) {
	p := &r.Child.Pipes
	if r.stdin != nil {
		go r.stdin.run(p.Stdin())
	}
	r.stdout = newOutputStream(r.Number, wire.Stdout, p.Stdout(), window, send)
	r.stderr = newOutputStream(r.Number, wire.Stderr, p.Stderr(), window, send)
	r.stdout.pipeSize = pipeGrowth{pool: pool, wanted: window}
	r.stderr.pipeSize = r.stdout.pipeSize
	if r.command.Terminal {
		r.stdout.reaped = make(chan struct{})
	}
	go r.stdout.run()
	go r.stderr.run()
	switch {
	case r.tcp != nil:
		r.pmi = r.tcp
	case !r.pmiOffered().OffersPMI():
		r.pmi = newTCPSession() // has no connection
	default:
		r.pmi = newPMIConn(p.PMI())
	}
}

// alive reports whether the rank's process was started and its end has not been noticed yet.
func (r *Rank) alive() bool { return r.Child.PID != 0 && r.Exit == nil }

// noteExit records how the rank ended. The recorded usage is that of the rank and of the children for which
// it has waited.
func (r *Rank) noteExit(exit job.Exit, now time.Time) {
	exit.Rank, exit.Usage.Wall = r.Number, now.Sub(r.started)
	if exit.Usage.MaxRSS <= r.Child.MemoryFloor {
		exit.Usage.MaxRSS = 0 // the value may be the helper's, from before exec
	}
	r.Exit = &exit
}

// discardOutput makes the helper drop all further output of the rank, and ends the rank's input. The rank can
// continue to write.
func (r *Rank) discardOutput() {
	if r.Child.PID == 0 {
		return
	}
	r.stdout.discardRest()
	r.stderr.discardRest()
	if r.stdin != nil {
		r.stdin.close()
	}
}

// awaitOutput calls done when the rank's remaining output has been sent and its PMI requests have been
// answered (rule IO-10). It waits for PMI requests because an unanswered abort would look like a crash.
// Waiting is limited to outputTimeout only if the rank has failed or limited is closed.
func (r *Rank) awaitOutput(limited <-chan struct{}, done func()) {
	r.stdout.RankExited()
	r.stderr.RankExited()
	r.pmi.RankExited()
	if r.stdin != nil {
		r.stdin.close()
	}
	if r.Exit.Status() != 0 {
		now := make(chan struct{})
		close(now)
		limited = now
	}
	go func() {
		var late <-chan time.Time
		awaited := []<-chan struct{}{r.pmi.allAnswered(), r.stdout.drained, r.stderr.drained}
		if r.stdin != nil {
			awaited = append(awaited, r.stdin.done)
		}
		for _, sent := range awaited {
			for waiting := true; waiting; {
				select {
				case <-sent:
					waiting = false
				case <-limited:
					limited, late = nil, time.After(outputTimeout)
				case <-late:
					done()
					return
				}
			}
		}
		done()
	}()
}

// awaitPipesClosed calls done when all processes that can write to the rank's pipes have closed them.
func (r *Rank) awaitPipesClosed(done func()) {
	go func() {
		if r.Child.PID != 0 {
			<-r.stdout.ended
			<-r.stderr.ended
		}
		done()
	}()
}

// resizeTerminal sets the size of the rank's terminal, if it has one.
func (r *Rank) resizeTerminal(size unix.Winsize) {
	if r.command.Terminal && r.stdout != nil {
		rank.ResizeTerminal(r.stdout.File, size)
	}
}
