//go:build linux

/*
Package claims keeps the node's ledger for one session: what the job claims here, its place in
the queue, the gate. It does one thing after the other on a goroutine of its own, since it may
have to wait for a lock, and what it holds is let go when the session ends.

	session --Take, Claim, Release--> Worker --> package ledger
	   mpiexec <-- Gated, Surveyed, Queued, Changed, Listed
*/
package claims

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"remshell/config"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/idset"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// A Worker keeps the ledger for one session.
type Worker struct {
	root    fs.FS
	environ []string // our own, which bounds what we may use
	send    func(wire.Message) error
	ctx     context.Context // ends with the session
	stop    context.CancelFunc
	tasks   backlog
	done    chan struct{} // closed when it has let everything go

	machine string      // empty: not looked up yet
	ledger  *ledger.Dir // nil: not opened yet
	gate    *ledger.Gate
	due     *time.Timer             // when the gate has been shut for too long
	held    map[string]*ledger.Held // by group
	noted   map[string]*ledger.Held // the same in the cluster's ledger, where the user names another
	rested  Rested                  // what an earlier attempt of the job has claimed
	place   *ledger.QueuePlace
	turn    func()         // ends the wait for our turn
	waits   job.ID         // whose place it is
	quiet   *time.Timer    // runs out when nobody waits any more
	last    wire.Queued    // what mpiexec was told
	watches bool           // mpiexec is told of changes of claims
	names   map[int]string // of users that were looked up; empty: there is none
	asks    asks

	nodeFile string        // of the node's administrator
	cluster  string        // his cluster file, which names administrators
	heard    atomic.Int64  // when mpiexec last said that it waits, in ns since began
	began    time.Time     // of this session
	gateMost time.Duration // how long the gate may be shut
}

// New makes one for the session that sends by send; root is "/", and environ our own environment. It
// holds what the session of an earlier attempt has left.
func New(root fs.FS, environ []string, send func(wire.Message) error, rested Rested) *Worker {
	w := &Worker{rested: rested, root: root, environ: environ, send: send, tasks: backlog{some: make(chan struct{}, 1)}, held: make(map[string]*ledger.Held), noted: make(map[string]*ledger.Held), names: make(map[int]string), done: make(chan struct{}), began: time.Now(), gateMost: gateMost, nodeFile: config.NodeFile, cluster: config.ClusterFile}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		defer w.letGo()
		ledger.WarmUp()
		for {
			select {
			case <-w.tasks.some:
				for task := w.tasks.next(); task != nil && w.ctx.Err() == nil; task = w.tasks.next() {
					task()
				}
			case <-w.ctx.Done():
				return
			}
		}
	}()
	return w
}

// Take does what mpiexec asks about the ledger, in its turn.
func (w *Worker) Take(m wire.Message) {
	if _, ok := m.(*wire.Ping); ok {
		w.hear()
	}
	w.do(func() {
		switch m := m.(type) {
		case *wire.Gate:
			w.enter(m)
		case *wire.Ungate:
			w.ungate()
		case *wire.Survey:
			w.survey(m)
		case *wire.Enqueue:
			w.enqueue(m)
		case *wire.Dequeue:
			w.dequeue()
		case *wire.Watch:
			w.watch(m)
		case *wire.List:
			w.list(m)
		case *wire.Alert:
			w.alert(m)
		case *wire.Pass:
			w.pass(m)
		case *wire.Evict:
			w.evict(m)
		case *wire.Ask:
			w.show(m)
		case *wire.Answer:
			w.answered(m)
		case *wire.Ping: // all that wait may have become more
			w.tellPosition()
		}
	})
}

// do has a task done behind those before it, and never waits: it tells the session of
// what it has done, and both would wait for the other to take it. Tasks that come after close
// are dropped.
func (w *Worker) do(task func()) { w.tasks.put(task) }

// A backlog is what is to be done. It has no bound: what is in it, mpiexec has sent.
type backlog struct {
	mu   sync.Mutex // guards list
	list []func()
	some chan struct{} // there may be something
}

func (b *backlog) put(task func()) {
	b.mu.Lock()
	b.list = append(b.list, task)
	b.mu.Unlock()
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// next takes the oldest; nil: there is none.
func (b *backlog) next() (task func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) > 0 {
		task, b.list = b.list[0], b.list[1:]
	}
	return task
}

// inform tells mpiexec what somebody may want to know.
func (w *Worker) inform(warning bool, text string) {
	w.send(&wire.Log{Warning: warning, Text: text})
}

// Close lets everything go and waits until that is done.
func (w *Worker) Close() {
	w.stop()
	<-w.done
}

func (w *Worker) letGo() {
	w.releaseAll()
	w.rested.Release()
	w.ungate()
	w.dequeue()
	w.awaitSeen()
	w.dropAsks()
}

// On tells what machine this is (job.Probe.Identity), ahead of all that needs it; else that is looked up.
func (w *Worker) On(machine string) { w.do(func() { w.machine = machine }) }

// open finds the ledger, once.
func (w *Worker) open(name string) (*ledger.Dir, error) {
	if w.ledger != nil {
		return w.ledger, nil
	}
	if w.machine == "" {
		w.machine = probe.Identity(w.root)
	}
	dir, err := ledger.Open(name, w.machine)
	w.ledger = dir
	return dir, err
}

// survey tells what other jobs hold of the node. What cannot be read is nothing, with a
// notice.
func (w *Worker) survey(m *wire.Survey) {
	answer := &wire.Surveyed{Load: probe.Load(w.root)}
	rules := probe.RulesOf(w.nodeFile, "")
	answer.Barred, answer.Limited, answer.Most, answer.Warnings = rules.Barred, rules.Most >= 0, max(rules.Most, 0), rules.Warnings
	others, err := w.others(m.Ledger, func(claim job.Claim) bool { return slices.Contains(m.Without, claim.UID) })
	if err != nil {
		answer.Notice = err.Error()
	}
	outer, mine := related(others.Mine, m.Inside, os.Geteuid())
	_, others.Mine = related(mine, m.Own, os.Geteuid())
	if m.RM != "" {
		var beyond ledger.Others
		others, beyond = apart(others, m.RM)
		answer.Beyond = beyond.Use()
	}
	answer.Use = others.Use()
	cpus, err := rank.Affinity()
	if err == nil && len(outer) > 0 {
		answer.Inside = hold(outer, cpus)
	}
	full := err == nil && len(answer.Use.Busy) > 0 && idset.Set(answer.Use.Busy).HasAll(cpus)
	if full { // then people ask why
		answer.Use.Idle = probe.Idle(answer.Use.WhoUID, answer.Use.WhoPID, answer.Use.Since)
		w.nameSurveyed(&answer.Use)
	}
	if m.Traits {
		answer.Traits = probe.Traits(w.root, w.environ)
	}
	answer.Fit()
	w.send(answer)
}

// others is what living claims hold here, but for those that without is true of.
func (w *Worker) others(name string, without func(job.Claim) bool) (ledger.Others, error) {
	dir, err := w.open(name)
	if err != nil {
		return ledger.Others{}, err
	}
	return dir.Others(without)
}

// claims lists them all.
func (w *Worker) claims(name string) ([]job.Claim, error) {
	dir, err := w.open(name)
	if err != nil {
		return nil, err
	}
	return dir.Claims()
}
