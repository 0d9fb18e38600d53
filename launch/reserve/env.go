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

	"remshell/fault"
	"remshell/job"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/timeline"
)

// An Env is the world of a reservation.
type Env struct {
	node.Connector
	Terms
	Inbox     *node.Inbox   // what the reservation is told
	Listener  node.Listener // where all goes that new nodes say; what is for the reservation has to come to Inbox
	Signals   <-chan os.Signal
	Suspend   func()                       // stops this process as ^Z does, and returns when it goes on
	Probe     time.Duration                // for a node to tell what jobs hold of it; zero: 10 s
	Say       func(text string)            // a line for the user; must not wait
	Seen      func(job.Snapshot)           // takes what the probes found; nil: nobody wants it
	Planned   func(job.Snapshot, job.Plan) // takes the plan before it is carried out; may be nil
	Reached   func(job.Connect)            // takes how each host was reached, from any goroutine; may be nil
	Cargo     []Cargo                      // of the request's parcels
	Find      info.Find                    // nil: ranks cannot name hosts when they spawn others
	Localhost func() string                // the identity of this machine (job.Probe); nil: unknown
	Row       timeline.Row                 // of mpiexec, where the Timeline has what concerns no host alone

	// Reread asks whether the request has changed while it waits, and how; nil: it cannot.
	Reread func() (req job.Request, changed bool, err error)

	// Progress shows how far a start has come that takes longer than Late; "" takes it
	// away. It may be nil.
	Progress func(text string)
	Late     time.Duration
}

// Terms is what the helpers are told of a job's ranks beside the request and the plan.
type Terms struct {
	Input   bool                    // there is something to read for them
	Umask   int                     // negative: leave the nodes' own
	Pin     bool                    // a binding was asked for as such (--pin)
	Report  bool                    // they tell to which CPUs each rank is bound
	Explain bool                    // they tell why a section is offered PMI, PMIx or both
	Traced  bool                    // they tell what ranks say on PMI
	Window  func(ranks int) int     // how many bytes of an output stream of one rank may be under way
	Size    func() (rows, cols int) // of our terminal; nil: there is none
	Token   string                  // by which the job's ranks are known to their PMIx servers: 16 random hex digits
}

// Cargo is what is in a parcel of the request.
type Cargo interface {
	io.ReaderAt
	Sum() (string, error) // its SHA-256
}

// A Cancelled is a start that a signal cancelled.
type Cancelled struct{ Signal syscall.Signal }

func (e *Cancelled) Error() string {
	if name := unix.SignalName(e.Signal); name != "" {
		return "cancelled by " + name
	}
	return fmt.Sprint("cancelled by signal ", int(e.Signal))
}

// StartLimit is how long a start may take, from the first connection to the last
// rank that runs (cli.md --start-timeout).
func StartLimit(req job.Request) time.Duration {
	if req.Limits.Start > 0 {
		return req.Limits.Start
	}
	return time.Minute + time.Duration(len(req.Nodes)/10)*time.Second
}

// lateError is what --start-timeout says when it strikes.
func lateError(req job.Request) *fault.Error {
	return &fault.Error{Text: fmt.Sprintf("not every rank had started within %v", StartLimit(req)),
		Remedy: "raise --start-timeout, or see with -v what takes so long", Code: job.ExitInternal}
}

// A SignalWatch cancels a start by the first signal that means it, until the job
// runs and takes its signals itself.
type SignalWatch struct {
	env    Env
	cancel context.CancelCauseFunc
	mu     sync.Mutex // held while a signal is handled, and we are stopped; guards take
	take   func(syscall.Signal)
}

// WatchSignals begins to watch the signals of a world.
func WatchSignals(env Env, cancel context.CancelCauseFunc) *SignalWatch {
	w := &SignalWatch{env: env, cancel: cancel}
	go func() {
		for sig := range env.Signals {
			number, _ := sig.(syscall.Signal)
			w.mu.Lock()
			w.hear(number)
			w.mu.Unlock()
		}
	}()
	return w
}

// hear does what a signal means at the moment.
func (w *SignalWatch) hear(number syscall.Signal) {
	switch {
	case w.take != nil:
		w.take(number)
	case number == syscall.SIGTSTP:
		w.env.Pauses.During(w.env.Suspend)
	case number == syscall.SIGINT || number == syscall.SIGTERM || number == syscall.SIGHUP || number == syscall.SIGQUIT:
		w.cancel(&Cancelled{number})
	}
}

// HandOver has all further signals taken by somebody else, who must not wait. If we are stopped it waits: whoever
// reckons with deadlines from then on knows of each stop before.
func (w *SignalWatch) HandOver(take func(syscall.Signal)) {
	w.mu.Lock()
	w.take = take
	w.mu.Unlock()
}

// TakeBack ends what HandOver began. Signals that were taken, and then came to nobody, are in left, which
// is called when no more are taken: they are heard as any that comes from now on.
func (w *SignalWatch) TakeBack(left func() []syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take = nil
	for _, number := range left() {
		w.hear(number)
	}
}
