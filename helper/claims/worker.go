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
	tasks   taskQueue
	done    chan struct{} // closed when it has let everything go

	machineID         string      // empty: not looked up yet
	ledger            *ledger.Dir // nil: not opened yet
	decisionLock      *ledger.DecisionLock
	lockTimer         *time.Timer                  // when the gate has been shut for too long
	held              map[string]*ledger.HeldClaim // by group
	clusterHeld       map[string]*ledger.HeldClaim // the same in the cluster's ledger, where the user names another
	carried           CarriedClaims                // what an earlier attempt of the job has claimed
	queuePlace        *ledger.QueuePlace
	stopWatchingQueue func()             // ends the wait for our turn
	queuedJob         job.ID             // whose place it is
	pingTimer         *time.Timer        // runs out when nobody waits any more
	lastQueued        wire.QueuePosition // what mpiexec was told
	watchingClaims    bool               // mpiexec is told of changes of claims
	userNames         map[int]string     // of users that were looked up; empty: there is none
	requests          jobRequests

	nodeFile    string        // of the node's administrator
	clusterFile string        // his cluster file, which names administrators
	lastPing    atomic.Int64  // when mpiexec last said that it waits, in ns since began
	began       time.Time     // of this session
	lockTimeout time.Duration // how long the gate may be shut
}

// New makes one for the session that sends by send; root is "/", and environ our own environment. It
// holds what the session of an earlier attempt has left.
func New(root fs.FS, environ []string, send func(wire.Message) error, rested CarriedClaims) *Worker {
	w := &Worker{carried: rested, root: root, environ: environ, send: send, tasks: taskQueue{added: make(chan struct{}, 1)}, held: make(map[string]*ledger.HeldClaim), clusterHeld: make(map[string]*ledger.HeldClaim), userNames: make(map[int]string), done: make(chan struct{}), began: time.Now(), lockTimeout: decisionLockTimeout, nodeFile: config.NodeFile, clusterFile: config.ClusterFile}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		defer w.releaseEverything()
		ledger.WarmUpJSON()
		for {
			select {
			case <-w.tasks.added:
				for task := w.tasks.nextTask(); task != nil && w.ctx.Err() == nil; task = w.tasks.nextTask() {
					task()
				}
			case <-w.ctx.Done():
				return
			}
		}
	}()
	return w
}

// HandleMessage does what mpiexec asks about the ledger, in its turn.
func (w *Worker) HandleMessage(m wire.Message) {
	if _, ok := m.(*wire.Ping); ok {
		w.notePing()
	}
	w.runTask(func() {
		switch m := m.(type) {
		case *wire.LockDecision:
			w.takeDecisionLock(m)
		case *wire.UnlockDecision:
			w.releaseDecisionLock()
		case *wire.Survey:
			w.surveyClaims(m)
		case *wire.Enqueue:
			w.enqueue(m)
		case *wire.Dequeue:
			w.dequeue()
		case *wire.WatchClaims:
			w.watchClaims(m)
		case *wire.ListLedger:
			w.listJobs(m)
		case *wire.SignalJob:
			w.signalJob(m)
		case *wire.Overtake:
			w.passUser(m)
		case *wire.Evict:
			w.evictJob(m)
		case *wire.ControlRequest:
			w.submitRequest(m)
		case *wire.ControlReply:
			w.handleReply(m)
		case *wire.Ping: // all that wait may have become more
			w.reportPosition()
		}
	})
}

// runTask has a task done behind those before it, and never waits: it tells the session of
// what it has done, and both would wait for the other to take it. Tasks that come after close
// are dropped.
func (w *Worker) runTask(task func()) { w.tasks.addTask(task) }

// A taskQueue is what is to be done. It has no bound: what is in it, mpiexec has sent.
type taskQueue struct {
	mu    sync.Mutex // guards list
	list  []func()
	added chan struct{} // there may be something
}

func (b *taskQueue) addTask(task func()) {
	b.mu.Lock()
	b.list = append(b.list, task)
	b.mu.Unlock()
	select {
	case b.added <- struct{}{}:
	default:
	}
}

// nextTask takes the oldest; nil: there is none.
func (b *taskQueue) nextTask() (task func()) {
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

func (w *Worker) releaseEverything() {
	w.releaseAllClaims()
	w.carried.Release()
	w.releaseDecisionLock()
	w.dequeue()
	w.awaitRepliesSeen()
	w.removeReplies()
}

// SetMachineID tells what machine this is (job.Probe.Identity), ahead of all that needs it; else that is looked up.
func (w *Worker) SetMachineID(machine string) { w.runTask(func() { w.machineID = machine }) }

// openLedger finds the ledger, once.
func (w *Worker) openLedger(name string) (*ledger.Dir, error) {
	if w.ledger != nil {
		return w.ledger, nil
	}
	if w.machineID == "" {
		w.machineID = probe.Identity(w.root)
	}
	dir, err := ledger.Open(name, w.machineID)
	w.ledger = dir
	return dir, err
}

// surveyClaims tells what other jobs hold of the node. What cannot be read is nothing, with a
// notice.
func (w *Worker) surveyClaims(m *wire.Survey) {
	answer := &wire.Surveyed{Load: probe.Load(w.root)}
	rules := probe.NodeRules(w.nodeFile, "")
	answer.Forbidden, answer.Limited, answer.MaxRanks, answer.Warnings = rules.Forbidden, rules.MaxRanks >= 0, max(rules.MaxRanks, 0), rules.Warnings
	others, err := w.otherClaims(m.Ledger, func(claim job.Claim) bool { return slices.Contains(m.IgnoredUsers, claim.UID) })
	if err != nil {
		answer.Notice = err.Error()
	}
	outer, mine := splitEnclosingJobs(others.Mine, m.ParentJob, os.Geteuid())
	_, others.Mine = splitEnclosingJobs(mine, m.OwnJob, os.Geteuid())
	if m.RM != "" {
		var beyond ledger.OtherClaims
		others, beyond = splitByBatchJob(others, m.RM)
		answer.OutsideOccupancy = beyond.Occupancy()
	}
	answer.Occupancy = others.Occupancy()
	cpus, err := rank.Affinity()
	if err == nil && len(outer) > 0 {
		answer.InParentJob = claimsCover(outer, cpus)
	}
	full := err == nil && len(answer.Occupancy.BusyCPUs) > 0 && idset.Set(answer.Occupancy.BusyCPUs).HasAll(cpus)
	if full { // then people ask why
		answer.Occupancy.Idle = probe.IsIdle(answer.Occupancy.TopUID, answer.Occupancy.TopPID, answer.Occupancy.Since)
		w.nameSurveyed(&answer.Occupancy)
	}
	if m.WantAttributes {
		answer.Attributes = probe.Attributes(w.root, w.environ)
	}
	answer.Truncate()
	w.send(answer)
}

// otherClaims is what living claims hold here, but for those that without is true of.
func (w *Worker) otherClaims(name string, without func(job.Claim) bool) (ledger.OtherClaims, error) {
	dir, err := w.openLedger(name)
	if err != nil {
		return ledger.OtherClaims{}, err
	}
	return dir.ReadOthers(without)
}

// listClaims lists them all.
func (w *Worker) listClaims(name string) ([]job.Claim, error) {
	dir, err := w.openLedger(name)
	if err != nil {
		return nil, err
	}
	return dir.Claims()
}
