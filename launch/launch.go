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

// A Watcher is told what happens in a run. Output, which no data ends, is told by the printers
// and may wait as they do; the others must not. Any of them may be called from any goroutine.
type Watcher interface {
	Connected(job.Connect)
	Started(job.Start)
	Output(rank int, stream string, data []byte)
	Exited(node string, exit job.Exit)
	Again(job.Again)
	Cleaned(job.Remnant)
	Asked(job.Heard)
}

// nobody is the Watcher of who wants to know nothing.
type nobody struct{}

func (nobody) Connected(job.Connect)      {}
func (nobody) Started(job.Start)          {}
func (nobody) Output(int, string, []byte) {}
func (nobody) Exited(string, job.Exit)    {}
func (nobody) Again(job.Again)            {}
func (nobody) Cleaned(job.Remnant)        {}
func (nobody) Asked(job.Heard)            {}

// watcher is never nil.
func (e Env) watcher() Watcher {
	if e.Watch == nil {
		return nobody{}
	}
	return e.Watch
}

// An Env is the world of a launch.
type Env struct {
	reserve.Env                    // its inbox and listener are the launch's own
	In          io.Reader          // of rank 0; nil: it has none
	Out         *stdio.Printer     // closed when the job is over
	Err         *stdio.Printer     // also, unless there is an error: the caller has that to say
	Unread      func(bytes int64)  // is told at the end of input that was taken, and of which no rank has read any; nil: nobody wants to know
	Fail        func([]string)     // a message about what has failed, line by line, also where Say says nothing; nil: it is written to Err as it is
	Trace       io.Writer          // takes a transcript of what ranks say on PMI; nil: nobody wants it
	Resized     <-chan os.Signal   // the size of our terminal has changed
	RMState     func() batch.State // asks the batch system how its job stands; nil: nobody can
	Watch       Watcher            // is told what happens; nil: nobody wants to know
	Interim     func(job.Result)   // is told each Every what has come of the job so far; it must not wait, nor keep what it is told; nil: nobody is
	Every       time.Duration

	Checkpoints Checkpointer // of this machine, where a job may be asked for one

	// Of a job that goes on by another mpiexec, or may have to (survive.md 6):
	Past    []job.Attempt                             // that are over already
	Remains []string                                  // nodes on which the last of them may have left ranks
	Former  []job.NodeDef                             // those of them that are no candidates any more
	Began   func(past []job.Attempt, now job.Attempt) // is told of each attempt before its ranks are let go; may be nil
}

// fail tells what has failed.
func (e Env) fail(lines ...string) {
	if e.Fail != nil {
		e.Fail(lines)
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
	env.Pauses, env.Topologies = new(node.Pauses), new(node.Topologies)
	l := &lives{first: req, env: env, signals: reserve.WatchSignals(env.Env, cancel), attempts: slices.Clone(env.Past), past: len(env.Past), paces: make(supervise.Paces)}
	result, err := l.run(ctx)
	if err != nil { // or it was said before the end of what we say
		env.tellSlowest()
	}
	return result, err
}
