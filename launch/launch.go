/*
Package launch is the life of a job, from the first connection to the result.

	reserve -------> open streams --> start ----> supervise ----> result
	launch/reserve   launch/stdio     let ranks   events -> Step -> actions
	a plan, and its                   go             |       |
	nodes, ready     .--- spawn: reserve, start <---'        | launch/restart
	   ^                                                     v
	   '--------------- pause <-------- fence <---- another attempt

One goroutine reads each connection and sorts what comes (package node): output to the
printers, which alone wait for the terminal; everything else as events into one inbox. One
goroutine, that of Run, takes the events out and owns all state. What is to be done
about an event, Step decides, and it is a pure function.

The package talks to helpers through a Dialer; it neither contains one nor knows
how to reach it.
*/
package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"remshell/batch"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
)

// An Observer is told what happens in a run. Output, which no data ends, is told by the printers
// and may wait as they do; the others must not. Any of them may be called from any goroutine.
type Observer interface {
	Connected(job.ConnectResult)
	Started(job.RankStart)
	Output(rank int, stream string, data []byte)
	Exited(node string, exit job.Exit)
	AttemptEvent(job.AttemptEvent)
	LeftoverFreed(job.Leftover)
	Controlled(job.ControlEvent)
}

// noObserver is the Watcher of who wants to know nothing.
type noObserver struct{}

func (noObserver) Connected(job.ConnectResult)   {}
func (noObserver) Started(job.RankStart)         {}
func (noObserver) Output(int, string, []byte)    {}
func (noObserver) Exited(string, job.Exit)       {}
func (noObserver) AttemptEvent(job.AttemptEvent) {}
func (noObserver) LeftoverFreed(job.Leftover)    {}
func (noObserver) Controlled(job.ControlEvent)   {}

// observer is never nil.
func (e Env) observer() Observer {
	if e.Observer == nil {
		return noObserver{}
	}
	return e.Observer
}

// An Env is the world of a launch.
type Env struct {
	reserve.Env                        // its inbox and listener are the launch's own
	In              io.Reader          // of rank 0; nil: it has none
	Out             *stdio.Printer     // closed when the job is over
	Err             *stdio.Printer     // also, unless there is an error: the caller has that to say
	UnreadInput     func(bytes int64)  // is told at the end of input that was taken, and of which no rank has read any; nil: nobody wants to know
	ReportFailure   func([]string)     // a message about what has failed, line by line, also where Say says nothing; nil: it is written to Err as it is
	Transcript      io.Writer          // takes a transcript of what ranks say on PMI; nil: nobody wants it
	TerminalResized <-chan os.Signal   // the size of our terminal has changed
	BatchState      func() batch.State // asks the batch system how its job stands; nil: nobody can
	Observer        Observer           // is told what happens; nil: nobody wants to know
	InterimResult   func(job.Result)   // is told each Every what has come of the job so far; it must not wait, nor keep what it is told; nil: nobody is
	InterimEvery    time.Duration

	CheckpointRunner CheckpointRunner // of this machine, where a job may be asked for one

	// Of a job that goes on by another mpiexec, or may have to (survive.md 6):
	PastAttempts  []job.Attempt                             // that are over already
	LeftoverNodes []string                                  // nodes on which the last of them may have left ranks
	FormerNodes   []job.NodeDef                             // those of them that are no candidates any more
	AttemptBegan  func(past []job.Attempt, now job.Attempt) // is told of each attempt before its ranks are let go; may be nil
}

// reportFailure tells what has failed.
func (e Env) reportFailure(lines ...string) {
	if e.ReportFailure != nil {
		e.ReportFailure(lines)
	} else {
		fmt.Fprintf(e.Err, "mpiexec: %s\n", strings.Join(lines, "\n"))
	}
}

// Run is the whole story of a job. With an error no ranks of it run: there was none that did, or
// those that did have ended and could not be started again. All that there is to say about
// attempts that ran was said.
func Run(ctx context.Context, req job.Request, env Env) (job.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer env.Out.Close()
	env.StopTimes, env.Topologies = new(node.StopTimes), new(node.Topologies)
	l := &attemptLoop{request: req, env: env, signals: reserve.WatchSignals(env.Env, cancel), attempts: slices.Clone(env.PastAttempts), pastAttempts: len(env.PastAttempts), rateLimits: make(supervise.RateLimits)}
	result, err := l.run(ctx)
	if err != nil { // or it was said before the end of what we say
		env.tellSlowest()
	}
	return result, err
}
