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
	"remshell/proc"
	"remshell/wire"
)

// A process is a rank of the job on this node, from its plan to its exit. All but
// pmiState and spoken belongs to the session's goroutine.
type process struct {
	group    *group
	number   int          // in the job
	plan     job.RankPlan // in the group
	index    int          // as life numbers those that were started here
	staged   string       // the parcel that is the program; empty: none is
	command  rank.Command // but for what is known only when it starts
	loosened bool         // it runs on the CPUs of its group, not on those that the plan gives it

	begun   rank.Process // PID 0: not started
	started time.Time
	dying   bool      // it was about to end when it was told to
	barrier int       // in which it waited when a signal was sent to it, from 1; 0: in none
	exit    *job.Exit // set when reaped

	in       *stdinWriter // nil: stdin is /dev/null
	out, err *source
	pmi      pmiStream
	tcp      *tcpSession    // that is pmi, if the rank comes in by the port
	id       int            // its PMI_ID then
	pmiState atomic.Int32   // a job.PMIState, set by the goroutine that serves pmi
	spoken   [2]atomic.Bool // it has introduced itself by PMI, or by PMIx

	born  chan struct{} // closed when mpiexec was told that it runs, and its streams are there
	talk  sync.Mutex    // guards ended
	ended bool          // mpiexec was told so
}

// attach puts goroutines on our ends of the rank's pipes.
func (r *process) attach(window int, pool *pipe.Pool, send func(wire.Message) error) {
	p := &r.begun.Pipes
	if r.in != nil {
		go r.in.run(p.Stdin())
	}
	r.out = newSource(r.number, wire.Stdout, p.Stdout(), window, send)
	r.err = newSource(r.number, wire.Stderr, p.Stderr(), window, send)
	r.out.width = width{pool: pool, wanted: window}
	r.err.width = r.out.width
	if r.command.Terminal {
		r.out.owner = make(chan struct{})
	}
	go r.out.run()
	go r.err.run()
	switch {
	case r.tcp != nil:
		r.pmi = r.tcp
	case !r.offered().PMI():
		r.pmi = newTCPSession() // that nobody begins
	default:
		r.pmi = newPMIConn(p.PMI())
	}
}

// alive reports whether the rank was started and not yet reaped.
func (r *process) alive() bool { return r.begun.PID != 0 && r.exit == nil }

// note takes down how the rank ended. The usage is that of the rank and of the
// children it waited for; seen is the largest memory that was seen of it while it ran.
func (r *process) note(exit job.Exit, seen int64, now time.Time) {
	exit.Rank, exit.Usage.Wall = r.number, now.Sub(r.started)
	if exit.Usage.MaxRSS <= r.begun.Floor { // it may be ours
		exit.Usage.MaxRSS = seen
	}
	r.exit = &exit
}

// forget lets the rank talk into nothing from now on.
func (r *process) forget() {
	if r.begun.PID == 0 {
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
		awaited := []<-chan struct{}{r.pmi.lastAnswer(), r.out.drained, r.err.drained}
		if r.in != nil {
			awaited = append(awaited, r.in.over)
		}
		for _, said := range awaited {
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

// awaitSilence calls done when the pipes of the rank have ended: nobody is left who could write.
func (r *process) awaitSilence(done func()) {
	go func() {
		if r.begun.PID != 0 {
			<-r.out.ended
			<-r.err.ended
		}
		done()
	}()
}

// state tells what the rank is doing, of the processes around it.
func (r *process) state(around proc.Tree) job.RankState {
	state := job.RankState{Rank: r.number, Life: "starting", PMI: job.PMIState(r.pmiState.Load())}
	if r.exit != nil { // its number may be another process's by now
		state.Life, state.CPU = "over", r.exit.Usage.User+r.exit.Usage.System
		return state
	}
	if look, there := proc.LookAt(r.begun.PID); r.begun.PID != 0 && there {
		worker := around.Worker(r.begun.PID)
		state.PID, state.Life, state.CPU = r.begun.PID, "running", look.CPU+around.CPU(r.begun.PID)
		state.Barrier = r.group.pmi.Barrier(r.plan.Rank)
		state.Sleep = proc.Sleep(worker)
		if look, there := proc.LookAt(worker); there {
			state.Kind = string(look.State)
		}
	}
	return state
}

// resize tells the terminal of a rank, if it has one, how large that is.
func (r *process) resize(size unix.Winsize) {
	if r.command.Terminal && r.out != nil {
		rank.Resize(r.out.File, size)
	}
}
