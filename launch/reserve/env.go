package reserve

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

// An Env contains the services and settings that the caller provides for a reservation.
type Env struct {
	node.Connector // Connect, and the Dialer that it uses
	RankOptions
	Inbox        *node.Inbox   // events for the reservation
	Listener     node.Listener // receives the messages of new nodes; its Inbox must be Inbox
	Signals      <-chan os.Signal
	Suspend      func()                       // stops this process as ^Z does, and returns when it continues
	ProbeTimeout time.Duration                // time limit for a node's reply to a survey; 0 means 10 s
	Report       func(text string)            // prints a line for the user; must not block
	OnSnapshot   func(job.Snapshot)           // receives the result of the probes; may be nil
	OnPlan       func(job.Snapshot, job.Plan) // receives the plan before it is carried out; may be nil
	OnConnect    func(job.ConnectResult)      // receives the result of each connection, from any goroutine; may be nil
	FindHosts    info.FindHosts               // if nil, ranks cannot name hosts when they spawn others
	Localhost    func() string                // identity of this machine (job.Probe); nil if unknown
	TraceRow     trace.Row                    // mpiexec's row of the trace, for steps that are not about one host

	// RereadRequest returns the request if it has changed while it waits. If RereadRequest is nil, it cannot change.
	RereadRequest func() (req job.Request, changed bool, err error)

	// Progress shows the state of a start that takes longer than ProgressAfter; "" removes it. It may be nil.
	Progress      func(text string)
	ProgressAfter time.Duration
}

// RankOptions are settings for ranks that are part of neither the request nor the plan.
type RankOptions struct {
	HasInput     bool                    // mpiexec has a stdin that ranks can read
	Umask        int                     // umask of the ranks; if negative, that of each node
	BindingAsked bool                    // a binding was requested explicitly (--pin)
	ExplainOffer bool                    // helpers explain why an app context is offered PMI, PMIx or both
	Window       func(ranks int) int     // returns how many bytes of one rank's output stream may be in flight
	TerminalSize func() (rows, cols int) // size of mpiexec's terminal; nil if there is none
	Token        string                  // with which PMIx servers recognize the job's ranks: 16 random hex digits
	Settings     []wire.Setting          // of features
}

// A SignalError is returned when a signal has cancelled the start of a job.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string {
	if name := unix.SignalName(e.Signal); name != "" {
		return "cancelled by " + name
	}
	return fmt.Sprint("mpiexec was cancelled by signal ", int(e.Signal))
}

// StartTimeout returns how long a start may take, from the first connection until all ranks run (cli.md
// --start-timeout).
func StartTimeout(req job.Request) time.Duration {
	if req.TimeLimits.Start > 0 {
		return req.TimeLimits.Start
	}
	return time.Minute + time.Duration(len(req.Nodes)/10)*time.Second
}

// startTimeoutError returns the error for a start that did not finish within StartTimeout.
func startTimeoutError(req job.Request) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("not all ranks started within %v", StartTimeout(req)),
		Remedy: "increase --start-timeout; -v shows which step takes so long", Code: job.ExitInternal}
}

// A SignalWatch handles the signals that mpiexec receives. During a start, SIGINT, SIGTERM, SIGHUP and SIGQUIT cancel
// the start. Once the job runs, signals are passed on to the job (HandOver).
type SignalWatch struct {
	env     Env
	cancel  context.CancelCauseFunc
	mu      sync.Mutex // guards handler; held while a signal is handled and while mpiexec is stopped
	handler func(syscall.Signal)
}

// WatchSignals starts to handle the signals from env.Signals. It calls cancel when a signal that ends the job arrives.
func WatchSignals(env Env, cancel context.CancelCauseFunc) *SignalWatch {
	w := &SignalWatch{env: env, cancel: cancel}
	go func() {
		for sig := range env.Signals {
			number, _ := sig.(syscall.Signal)
			w.mu.Lock()
			w.handle(number)
			w.mu.Unlock()
		}
	}()
	return w
}

// handle handles one signal. It stops mpiexec, cancels the start of the job, or passes the signal on to the
// job.
func (w *SignalWatch) handle(number syscall.Signal) {
	switch {
	case w.handler != nil:
		w.handler(number)
	case number == syscall.SIGTSTP:
		w.env.StopTimes.RunStopped(w.env.Suspend)
	case number == syscall.SIGINT || number == syscall.SIGTERM || number == syscall.SIGHUP || number == syscall.SIGQUIT:
		w.cancel(&SignalError{number})
	}
}

// HandOver passes all further signals to handle, which must not block. If mpiexec is stopped (SIGSTOP), HandOver first
// waits until mpiexec continues. So deadlines that the caller sets afterwards do not include the stop.
func (w *SignalWatch) HandOver(handle func(syscall.Signal)) {
	w.mu.Lock()
	w.handler = handle
	w.mu.Unlock()
}

// TakeBack ends the effect of HandOver: signals are no longer passed on. unhandled must return the signals that were
// passed on but not handled. TakeBack handles these signals.
func (w *SignalWatch) TakeBack(unhandled func() []syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = nil
	for _, number := range unhandled() {
		w.handle(number)
	}
}
