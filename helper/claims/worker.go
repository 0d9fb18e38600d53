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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/config"
	"remshell/gpu"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/status"
	"remshell/idset"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
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

	ledger *ledger.Dir // nil: not opened yet
	gate   *ledger.Gate
	due    *time.Timer             // when the gate has been shut for too long
	held   map[string]*ledger.Held // by group
	noted  map[string]*ledger.Held // the same in the cluster's ledger, where the user names another
	place  *ledger.QueuePlace
	turn   func()      // ends the wait for our turn
	quiet  *time.Timer // runs out when nobody waits any more
	last   wire.Queued // what mpiexec was told

	nodeFile string        // of the node's administrator
	heard    atomic.Int64  // when mpiexec last said that it waits, in ns since began
	began    time.Time     // of this session
	gateMost time.Duration // how long the gate may be shut
}

// gateMost is how long one request may decide: longer than nodes may take to answer, and
// shorter than others wait for the gate. An mpiexec that was stopped just then must not
// keep everybody else waiting, and no claim is less safe without the gate.
const gateMost = 20 * time.Second

// New makes one for the session that sends by send; root is "/", and environ our own environment.
func New(root fs.FS, environ []string, send func(wire.Message) error) *Worker {
	w := &Worker{root: root, environ: environ, send: send, tasks: backlog{some: make(chan struct{}, 1)}, held: make(map[string]*ledger.Held), noted: make(map[string]*ledger.Held), done: make(chan struct{}), began: time.Now(), gateMost: gateMost, nodeFile: config.NodeFile}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		defer w.letGo()
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
	w.ungate()
	w.dequeue()
}

// open finds the ledger, once.
func (w *Worker) open(name string) (*ledger.Dir, error) {
	if w.ledger != nil {
		return w.ledger, nil
	}
	dir, err := ledger.Open(name, probe.Identity(w.root))
	w.ledger = dir
	return dir, err
}

