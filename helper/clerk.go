//go:build linux

package helper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"remshell/idset"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
	"remshell/wire"
)

/*
A clerk keeps the node's ledger for one session: what the job claims here, its place in
the queue, the gate. It does one thing after the other on a goroutine of its own, since
it may have to wait for a lock, and what it holds is let go when the session ends.

	session --do--> clerk --> package ledger
	   mpiexec <-- Gated, Surveyed, Queued, Changed, Listed
*/
type clerk struct {
	s     *session
	ctx   context.Context // ends with the session
	stop  context.CancelFunc
	tasks backlog
	done  chan struct{} // closed when the clerk has let everything go

	book  *ledger.Book // nil: not opened yet
	gate  *ledger.Gate
	due   *time.Timer             // when the gate has been shut for too long
	held  map[string]*ledger.Held // by group
	noted map[string]*ledger.Held // the same in the cluster's ledger, where the user names another
	place *ledger.Place
	turn  func()      // ends the wait for our turn
	quiet *time.Timer // runs out when nobody waits any more
	last  wire.Queued // what mpiexec was told

	nodeFile string        // of the node's administrator
	heard    atomic.Int64  // when mpiexec last said that it waits, in ns since began
	began    time.Time     // of this session
	gateMost time.Duration // how long the gate may be shut
}

// gateMost is how long one request may decide: longer than nodes may take to answer, and
// shorter than others wait for the gate. An mpiexec that was stopped just then must not
// keep everybody else waiting, and no claim is less safe without the gate.
const gateMost = 20 * time.Second

func newClerk(s *session) *clerk {
	c := &clerk{s: s, tasks: backlog{some: make(chan struct{}, 1)}, held: make(map[string]*ledger.Held), noted: make(map[string]*ledger.Held), done: make(chan struct{}), began: time.Now(), gateMost: gateMost, nodeFile: config.NodeFile}
	c.ctx, c.stop = context.WithCancel(context.Background())
	go func() {
		defer close(c.done)
		defer c.letGo()
		for {
			select {
			case <-c.tasks.some:
				for task := c.tasks.next(); task != nil && c.ctx.Err() == nil; task = c.tasks.next() {
					task()
				}
			case <-c.ctx.Done():
				return
			}
		}
	}()
	return c
}

// do has a task done behind those before it, and never waits: the clerk tells the session of
// what it has done, and both would wait for the other to take it. Tasks that come after close
// are dropped.
func (c *clerk) do(task func()) { c.tasks.put(task) }

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

// close lets everything go and waits until that is done.
func (c *clerk) close() {
	c.stop()
	<-c.done
}

func (c *clerk) letGo() {
	c.releaseAll()
	c.ungate()
	c.dequeue()
}

// open finds the ledger, once.
func (c *clerk) open(dir string) (*ledger.Book, error) {
	if c.book != nil {
		return c.book, nil
	}
	book, err := ledger.Open(dir, probe.Identity(c.s.sys.Root))
	c.book = book
	return book, err
}

// survey tells what other jobs hold of the node. What cannot be read is nothing, with a
// notice.
func (c *clerk) survey(m *wire.Survey) {
	answer := &wire.Surveyed{Load: probe.Load(c.s.sys.Root)}
	barred, most := probe.Barred(c.nodeFile)
	answer.Barred, answer.Limited, answer.Most = barred, most >= 0, max(most, 0)
	others, err := c.others(m.Ledger, func(claim job.Claim) bool { return slices.Contains(m.Without, claim.UID) })
	if err != nil {
		answer.Notice = err.Error()
	}
	outer, mine := related(others.Mine, m.Inside, os.Geteuid())
	_, others.Mine = related(mine, m.Own, os.Geteuid())
	answer.Use = others.Use()
	cpus, err := rank.Affinity()
	if err == nil && len(outer) > 0 {
		answer.Inside = hold(outer, cpus)
	}
	if err == nil && len(answer.Use.Busy) > 0 && idset.Set(answer.Use.Busy).HasAll(cpus) { // then people ask why
		answer.Use.Idle = probe.Idle(answer.Use.WhoUID, answer.Use.WhoPID, answer.Use.Since)
	}
	answer.Fit()
	c.s.conn.Send(answer)
}

// others is what living claims hold here, but for those that without is true of.
func (c *clerk) others(dir string, without func(job.Claim) bool) (ledger.Others, error) {
	book, err := c.open(dir)
	if err != nil {
		return ledger.Others{}, err
	}
	return book.Others(without)
}

