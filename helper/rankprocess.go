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

// A rankProcess is a rank of the job on this node, from its plan to its exit. All but
// pmiState and spoken belongs to the session's goroutine.
type rankProcess struct {
	group          *group
	number         int          // in the job
	plan           job.RankPlan // in the group
	lifecycleIndex int          // as life numbers those that were started here
	stagedProgram  string       // the parcel that is the program; empty: none is
	command        rank.Command // but for what is known only when it starts
	onGroupCPUs    bool         // it runs on the CPUs of its group, not on those that the plan gives it

	child   rank.Process // PID 0: not started
	started time.Time
	dying   bool      // it was about to end when it was told to
	barrier int       // in which it waited when a signal was sent to it, from 1; 0: in none
	exit    *job.Exit // set when reaped

	stdin          *stdinWriter // nil: stdin is /dev/null
	stdout, stderr *outputStream
	pmi            pmiStream
	tcp            *tcpSession    // that is pmi, if the rank comes in by the port
	pmiID          int            // its PMI_ID then
	pmiState       atomic.Int32   // a job.PMIState, set by the goroutine that serves pmi
	initedBy       [2]atomic.Bool // it has introduced itself by PMI, or by PMIx

	announced    chan struct{} // closed when mpiexec was told that it runs, and its streams are there
	reportMu     sync.Mutex    // guards ended
	exitReported bool          // mpiexec was told so
}

// attachStreams puts goroutines on our ends of the rank's pipes.
func (r *rankProcess) attachStreams(window int, pool *pipe.SizePool, send func(wire.Message) error) {
	p := &r.child.Pipes
	if r.stdin != nil {
		go r.stdin.run(p.Stdin())
	}
	r.stdout = newOutputStream(r.number, wire.Stdout, p.Stdout(), window, send)
	r.stderr = newOutputStream(r.number, wire.Stderr, p.Stderr(), window, send)
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
		r.pmi = newTCPSession() // that nobody begins
	default:
		r.pmi = newPMIConn(p.PMI())
	}
}

// alive reports whether the rank was started and not yet reaped.
func (r *rankProcess) alive() bool { return r.child.PID != 0 && r.exit == nil }

// noteExit takes down how the rank ended. The usage is that of the rank and of the
// children it waited for; seen is the largest memory that was seen of it while it ran.
func (r *rankProcess) noteExit(exit job.Exit, seen int64, now time.Time) {
	exit.Rank, exit.Usage.Wall = r.number, now.Sub(r.started)
	if exit.Usage.MaxRSS <= r.child.MemoryFloor { // it may be ours
		exit.Usage.MaxRSS = seen
	}
	r.exit = &exit
}

// discardOutput lets the rank talk into nothing from now on.
func (r *rankProcess) discardOutput() {
	if r.child.PID == 0 {
		return
	}
	r.stdout.discardRest()
	r.stderr.discardRest()
	if r.stdin != nil {
		r.stdin.close()
	}
}

// awaitOutput asks for the rank's remaining output and calls done when it was sent
// (IO-10). It may take as long as its reader likes, unless the rank has failed or the job
// is being ended: then, or when hurry closes, lastWords is the limit. What the rank last
// said on PMI counts too, or an abort would be taken for a crash.
func (r *rankProcess) awaitOutput(hurry <-chan struct{}, done func()) {
	r.stdout.RankExited()
	r.stderr.RankExited()
	r.pmi.RankExited()
	if r.stdin != nil {
		r.stdin.close()
	}
	if r.exit.Status() != 0 {
		now := make(chan struct{})
		close(now)
		hurry = now
	}
	go func() {
		var late <-chan time.Time
		awaited := []<-chan struct{}{r.pmi.allAnswered(), r.stdout.drained, r.stderr.drained}
		if r.stdin != nil {
			awaited = append(awaited, r.stdin.done)
		}
		for _, said := range awaited {
			for waiting := true; waiting; {
				select {
				case <-said:
					waiting = false
				case <-hurry:
					hurry, late = nil, time.After(outputTimeout)
				case <-late:
					done()
					return
				}
			}
		}
		done()
	}()
}

// awaitPipesClosed calls done when the pipes of the rank have ended: nobody is left who could write.
func (r *rankProcess) awaitPipesClosed(done func()) {
	go func() {
		if r.child.PID != 0 {
			<-r.stdout.ended
			<-r.stderr.ended
		}
		done()
	}()
}

// state tells what the rank is doing, of the processes around it.
func (r *rankProcess) state(around proc.Tree) job.RankState {
	state := job.RankState{Rank: r.number, Phase: "starting", PMI: job.PMIState(r.pmiState.Load())}
	if r.exit != nil { // its number may be another process's by now
		state.Phase, state.CPU = "over", r.exit.Usage.User+r.exit.Usage.System
		return state
	}
	if look, there := proc.ReadInfo(r.child.PID); r.child.PID != 0 && there {
		worker := around.ActiveChild(r.child.PID)
		state.PID, state.Phase, state.CPU = r.child.PID, "running", look.CPU+around.CPU(r.child.PID)
		state.Barrier = r.group.pmi.Barrier(r.plan.Rank)
		state.WaitChannel = proc.WaitChannel(worker)
		if look, there := proc.ReadInfo(worker); there {
			state.ProcState = string(look.State)
		}
	}
	return state
}

// resizeTerminal tells the terminal of a rank, if it has one, how large that is.
func (r *rankProcess) resizeTerminal(size unix.Winsize) {
	if r.command.Terminal && r.stdout != nil {
		rank.ResizeTerminal(r.stdout.File, size)
	}
}