// survey tells what other jobs hold of the node. What cannot be read is nothing, with a
// notice.
func (w *Worker) survey(m *wire.Survey) {
	answer := &wire.Surveyed{Load: probe.Load(w.root)}
	barred, most := probe.Barred(w.nodeFile)
	answer.Barred, answer.Limited, answer.Most = barred, most >= 0, max(most, 0)
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
	if err == nil && len(answer.Use.Busy) > 0 && idset.Set(answer.Use.Busy).HasAll(cpus) { // then people ask why
		answer.Use.Idle = probe.Idle(answer.Use.WhoUID, answer.Use.WhoPID, answer.Use.Since)
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

// related tells the claims of jobs inside of which we are from all others: a rank's own
// launch may use what the rank has. Whose rank we are, our environment says, and it could
// say anything: jobs of other users are never ours.
func related(claims []job.Claim, inside job.ID, uid int) (outer, others []job.Claim) {
	around := make(map[job.ID]bool)
	for id := inside; id != "" && !around[id]; {
		around[id] = true
		i := slices.IndexFunc(claims, func(c job.Claim) bool { return c.Job == id && c.UID == uid })
		if id = ""; i >= 0 {
			id = claims[i].Inside
		}
	}
	for _, c := range claims {
		if c.UID == uid && around[c.Job] {
			outer = append(outer, c)
		} else {
			others = append(others, c)
		}
	}
	return outer, others
}

// apart tells the claims of one job of a batch system, which are our own user's, from all others
// (RM-20).
func apart(all ledger.Others, rm string) (same, beyond ledger.Others) {
	beyond = all
	beyond.Mine = nil
	for _, c := range all.Mine {
		if c.RM == rm {
			same.Mine = append(same.Mine, c)
		} else {
			beyond.Mine = append(beyond.Mine, c)
		}
	}
	return same, beyond
}

// hold reports whether claims hold all of some CPUs, or the node alone.
func hold(claims []job.Claim, cpus []int) bool {
	use := ledger.Use(claims, nil)
	return use.Taken || idset.Set(use.Busy).HasAll(cpus)
}

// A takenError says who was faster.
type takenError struct{ reason string }

func (e *takenError) Error() string { return e.reason }

// allow refuses what the node's administrator does not let run, whatever mpiexec planned, and
// lowers the limit of ranks to his.
func (w *Worker) allow(m *wire.Prepare) (barred string) {
	rules, err := probe.Rules(w.nodeFile)
	if err != nil {
		barred, _ = probe.Barred(w.nodeFile)
		return barred
	}
	groups, _ := os.Getgroups()
	m.Claim.Most = rules.Most(m.Claim.Most)
	return cmp.Or(rules.Forbid(os.Geteuid(), append(groups, os.Getegid())), rules.Full(len(m.Ranks)))
}

// An Answer is what came of a claim.
type Answer struct {
	Taken  string       // who was faster; empty: nobody
	Held   *ledger.Held // nil: there is no claim
	Notice string       // why not
	Barred string       // why the administrator does not let it run; empty: he does
}

// Claim claims what a group needs, if it may run here, and gives the answer.
func (w *Worker) Claim(m *wire.Prepare, give func(Answer)) {
	w.do(func() { give(w.answer(m)) })
}

func (w *Worker) answer(m *wire.Prepare) Answer {
	if barred := w.allow(m); barred != "" {
		return Answer{Barred: barred}
	}
	taken, notice := w.claim(m)
	if taken != nil {
		return Answer{Taken: taken.reason}
	}
	return Answer{Held: w.held[m.Group.Name], Notice: notice}
}

// Release gives up what a group claims, and then calls done.
func (w *Worker) Release(group string, done func()) {
	w.do(func() { w.release(group); done() })
}

// ReleaseAll gives up all claims, and then calls done.
func (w *Worker) ReleaseAll(done func()) {
	w.do(func() { w.releaseAll(); done() })
}

// claim enters a group of the job in the ledger. Each has a claim of its own: its CPUs
// are free again when it is over, and a claim that is never rewritten needs no second
// thought about who reads it meanwhile. The error is that of somebody faster; where the
// ledger cannot be used, the job goes on without a claim, and notice says why.
func (w *Worker) claim(m *wire.Prepare) (taken *takenError, notice string) {
	w.release(m.Group.Name)
	dir, err := w.open(m.Claim.Ledger)
	if err != nil {
		return nil, err.Error()
	}
	claim := m.Claim.Entry
	claim.PID = os.Getpid()
	claim.UID = os.Geteuid() // not the launcher's: the login may be another user's
	for _, r := range m.Ranks {
		claim.Ranks = append(claim.Ranks, job.ClaimedRank{Rank: m.Group.First + r.Rank, CPUs: r.Held, GPUs: gpu.Addresses(r.GPUs)})
	}
	held, err := dir.Take(w.ctx, claim, func(others ledger.Others) error { return conflict(m, claim, others) })
	switch {
	case errors.As(err, &taken):
		return taken, ""
	case err != nil:
		return nil, err.Error()
	case held.Warning != nil:
		notice = held.Warning.Error()
	}
	w.held[m.Group.Name] = held
	w.note(m, claim)
	return nil, notice
}

// note tells in the ledger of the cluster file that a job has another one, since who looks
// there would take this node for idle (TRUST-20): its ranks are entered, without their CPUs.
func (w *Worker) note(m *wire.Prepare, claim job.Claim) {
	if m.Claim.Noted == "" || claim.UID == 0 {
		return
	}
	dir, err := ledger.Open(m.Claim.Noted, probe.Identity(w.root))
	if err != nil {
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	claim.Ranks = slices.Clone(claim.Ranks)
	for i := range claim.Ranks {
		claim.Ranks[i].CPUs, claim.Ranks[i].GPUs = nil, nil
	}
	claim.Command = fmt.Sprintf("(--ledger %s) %s", cmp.Or(m.Claim.Ledger, ledger.Default), claim.Command)
	held, err := dir.Take(w.ctx, claim, func(ledger.Others) error { return nil })
	if err != nil {
		dir.Close()
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	w.noted[m.Group.Name] = held
}

// conflict repeats the checks of a plan that live jobs can upset (placement.md 3, 7 to
// 11), against what they hold now. What the job itself has already, mpiexec has planned
// round; it counts where the node has a limit for all.
func conflict(m *wire.Prepare, mine job.Claim, others ledger.Others) error {
	if mine.RM != "" { // what the batch system has granted, others do not take
		others, _ = apart(others, mine.RM)
	}
	_, others.Mine = related(others.Mine, mine.Inside, mine.UID)
	most := others.Use().Procs
	_, others.Mine = related(others.Mine, mine.Job, mine.UID) // also of another name of this machine (alias=)
	use := others.Use()
	switch {
	case use.Taken:
		return &takenError{"used exclusively by another job"}
	case mine.Exclusive && len(others.Mine) > 0:
		return &takenError{fmt.Sprintf("not idle: job %s runs there", others.Mine[0].Job)}
	case mine.Exclusive && others.Jobs > 0:
		return &takenError{fmt.Sprintf("not idle: job %s runs there", others.One)}
	case m.Claim.Most >= 0 && most+len(mine.Ranks) > m.Claim.Most:
		return &takenError{fmt.Sprintf("%d of at most %d processes running", most, m.Claim.Most)}
	}
	for _, r := range mine.Ranks {
		for _, address := range r.GPUs {
			if slices.Contains(use.BusyGPUs, address) {
				return &takenError{"GPU " + address + " was taken by another job"}
			}
		}
	}
	if m.Claim.Shares { // CPUs, no more
		return nil
	}
	busy := make(map[int]bool, len(use.Busy))
	for _, cpu := range use.Busy {
		busy[cpu] = true
	}
	for _, r := range mine.Ranks {
		for _, cpu := range r.CPUs {
			if busy[cpu] {
				return &takenError{fmt.Sprintf("CPU %d was taken by another job", cpu)}
			}
		}
	}
	return nil
}

// release gives up what a group of the job claims here.
func (w *Worker) release(group string) {
	if held := w.held[group]; held != nil {
		held.Release()
		delete(w.held, group)
	}
	if held := w.noted[group]; held != nil {
		held.Release()
		delete(w.noted, group)
	}
}

func (w *Worker) releaseAll() {
	for group := range w.held {
		w.release(group)
	}
}

// enter waits for the gate and tells who waits before us. A job of this node alone needs
// no gate: its claim is safe without (TRUST-17).
func (w *Worker) enter(m *wire.Gate) {
	answer := &wire.Gated{}
	dir, err := w.open(m.Ledger)
	if err == nil && !m.Alone {
		w.gate, err = dir.Gate(w.ctx)
		if err == nil {
			w.due = time.AfterFunc(w.gateMost, func() { w.do(w.ungate) })
			err = w.gate.Warning
		}
	}
	var unusable *ledger.UnusableError
	switch {
	case errors.As(err, &unusable):
		answer.Notice = unusable.Error() // in the words of the survey and of the claim
	case err != nil:
		answer.Notice = err.Error()
	}
	if dir != nil {
		answer.Ahead, _, _ = w.position()
	}
	w.send(answer)
}

func (w *Worker) ungate() {
	if w.gate != nil {
		w.due.Stop()
		w.gate.Open()
		w.gate = nil
	}
}

// position counts the requests ahead of ours, and all that wait. A request without a
// place has all of them ahead.
func (w *Worker) position() (ahead, total int, err error) {
	if w.place == nil {
		ahead, _, err = w.ledger.Before()
		return ahead, ahead, err
	}
	tickets, err := w.ledger.Tickets()
	if err != nil && len(tickets) == 0 {
		return 0, 0, err
	}
	ahead, err = w.place.Ahead()
	return ahead, len(tickets), err
}

// enqueue takes a place in the queue.
func (w *Worker) enqueue(m *wire.Enqueue) {
	w.dequeue()
	dir, err := w.open(m.Ledger)
	if err == nil {
		m.Ticket.UID, m.Ticket.PID = os.Geteuid(), os.Getpid()
		w.place, err = dir.Enqueue(m.Ticket)
	}
	if err != nil {
		w.send(&wire.Queued{Err: err.Error()})
		return
	}
	w.hear()
	w.quiet = time.AfterFunc(wire.PingPatience, func() { w.do(w.expire) })
	w.last = wire.Queued{Ahead: -1}
	w.tellPosition()
	w.awaitTurn()
}

// awaitTurn tells of every change ahead of us.
func (w *Worker) awaitTurn() {
	ctx, stop := context.WithCancel(w.ctx)
	over := make(chan struct{})
	place := w.place
	go func() {
		defer close(over)
		place.Turn(ctx, func(int) { w.do(w.tellPosition) })
	}()
	w.turn = func() { stop(); <-over }
}

// tellPosition tells mpiexec where it stands, if that is news.
func (w *Worker) tellPosition() {
	if w.place == nil {
		return
	}
	var now wire.Queued
	var err error
	if now.Ahead, now.Total, err = w.position(); err != nil {
		now.Err = err.Error()
	}
	now.Head, _ = w.place.Head()
	now.Fit()
	if now != w.last {
		w.last = now
		w.send(&now)
	}
}

// pass goes ahead of a user, and tells where we stand then.
func (w *Worker) pass(m *wire.Pass) {
	if w.place == nil {
		w.send(&wire.Queued{Err: "there is no place in the queue any more"})
		return
	}
	w.place.Pass(m.UID, m.Number)
	w.last = wire.Queued{Ahead: -1}
	w.tellPosition()
}

// hear notes that somebody still waits. The session calls it, since the worker itself may
// be waiting for the gate.
func (w *Worker) hear() { w.heard.Store(int64(time.Since(w.began))) }

// expire gives a place up for which nobody seems to wait: it stops all others.
func (w *Worker) expire() {
	if w.place == nil {
		return
	}
	if left := wire.PingPatience - time.Since(w.began.Add(time.Duration(w.heard.Load()))); left > 0 {
		w.quiet.Reset(left)
		return
	}
	w.dequeue()
	w.send(&wire.Queued{Err: fmt.Sprintf("no sign of life for %v", wire.PingPatience)})
}

func (w *Worker) dequeue() {
	if w.place != nil {
		w.quiet.Stop()
		w.turn()
		w.place.Leave()
		w.place = nil
	}
}

// watch tells of every change of the claims here, until the session ends.
func (w *Worker) watch(m *wire.Watch) {
	dir, err := w.open(m.Ledger)
	if err != nil {
		return // mpiexec tries again now and then anyway
	}
	go func() {
		if err := dir.Watch(w.ctx, func() { w.send(&wire.Changed{}) }); err != nil && w.ctx.Err() == nil {
			w.inform(true, "changes of claims go unnoticed: "+err.Error())
		}
	}()
}

// list tells all that the ledger holds.
func (w *Worker) list(m *wire.List) {
	answer := &wire.Listed{}
	claims, err := w.claims(m.Ledger)
	answer.Claims = probe.MarkIdle(claims)
	if w.ledger != nil {
		answer.Where = w.ledger.Where()
		tickets, err2 := w.ledger.Tickets()
		answer.Tickets, err = tickets, cmp.Or(err, err2)
	}
	if m.Job != "" && err == nil {
		answer.States, err = attend(claims, m.Job)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	answer.Fit()
	w.send(answer)
}

// evict ends the holders of a job's entries.
func (w *Worker) evict(m *wire.Evict) {
	answer := &wire.Evicted{}
	dir, err := w.open(m.Ledger)
	if err == nil {
		var done []ledger.Eviction
		done, err = dir.Evict(w.ctx, string(m.Job))
		for _, e := range done {
			answer.Done = append(answer.Done, evicted(e, m.Job))
			answer.Left = answer.Left || e.Left
		}
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// evicted says what was done about an entry.
func evicted(e ledger.Eviction, id job.ID) string {
	text := fmt.Sprintf("the %s of job %s, of %s, is removed", e.Kind, id, e.User)
	if e.Left {
		text = fmt.Sprintf("the %s of job %s, of %s, is still held", e.Kind, id, e.User)
	}
	for i, pid := range e.PIDs {
		text += []string{"; ended process ", ", "}[min(i, 1)] + fmt.Sprint(pid)
	}
	return text
}

// alert sends a signal to the ranks of a job of the same user (or of any, if we are root).
func (w *Worker) alert(m *wire.Alert) {
	answer := &wire.Alerted{}
	claims, err := w.claims(m.Ledger)
	if err == nil {
		answer.Ranks, err = strike(claims, m.Job, unix.Signal(m.Number))
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// mayStrike reports whether a user's signal is for a job here. Others can make claims in the
// name of his job as well.
func mayStrike(claims []job.Claim, id job.ID, uid int) (here bool, err error) {
	other := -1
	for _, c := range claims {
		switch {
		case c.Job != id:
		case c.UID == uid || uid == 0:
			return true, nil
		default:
			other = c.UID
		}
	}
	if other >= 0 {
		err = fmt.Errorf("job %s belongs to another user (uid %d)", id, other)
	}
	return false, err
}

// strike finds the ranks of a job by what their environment says, and signals the process
// group of each (SIG-6).
func strike(claims []job.Claim, id job.ID, number unix.Signal) (ranks int, err error) {
	if here, err := mayStrike(claims, id, os.Geteuid()); !here {
		return 0, err
	}
	marked := proc.Marked("MPIEXEC_JOBID=" + string(id))
	for _, pid := range marked {
		parent, _, _ := proc.Stat(pid)
		group, _ := unix.Getpgid(pid)
		if group != pid || slices.Contains(marked, parent) {
			continue // a child of a rank
		}
		if err = unix.Kill(-pid, number); err == nil {
			ranks++
		}
	}
	if ranks > 0 {
		err = nil
	}
	return ranks, err
}

// attend asks the helpers of a job on this machine what its ranks are doing.
func attend(claims []job.Claim, id job.ID) ([]job.RankState, error) {
	if here, err := mayStrike(claims, id, os.Geteuid()); !here {
		return nil, err
	}
	return status.Ask(owners(claims, id), id), nil
}

// owners are the users whose claims for a job we may ask about.
func owners(claims []job.Claim, id job.ID) (uids []int) {
	for _, c := range claims {
		if me := os.Geteuid(); c.Job == id && (c.UID == me || me == 0) {
			uids = append(uids, c.UID)
		}
	}
	return uids[:min(len(uids), 1)]
}