// claims lists them all.
func (c *clerk) claims(dir string) ([]job.Claim, error) {
	book, err := c.open(dir)
	if err != nil {
		return nil, err
	}
	return book.Claims()
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
func (c *clerk) allow(m *wire.Prepare) (barred string) {
	rules, err := probe.Rules(c.nodeFile)
	if err != nil {
		barred, _ = probe.Barred(c.nodeFile)
		return barred
	}
	groups, _ := os.Getgroups()
	m.Claim.Most = rules.Most(m.Claim.Most)
	return cmp.Or(rules.Forbid(os.Geteuid(), append(groups, os.Getegid())), rules.Full(len(m.Ranks)))
}

// answer claims what a group needs, if it may run here.
func (c *clerk) answer(m *wire.Prepare) claimedEvent {
	if barred := c.allow(m); barred != "" {
		return claimedEvent{m: m, barred: barred}
	}
	taken, notice := c.claim(m)
	return claimedEvent{m: m, taken: taken, held: c.held[m.Group.Name], notice: notice}
}

// claim enters a group of the job in the ledger. Each has a claim of its own: its CPUs
// are free again when it is over, and a claim that is never rewritten needs no second
// thought about who reads it meanwhile. The error is that of somebody faster; where the
// ledger cannot be used, the job goes on without a claim, and notice says why.
func (c *clerk) claim(m *wire.Prepare) (taken *takenError, notice string) {
	c.release(m.Group.Name)
	book, err := c.open(m.Claim.Ledger)
	if err != nil {
		return nil, err.Error()
	}
	claim := m.Claim.Entry
	claim.PID = os.Getpid()
	claim.UID = os.Geteuid() // not the launcher's: the login may be another user's
	for _, r := range m.Ranks {
		claim.Ranks = append(claim.Ranks, job.Seat{Rank: m.Group.First + r.Rank, CPUs: r.Held, GPUs: gpu.Addresses(r.GPUs)})
	}
	held, err := book.Take(c.ctx, claim, func(others ledger.Others) error { return conflict(m, claim, others) })
	switch {
	case errors.As(err, &taken):
		return taken, ""
	case err != nil:
		return nil, err.Error()
	case held.Warning != nil:
		notice = held.Warning.Error()
	}
	c.held[m.Group.Name] = held
	c.note(m, claim)
	return nil, notice
}

// note tells in the ledger of the cluster file that a job has another one, since who looks
// there would take this node for idle (TRUST-20): its ranks are entered, without their CPUs.
func (c *clerk) note(m *wire.Prepare, claim job.Claim) {
	if m.Claim.Noted == "" || claim.UID == 0 {
		return
	}
	book, err := ledger.Open(m.Claim.Noted, probe.Identity(c.s.sys.Root))
	if err != nil {
		c.s.log.inform("not noted in the ledger of the cluster: %v", err)
		return
	}
	claim.Ranks = slices.Clone(claim.Ranks)
	for i := range claim.Ranks {
		claim.Ranks[i].CPUs, claim.Ranks[i].GPUs = nil, nil
	}
	claim.Command = fmt.Sprintf("(--ledger %s) %s", cmp.Or(m.Claim.Ledger, ledger.Default), claim.Command)
	held, err := book.Take(c.ctx, claim, func(ledger.Others) error { return nil })
	if err != nil {
		book.Close()
		c.s.log.inform("not noted in the ledger of the cluster: %v", err)
		return
	}
	c.noted[m.Group.Name] = held
}

// conflict repeats the checks of a plan that live jobs can upset (placement.md 3, 7 to
// 11), against what they hold now. What the job itself has already, mpiexec has planned
// round; it counts where the node has a limit for all.
func conflict(m *wire.Prepare, mine job.Claim, others ledger.Others) error {
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
func (c *clerk) release(group string) {
	if held := c.held[group]; held != nil {
		held.Release()
		delete(c.held, group)
	}
	if held := c.noted[group]; held != nil {
		held.Release()
		delete(c.noted, group)
	}
}

func (c *clerk) releaseAll() {
	for group := range c.held {
		c.release(group)
	}
}

// enter waits for the gate and tells who waits before us. A job of this node alone needs
// no gate: its claim is safe without (TRUST-17).
func (c *clerk) enter(m *wire.Gate) {
	answer := &wire.Gated{}
	book, err := c.open(m.Ledger)
	if err == nil && !m.Alone {
		c.gate, err = book.Gate(c.ctx)
		if err == nil {
			c.due = time.AfterFunc(c.gateMost, func() { c.do(c.ungate) })
			err = c.gate.Warning
		}
	}
	var unusable *ledger.UnusableError
	switch {
	case errors.As(err, &unusable):
		answer.Notice = unusable.Error() // in the words of the survey and of the claim
	case err != nil:
		answer.Notice = err.Error()
	}
	if book != nil {
		answer.Ahead, _, _ = c.position()
	}
	c.s.conn.Send(answer)
}

func (c *clerk) ungate() {
	if c.gate != nil {
		c.due.Stop()
		c.gate.Open()
		c.gate = nil
	}
}

// position counts the requests ahead of ours, and all that wait. A request without a
// place has all of them ahead.
func (c *clerk) position() (ahead, total int, err error) {
	if c.place == nil {
		ahead, _, err = c.book.Before()
		return ahead, ahead, err
	}
	tickets, err := c.book.Tickets()
	if err != nil && len(tickets) == 0 {
		return 0, 0, err
	}
	ahead, err = c.place.Ahead()
	return ahead, len(tickets), err
}

// enqueue takes a place in the queue.
func (c *clerk) enqueue(m *wire.Enqueue) {
	c.dequeue()
	book, err := c.open(m.Ledger)
	if err == nil {
		m.Ticket.UID, m.Ticket.PID = os.Geteuid(), os.Getpid()
		c.place, err = book.Enqueue(m.Ticket)
	}
	if err != nil {
		c.s.conn.Send(&wire.Queued{Err: err.Error()})
		return
	}
	c.hear()
	c.quiet = time.AfterFunc(wire.PingPatience, func() { c.do(c.expire) })
	c.last = wire.Queued{Ahead: -1}
	c.tellPosition()
	c.awaitTurn()
}

// awaitTurn tells of every change ahead of us.
func (c *clerk) awaitTurn() {
	ctx, stop := context.WithCancel(c.ctx)
	over := make(chan struct{})
	place := c.place
	go func() {
		defer close(over)
		place.Turn(ctx, func(int) { c.do(c.tellPosition) })
	}()
	c.turn = func() { stop(); <-over }
}

// tellPosition tells mpiexec where it stands, if that is news.
func (c *clerk) tellPosition() {
	if c.place == nil {
		return
	}
	var now wire.Queued
	var err error
	if now.Ahead, now.Total, err = c.position(); err != nil {
		now.Err = err.Error()
	}
	now.Head, _ = c.place.Head()
	now.Fit()
	if now != c.last {
		c.last = now
		c.s.conn.Send(&now)
	}
}

// pass goes ahead of a user, and tells where we stand then.
func (c *clerk) pass(m *wire.Pass) {
	if c.place == nil {
		c.s.conn.Send(&wire.Queued{Err: "there is no place in the queue any more"})
		return
	}
	c.place.Pass(m.UID, m.Number)
	c.last = wire.Queued{Ahead: -1}
	c.tellPosition()
}

// hear notes that somebody still waits. The session calls it, since the clerk himself may
// be waiting for the gate.
func (c *clerk) hear() { c.heard.Store(int64(time.Since(c.began))) }

// expire gives a place up for which nobody seems to wait: it stops all others.
func (c *clerk) expire() {
	if c.place == nil {
		return
	}
	if left := wire.PingPatience - time.Since(c.began.Add(time.Duration(c.heard.Load()))); left > 0 {
		c.quiet.Reset(left)
		return
	}
	c.dequeue()
	c.s.conn.Send(&wire.Queued{Err: fmt.Sprintf("no sign of life for %v", wire.PingPatience)})
}

func (c *clerk) dequeue() {
	if c.place != nil {
		c.quiet.Stop()
		c.turn()
		c.place.Leave()
		c.place = nil
	}
}

// watch tells of every change of the claims here, until the session ends.
func (c *clerk) watch(m *wire.Watch) {
	book, err := c.open(m.Ledger)
	if err != nil {
		return // mpiexec tries again now and then anyway
	}
	go func() {
		if err := book.Watch(c.ctx, func() { c.s.conn.Send(&wire.Changed{}) }); err != nil && c.ctx.Err() == nil {
			c.s.log.warn("changes of claims go unnoticed: %v", err)
		}
	}()
}

// list tells all that the ledger holds.
func (c *clerk) list(m *wire.List) {
	answer := &wire.Listed{}
	claims, err := c.claims(m.Ledger)
	answer.Claims = probe.MarkIdle(claims)
	if c.book != nil {
		answer.Where = c.book.Where()
		tickets, err2 := c.book.Tickets()
		answer.Tickets, err = tickets, cmp.Or(err, err2)
	}
	if m.Job != "" && err == nil {
		answer.States, err = attend(claims, m.Job)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	answer.Fit()
	c.s.conn.Send(answer)
}

// evict ends the holders of a job's entries.
func (c *clerk) evict(m *wire.Evict) {
	answer := &wire.Evicted{}
	book, err := c.open(m.Ledger)
	if err == nil {
		var done []ledger.Eviction
		done, err = book.Evict(c.ctx, string(m.Job))
		for _, e := range done {
			answer.Done = append(answer.Done, evicted(e, m.Job))
			answer.Left = answer.Left || e.Left
		}
	}
	if err != nil {
		answer.Err = err.Error()
	}
	c.s.conn.Send(answer)
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
func (c *clerk) alert(m *wire.Alert) {
	answer := &wire.Alerted{}
	claims, err := c.claims(m.Ledger)
	if err == nil {
		answer.Ranks, err = strike(claims, m.Job, unix.Signal(m.Number))
	}
	if err != nil {
		answer.Err = err.Error()
	}
	c.s.conn.Send(answer)
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
