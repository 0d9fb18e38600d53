//go:build linux

/*
Package claims uses the node's ledger for one session. The ledger is a directory of files: the claims of jobs, their
places in the queue, and requests to jobs. It also contains the decision lock, by which jobs are planned one at a time.
The Worker does its tasks one after another on a goroutine of its own, because a task may have to wait for a lock. When
the session ends, the package releases everything.

	session --HandleMessage, Claim, Release--> Worker --> package ledger
	   mpiexec <-- DecisionLocked, Surveyed, QueuePosition, ClaimsChanged, LedgerListed
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

// A Worker uses the node's ledger (directory of claims) for one session.
type Worker struct {
	// CollectStates returns the states of the ranks that a job has on this node, for a listing. If it is nil, listings have none.
	// It is set before the first message.
	CollectStates func(key job.Key, claims []job.Claim) []job.RankState
	// Now is the wall clock of the node. If it is nil, it is time.Now.
	Now func() time.Time

	root    fs.FS
	environ []string // our own environment, which limits the usable GPUs
	send    func(wire.Message) error
	ctx     context.Context // ends with the session
	stop    context.CancelFunc
	tasks   taskQueue
	done    chan struct{} // closed when everything has been released

	machineID         string      // empty: not looked up yet
	ledger            *ledger.Dir // nil: not opened yet
	decisionLock      *ledger.DecisionLock
	lockTimer         *time.Timer                  // runs out when the decision lock has been held too long
	held              map[string]*ledger.HeldClaim // by group
	clusterHeld       map[string]*ledger.HeldClaim // likewise in the cluster file's ledger, if the user names another ledger
	carried           CarriedClaims                // claims of the job's last attempt
	queuePlace        *ledger.QueuePlace
	stopWatchingQueue func()             // ends the reports of the position
	queuedJob         job.ID             // the job that queuePlace belongs to
	pingTimer         *time.Timer        // runs out when no Ping has arrived for PingTimeout
	lastQueued        wire.QueuePosition // the last position sent
	watchingClaims    bool               // ClaimsChanged is sent
	userNames         map[int]string     // names of users that were looked up; empty: no name
	requests          jobRequests
	holds             map[job.Hold]bool // why the ranks are stopped, without the turns of gangs

	adminFiles  probe.AdminFiles // files of the node's administrator, without those of limits
	clusterFile string           // cluster file on this node, which names administrators
	lastPing    atomic.Int64     // time of the last Ping, in ns since began
	began       time.Time        // of this session
	lockTimeout time.Duration    // longest time to hold the decision lock
}

// New starts a Worker for a session. send sends a message to mpiexec. root is "/", and environ is the helper's own
// environment. carriedOver contains the claims that were kept from the job's last attempt (one run of all ranks).
func New(root fs.FS, environ []string, send func(wire.Message) error, carriedOver CarriedClaims) *Worker {
	w := &Worker{carried: carriedOver, root: root, environ: environ, send: send, tasks: taskQueue{added: make(chan struct{}, 1)}, held: make(map[string]*ledger.HeldClaim), clusterHeld: make(map[string]*ledger.HeldClaim), userNames: make(map[int]string), holds: make(map[job.Hold]bool), done: make(chan struct{}), began: time.Now(), lockTimeout: decisionLockTimeout, adminFiles: probe.AdminFiles{Node: config.NodeFile, State: config.StateFile}, clusterFile: config.ClusterFile}
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

// handlers is the table of functions that handle messages about the node's ledger (directory of claims).
var handlers = func() (o wire.Owner[*Worker]) {
	wire.Handle(&o, (*Worker).takeDecisionLock)
	wire.Handle(&o, func(w *Worker, _ *wire.UnlockDecision) { w.releaseDecisionLock() })
	wire.Handle(&o, (*Worker).surveyClaims)
	wire.Handle(&o, (*Worker).enqueue)
	wire.Handle(&o, func(w *Worker, _ *wire.Dequeue) { w.dequeue() })
	wire.Handle(&o, (*Worker).watchClaims)
	wire.Handle(&o, (*Worker).listJobs)
	wire.Handle(&o, (*Worker).signalJob)
	wire.Handle(&o, (*Worker).overtakeUser)
	wire.Handle(&o, (*Worker).evictJob)
	wire.Handle(&o, (*Worker).submitRequest)
	wire.Handle(&o, (*Worker).handleReply)
	wire.Handle(&o, func(w *Worker, _ *wire.Ping) { w.reportPosition() }) // the number of requests in the queue may have changed
	return o
}()

func (w *Worker) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

// Owns reports whether messages such as m are handled by a Worker.
func Owns(m wire.Message) bool { return handlers.Owns(m) }

// HandleMessage queues a message from mpiexec about the node's ledger (directory of claims). The message is handled
// after the tasks that were queued before it.
func (w *Worker) HandleMessage(m wire.Message) {
	if _, ok := m.(*wire.Ping); ok {
		w.notePing()
	}
	w.runTask(func() { handlers.Handle(w, m) })
}

// runTask queues a task. It never blocks: tasks send messages through the session, so the worker and the
// session could otherwise wait for each other. Tasks that are queued after Close are dropped.
func (w *Worker) runTask(task func()) { w.tasks.addTask(task) }

// A taskQueue is a queue of tasks. It may become arbitrarily long.
type taskQueue struct {
	mu    sync.Mutex // guards list
	list  []func()
	added chan struct{} // signals that list may not be empty
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

// nextTask removes and returns the oldest task. It returns nil if the queue is empty.
func (b *taskQueue) nextTask() (task func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) > 0 {
		task, b.list = b.list[0], b.list[1:]
	}
	return task
}

// inform sends a line to mpiexec's log.
func (w *Worker) inform(warning bool, text string) {
	w.send(&wire.Log{Warning: warning, Text: text})
}

// Close releases all claims, locks and queue places of the session, and waits until that is done.
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

// SetMachineID sets the identity of the machine (job.Probe.Identity). If it is not called, the Worker
// determines the identity when it is needed.
func (w *Worker) SetMachineID(machine string) { w.runTask(func() { w.machineID = machine }) }

// openLedger opens the node's ledger (directory of claims). In each session it is opened only once.
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

// surveyClaims sends mpiexec a summary of the claims of other jobs on this node, the node's load, and the
// administrator's rules. If the claims cannot be read, it sends a notice with the reason instead of the summary.
func (w *Worker) surveyClaims(m *wire.Survey) {
	answer := &wire.Surveyed{Load: probe.Load(w.root)}
	rules := w.adminFiles.Rules()
	answer.Forbidden, answer.Drained = rules.Forbidden, rules.Drained
	answer.Limited, answer.MaxRanks, answer.Warnings = rules.MaxRanks >= 0, max(rules.MaxRanks, 0), rules.Warnings
	var expected job.GangTerms
	if m.WantGang {
		terms, slice, err := probe.GangTerms(w.clusterFile, w.adminFiles.State)
		if err != nil {
			answer.Warnings = append(answer.Warnings[:min(len(answer.Warnings), job.MaxWarnings-1)], "cannot read the settings for --gang jobs, so their turns have the default length: "+err.Error())
		}
		if expected = terms; slice.Length > 0 { // all gangs follow it, whatever their claims say
			terms.Slice, expected.Slice = slice.Length, 0
		}
		answer.Gang, answer.Clock = terms, w.now()
	}
	others, err := w.otherClaims(m.Ledger, expected, func(claim job.Claim) bool { return slices.Contains(m.IgnoredUsers, claim.UID) })
	if err != nil {
		answer.Notice = err.Error()
	}
	outer, mine := splitEnclosingJobs(others.Mine, m.ParentJob, os.Geteuid())
	_, others.Mine = splitEnclosingJobs(mine, m.OwnJob, os.Geteuid())
	if m.RM != "" {
		var outside ledger.OtherClaims
		others, outside = splitByBatchJob(others, m.RM)
		answer.OutsideOccupancy = outside.Occupancy()
	}
	answer.Occupancy = others.Occupancy()
	cpus, err := rank.Affinity()
	if err == nil && len(outer) > 0 {
		answer.InParentJob = claimsCover(outer, cpus)
	}
	full := err == nil && len(answer.Occupancy.BusyCPUs) > 0 && idset.Set(answer.Occupancy.BusyCPUs).HasAll(cpus)
	if full { // then users want to know who uses the node
		answer.Occupancy.Idle = probe.IsIdle(answer.Occupancy.TopUID, answer.Occupancy.TopPID, answer.Occupancy.Since)
		w.nameSurveyed(&answer.Occupancy)
	}
	if m.WantAttributes {
		answer.Attributes = probe.Attributes(w.root, w.environ)
	}
	answer.Truncate()
	w.send(answer)
}

// otherClaims returns a summary of the claims in a ledger, which is a node's directory of claims. It leaves out claims
// for which isIgnored returns true. name is the path of the directory. terms say which gangs may share CPUs with this
// job.
func (w *Worker) otherClaims(name string, terms job.GangTerms, isIgnored func(job.Claim) bool) (ledger.OtherClaims, error) {
	dir, err := w.openLedger(name)
	if err != nil {
		return ledger.OtherClaims{}, err
	}
	dir.Terms = terms
	return dir.ReadOthers(isIgnored)
}

// listClaims returns all claims in the ledger at the path name. A ledger is a node's directory of claims.
func (w *Worker) listClaims(name string) ([]job.Claim, error) {
	dir, err := w.openLedger(name)
	if err != nil {
		return nil, err
	}
	return dir.Claims()
}
