/*
Package launch is the life of a job, from the first connection to the result.

	       .------------ book ------------.
	reach --> survey --> plan.Make --> claim --> start --> supervise
	 dial,     what       pure          every     let       events -> Step -> actions
	 probe     others      |            node, or  them
	           hold        '-> wait     none      go

Reach, survey and claim are under the gate of the queue, so that one job at a time is
given its place (placement.md 6.4).

One goroutine reads each connection and sorts what comes: output to the printers,
which alone wait for the terminal; everything else as events into one box. One
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
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/plan"
	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/transcript"
	"remshell/wire"
)

// A Dialer reaches the helper of one node: its stdin and stdout as one stream, on
// which the helper speaks first. If the stream also has a method Why() string, that
// tells why it ended.
type Dialer interface {
	Dial(ctx context.Context, node job.NodeDef) (io.ReadWriteCloser, error)
}

// A Watcher is told what happens in a run. Output, which no data ends, is told by the printers
// and may wait as they do; the others must not. Any of them may be called from any goroutine.
type Watcher interface {
	Connected(job.Connect)
	Started(job.Start)
	Output(rank int, stream string, data []byte)
	Exited(node string, exit job.Exit)
}

// nobody is the Watcher of who wants to know nothing.
type nobody struct{}

func (nobody) Connected(job.Connect)      {}
func (nobody) Started(job.Start)          {}
func (nobody) Output(int, string, []byte) {}
func (nobody) Exited(string, job.Exit)    {}

// watcher is never nil.
func (e Env) watcher() Watcher {
	if e.Watch == nil {
		return nobody{}
	}
	return e.Watch
}

// An Env is the world of a launch.
type Env struct {
	Dialer  Dialer
	Build   string         // identity of this binary; helpers must be the same
	Release string         // its version for people; helpers on other machines must have the same
	In      io.Reader      // of rank 0; nil: it has none
	Out     *stdio.Printer // closed when the job is over
	Err     *stdio.Printer // also, unless there is an error: the caller has that to say
	Signals <-chan os.Signal
	Log     zerolog.Logger
	Greet   time.Duration                // for a helper's first words, once its host is reached
	Silence time.Duration                // how long a link may be dead
	Probe   time.Duration                // for a node to tell what jobs hold of it; zero: 10 s
	Umask   int                          // negative: leave the nodes' own
	Say     func(text string)            // a line for the user; must not wait
	Seen    func(job.Snapshot)           // takes what the probes found; nil: nobody wants it
	Planned func(job.Snapshot, job.Plan) // takes the plan before it is carried out; may be nil
	Report  bool                         // tell on Err to which CPUs each rank is bound
	Suspend func()                       // stops this process as ^Z does, and returns when it goes on
	Cargo   []Cargo                      // of the request's parcels
	Trace   io.Writer                    // takes a transcript of what ranks say on PMI; nil: nobody wants it
	Find    Find                         // nil: ranks cannot name hosts when they spawn others
	Here    func() string                // the identity of this machine (job.Probe); nil: unknown

	// Progress shows how far a start has come that takes longer than Late; "" takes it
	// away. It may be nil.
	Progress func(text string)
	Late     time.Duration

	// Size is that of our terminal, which Resized says has changed; nil: there is none.
	Size    func() (rows, cols int)
	Resized <-chan os.Signal

	Watch Watcher // is told what happens; nil: nobody wants to know

	pauses *pauses // when we were stopped

	// Again asks whether the request has changed while it waits, and how; nil: it cannot.
	Again func() (req job.Request, changed bool, err error)
}

// A Cancelled is a start that a signal cancelled.
type Cancelled struct{ Signal syscall.Signal }

func (e *Cancelled) Error() string { return "cancelled by " + onNodes(e.Signal).String() }

// Run is the whole story of a job. With an error nothing was started; all that there is
// to say about a job that ran was said.
func Run(ctx context.Context, req job.Request, env Env) (job.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events := newBox()
	env.pauses = new(pauses)
	signals := watchSignals(env, cancel)

	b := newBooking(req, env, events)
	defer b.fleet.close()
	p, startBy, err := b.book(ctx)
	for _, note := range p.Notes {
		env.Say(note.Text)
	}
	if err != nil {
		return job.Result{Connects: b.fleet.connects}, err
	}
	b.saySkipped()
	for _, line := range plan.Folded(p.Rejected) {
		env.Log.Info().Msg("not used: " + line)
	}
	if env.Planned != nil {
		env.Planned(b.snap, p)
	}
	b.fleet.dismiss()
	if startBy, err = b.stage(ctx, startBy); err != nil {
		return job.Result{Connects: b.fleet.connects}, err
	}
	if err := b.fleet.arrange(b.req); err != nil {
		return job.Result{}, err
	}
	signals.handOver(events)
	b.fleet.start(b.req)
	if env.Resized != nil {
		go b.fleet.resize(ctx)
	}
	return b.fleet.supervise(ctx, b.req, startBy)
}

// startLimit is how long a start may take, from the first connection to the last
// rank that runs (cli.md --start-timeout).
func startLimit(req job.Request) time.Duration {
	if req.Limits.Start > 0 {
		return req.Limits.Start
	}
	return time.Minute + time.Duration(len(req.Nodes)/10)*time.Second
}

// lateError is what --start-timeout says when it strikes.
func lateError(req job.Request) *StartError {
	return &StartError{fmt.Sprintf("not every rank had started within %v", startLimit(req)),
		"raise --start-timeout, or see with -v what takes so long", job.ExitInternal}
}

// A fleet is the nodes of a job and the connections to them.
type fleet struct {
	env     Env
	events  *box
	nodes   []*node // those of the plan, in its order, and then those that spawned groups have brought
	all     []*node // every node that was reached
	queue   *node   // whose helper keeps the queue; nil: none does
	queues  []*node // the other queue hosts
	plan    job.Plan
	streams *stdio.Streams
	usize   int  // processes that would fit; 0: unknown
	outrun  bool // other jobs claimed what was planned, again and again

	// Of a job that runs:
	req    job.Request
	state  *supervise.State
	hub    *fence.Hub
	names  pmiserver.NameTable
	meet   string // where torch's ranks meet; empty: nowhere
	groups []*group
	firsts []int // number of the rank 0 of each group
	size   int   // ranks of all groups
	spawns spawns
	trace  *transcript.Recorder // nil: nobody wants it
	graft  *spawning            // this is not a job, but what one of its ranks spawns

	account *account
	states  *states // being asked for; nil: not now

	connects []job.Connect // in the order in which they were begun
}

// A node is one helper, as seen from here.
type node struct {
	name     string      // also for its reader: def may change while a request waits
	def      job.NodeDef // belongs to who books, and then to who supervises
	index    int         // in fleet.nodes of the job that runs; -1: it is none of them, or not yet
	rw       io.ReadWriteCloser
	conn     *wire.Conn
	gate     *gate // that all it says has to pass
	probe    job.Probe
	identity string  // that it said, of the machine
	use      job.Use // what other jobs had of it when it was last asked
	lost     error   // why its connection ended; nil: it has not

	barred string // why its administrator lets nothing of ours run there; empty: he does
	most   *int   // how many ranks of all jobs he lets run; nil: any number

	staged  bool // it has the parcels of the job
	watched bool // it tells when claims change
	inside  bool // as it said when it was last asked, our own job has all that we could use
	beating bool // it is told, now and then, that we are here
}

// send says something to the helper. The error is that of wire.Conn.Send.
func (n *node) send(m wire.Message) error {
	n.gate.tell(m)
	return n.conn.Send(m)
}

// close ends all connections. A helper that is still at work takes it as the end
// of its job.
func (f *fleet) close() {
	var closing sync.WaitGroup
	for _, n := range f.all {
		closing.Go(func() { n.conn.Close() })
	}
	closing.Wait()
	f.streams.Close()
}

// dismiss sends home the helpers that have no rank.
func (f *fleet) dismiss() {
	needed := make(map[*node]bool, len(f.nodes))
	for i, np := range f.plan.Nodes {
		n := f.nodes[i]
		needed[n] = true
		f.env.Log.Info().Str("node", np.Name).Str("host", n.probe.Hostname).Msg(supervise.Ranks(numbers(np.Ranks)))
	}
	for _, n := range f.all {
		if !needed[n] {
			n.send(&wire.Bye{})
		}
	}
}

// A signalWatch cancels a start by the first signal that means it, until the job
// runs and takes its signals itself.
type signalWatch struct {
	mu     sync.Mutex // guards events
	events *box
}

func watchSignals(env Env, cancel context.CancelCauseFunc) *signalWatch {
	w := &signalWatch{}
	go func() {
		for sig := range env.Signals {
			number, _ := sig.(syscall.Signal)
			w.mu.Lock()
			events := w.events
			w.mu.Unlock()
			switch {
			case events != nil:
				events.put(supervise.Signaled{Signal: onNodes(number)})
			case number == syscall.SIGTSTP:
				env.pauses.during(env.Suspend)
			case number == syscall.SIGINT || number == syscall.SIGTERM || number == syscall.SIGHUP || number == syscall.SIGQUIT:
				cancel(&Cancelled{number})
			}
		}
	}()
	return w
}

func (w *signalWatch) handOver(events *box) {
	w.mu.Lock()
	w.events = events
	w.mu.Unlock()
}
