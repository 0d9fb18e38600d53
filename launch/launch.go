/*
Package launch runs a job, from the first connection to the result.

	Run --> attemptLoop.run --> runAttempt
	                              reserveNodes    a plan; its nodes are prepared        launch/reserve
	                              openStreams                                           launch/stdio
	                              startRanks      features are attached (Hooks), Start
	                              supervise       events of nodes, users, time --> Step supervise, hold
	                              attemptEnded    does another attempt follow?          launch/restart
	                              report          the cause, the rest of the output
	            betweenAttempts   fence, pause <--'

The package itself handles nodes, groups of ranks, fences, streams and failures. Everything else is a feature with
a directory of its own, which adds functions to Hooks. Package feature imports all features.

One goroutine reads each connection and sorts its messages (package node). Output goes to the printers, which are
the only code that waits for the terminal. All other messages become events in one inbox. The goroutine of Run
takes the events from the inbox, and is the only one that uses the job's state. A pure function (package supervise)
decides which actions follow an event.

The package connects to helpers through a Dialer that the caller provides. It does not know how to reach a host.
*/
package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"remshell/batch"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
)

// An Observer receives the events of a run. Output is called by the printers and may block. The other
// methods must not block. All methods may be called from any goroutine.
type Observer interface {
	Connected(job.ConnectResult)
	Started(job.RankStart)
	Output(rank int, stream string, data []byte)
	Exited(node string, exit job.Exit)
	AttemptEvent(job.AttemptEvent)
	LeftoverFound(job.Leftover)
	Controlled(job.ControlEvent)
	StacksRead(job.StackRecord)
}

// noObserver is an Observer that ignores everything.
type noObserver struct{}

func (noObserver) Connected(job.ConnectResult)   {}
func (noObserver) Started(job.RankStart)         {}
func (noObserver) Output(int, string, []byte)    {}
func (noObserver) Exited(string, job.Exit)       {}
func (noObserver) AttemptEvent(job.AttemptEvent) {}
func (noObserver) LeftoverFound(job.Leftover)    {}
func (noObserver) Controlled(job.ControlEvent)   {}
func (noObserver) StacksRead(job.StackRecord)    {}

// Events returns e.Observer. If that is nil, it returns an Observer that ignores everything.
func (e Env) Events() Observer {
	if e.Observer == nil {
		return noObserver{}
	}
	return e.Observer
}

// An Env contains the streams, signals and callbacks that the caller provides for Run.
type Env struct {
	reserve.Env                        // launch sets Inbox and Listener itself
	In              io.Reader          // standard input of rank 0; nil: none
	Out             *stdio.Printer     // closed when the job is over
	Err             *stdio.Printer     // likewise, unless Run returns an error, which the caller prints
	UnreadInput     func(bytes int64)  // called at the end with the bytes read of In, if no rank has read any of them; may be nil
	ReportFailure   func([]string)     // prints a failure line by line, even with --quiet; nil: it is written to Err
	TerminalResized <-chan os.Signal   // receives a value when the size of our terminal changes
	BatchState      func() batch.State // asks the batch system for the state of its job; nil: there is none
	Observer        Observer           // nil: nothing is observed

	// For a job that continues under another mpiexec, or may have to (survive.md 6):
	PastAttempts  []job.Attempt                             // attempts that are over
	LeftoverNodes []string                                  // nodes on which the last of them may have left ranks
	FormerNodes   []job.NodeDef                             // nodes of LeftoverNodes that the request no longer names
	AttemptBegan  func(past []job.Attempt, now job.Attempt) // called before the ranks of each attempt start; may be nil
}

// PrintFailure reports a failure to the user.
func (e Env) PrintFailure(lines ...string) {
	if e.ReportFailure != nil {
		e.ReportFailure(lines)
	} else {
		fmt.Fprintf(e.Err, "mpiexec: %s\n", strings.Join(lines, "\n"))
	}
}

// Run runs a job to its end. If it returns an error, no ranks are running. Either no rank was started, or the
// last attempt (one run of all ranks) has ended and no other could be started. Failures of earlier attempts are
// already reported.
func Run(ctx context.Context, req job.Request, env Env) (job.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer env.Out.Close()
	env.StopTimes, env.Topologies = new(node.StopTimes), new(node.Topologies)
	l := &attemptLoop{request: req, env: env, signals: reserve.WatchSignals(env.Env, cancel), attempts: slices.Clone(env.PastAttempts), pastAttempts: len(env.PastAttempts), states: make(map[reflect.Type]any)}
	result, err := l.run(ctx)
	if err != nil { // otherwise supervise has reported it
		env.reportSlowest()
	}
	return result, err
}
