package reserve

import (
	"context"
	"fmt"
	"io"
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
)

// An Env is the world of a reservation.
type Env struct {
	node.Connector
	RankOptions
	Inbox        *node.Inbox   // what the reservation is told
	Listener     node.Listener // where all goes that new nodes say; what is for the reservation has to come to Inbox
	Signals      <-chan os.Signal
	Suspend      func()                       // stops this process as ^Z does, and returns when it goes on
	ProbeTimeout time.Duration                // for a node to tell what jobs hold of it; zero: 10 s
	Report       func(text string)            // a line for the user; must not wait
	OnSnapshot   func(job.Snapshot)           // takes what the probes found; nil: nobody wants it
	OnPlan       func(job.Snapshot, job.Plan) // takes the plan before it is carried out; may be nil
	OnConnect    func(job.ConnectResult)      // takes how each host was reached, from any goroutine; may be nil
	FileContents []FileContent                // of the request's parcels
	FindHosts    info.FindHosts               // nil: ranks cannot name hosts when they spawn others
	Localhost    func() string                // the identity of this machine (job.Probe); nil: unknown
	TraceRow     trace.Row                    // of mpiexec, where the Timeline has what concerns no host alone

	// RereadRequest asks whether the request has changed while it waits, and how; nil: it cannot.
	RereadRequest func() (req job.Request, changed bool, err error)

	// Progress shows how far a start has come that takes longer than Late; "" takes it
	// away. It may be nil.
	Progress      func(text string)
	ProgressAfter time.Duration
}

// RankOptions is what the helpers are told of a job's ranks beside the request and the plan.
type RankOptions struct {
	HasInput       bool                    // there is something to read for them
	Umask          int                     // negative: leave the nodes' own
	BindingAsked   bool                    // a binding was asked for as such (--pin)
	ReportBindings bool                    // they tell to which CPUs each rank is bound
	ExplainOffer   bool                    // they tell why a section is offered PMI, PMIx or both
	TracePMI       bool                    // they tell what ranks say on PMI
	Window         func(ranks int) int     // how many bytes of an output stream of one rank may be under way
	TerminalSize   func() (rows, cols int) // of our terminal; nil: there is none
	Token          string                  // by which the job's ranks are known to their PMIx servers: 16 random hex digits
}

// FileContent is what is in a parcel of the request.
type FileContent interface {
	io.ReaderAt
	Checksum() (string, error) // its SHA-256
}

// A SignalError is a start that a signal cancelled.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string {
	if name := unix.SignalName(e.Signal); name != "" {
		return "cancelled by " + name
	}
	return fmt.Sprint("cancelled by signal ", int(e.Signal))
}

// StartTimeout is how long a start may take, from the first connection to the last
// rank that runs (cli.md --start-timeout).
func StartTimeout(req job.Request) time.Duration {
	if req.TimeLimits.Start > 0 {
		return req.TimeLimits.Start
	}
	return time.Minute + time.Duration(len(req.Nodes)/10)*time.Second
}

// startTimeoutError is what --start-timeout says when it strikes.
func startTimeoutError(req job.Request) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("not every rank had started within %v", StartTimeout(req)),
		Remedy: "raise --start-timeout, or see with -v what takes so long", Code: job.ExitInternal}
}

// A SignalWatch cancels a start by the first signal that means it, until the job
// runs and takes its signals itself.
type SignalWatch struct {
	env     Env
	cancel  context.CancelCauseFunc
	mu      sync.Mutex // held while a signal is handled, and we are stopped; guards take
	handler func(syscall.Signal)
}

// WatchSignals begins to watch the signals of a world.
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

// handle does what a signal means at the moment.
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

// HandOver has all further signals taken by somebody else, who must not wait. If we are stopped it waits: whoever
// reckons with deadlines from then on knows of each stop before.
func (w *SignalWatch) HandOver(take func(syscall.Signal)) {
	w.mu.Lock()
	w.handler = take
	w.mu.Unlock()
}

// TakeBack ends what HandOver began. Signals that were taken, and then came to nobody, are in left, which
// is called when no more are taken: they are heard as any that comes from now on.
func (w *SignalWatch) TakeBack(left func() []syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = nil
	for _, number := range left() {
		w.handle(number)
	}
}
