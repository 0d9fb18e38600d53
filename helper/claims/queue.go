//go:build linux

package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// This file keeps the job's place in the queue, and the decision lock.

// decisionLockTimeout is how long one request may hold the decision lock. It is longer than the time in which nodes
// must reply, and shorter than the time for which other requests wait for the lock. So a stopped mpiexec that holds the
// lock does not block the others. This is safe, because two jobs cannot claim the same CPU even without the lock.
const decisionLockTimeout = 20 * time.Second

// takeDecisionLock waits for the decision lock, which ensures that one request at a time is planned. Then it
// sends the length of the queue. A job that runs only on this node and does not wait needs no lock, because two
// jobs cannot claim the same CPUs (rule TRUST-17).
func (w *Worker) takeDecisionLock(m *wire.LockDecision) {
	answer := &wire.DecisionLocked{}
	dir, err := w.openLedger(m.Ledger)
	if err == nil && !m.LocalOnly {
		w.decisionLock, err = dir.LockDecision(w.ctx)
		if err == nil {
			w.lockTimer = time.AfterFunc(w.lockTimeout, func() { w.runTask(w.releaseDecisionLock) })
			err = w.decisionLock.Warning
		}
	}
	var unusable *ledger.UnusableError
	switch {
	case errors.As(err, &unusable):
		answer.Notice = unusable.Error() // worded as in Survey and in claims
	case err != nil:
		answer.Notice = err.Error()
	}
	if dir != nil {
		answer.Ahead, _, _ = w.queuePosition()
	}
	w.send(answer)
}

func (w *Worker) releaseDecisionLock() {
	if w.decisionLock != nil {
		w.lockTimer.Stop()
		w.decisionLock.Unlock()
		w.decisionLock = nil
	}
}

// queuePosition returns how many requests come before this job's request in the queue, and how many there are
// in all. If this job has no place in the queue, all requests come before it.
func (w *Worker) queuePosition() (ahead, total int, err error) {
	if w.queuePlace == nil {
		ahead, _, err = w.ledger.CountWaiting()
		return ahead, ahead, err
	}
	tickets, err := w.ledger.Tickets()
	if err != nil && len(tickets) == 0 {
		return 0, 0, err
	}
	ahead, err = w.queuePlace.Ahead()
	return ahead, len(tickets), err
}

// enqueue takes a place in the queue for this job. From then on it sends each new position to mpiexec.
func (w *Worker) enqueue(m *wire.Enqueue) {
	w.dequeue()
	dir, err := w.openLedger(m.Ledger)
	if err == nil {
		m.Ticket.UID, m.Ticket.PID = os.Geteuid(), os.Getpid()
		w.queuePlace, err = dir.Enqueue(m.Ticket)
		w.queuedJob = m.Ticket.Job
	}
	if err != nil {
		w.send(&wire.QueuePosition{Err: err.Error()})
		return
	}
	w.notePing()
	w.pingTimer = time.AfterFunc(wire.PingTimeout, func() { w.runTask(w.expirePlace) })
	w.lastQueued = wire.QueuePosition{Ahead: -1}
	w.reportPosition()
	w.watchQueue()
}

// watchQueue starts a goroutine that reports every change of this job's position in the queue.
func (w *Worker) watchQueue() {
	ctx, stop := context.WithCancel(w.ctx)
	over := make(chan struct{})
	place := w.queuePlace
	go func() {
		defer close(over)
		place.WaitForTurn(ctx, func(int) { w.runTask(w.reportPosition) })
	}()
	w.stopWatchingQueue = func() { stop(); <-over }
}

// reportPosition sends this job's position in the queue to mpiexec, if it has changed.
func (w *Worker) reportPosition() {
	if w.queuePlace == nil {
		return
	}
	var now wire.QueuePosition
	var err error
	if now.Ahead, now.Total, err = w.queuePosition(); err != nil {
		now.Err = err.Error()
	}
	now.Head, _ = w.queuePlace.Head()
	now.Truncate()
	if now != w.lastQueued {
		w.lastQueued = now
		w.send(&now)
	}
}

// overtakeUser moves this job's request before requests of the user m.UID, and sends the new position. If m.Number is set,
// only the request with that number is passed.
func (w *Worker) overtakeUser(m *wire.Overtake) {
	if w.queuePlace == nil {
		w.send(&wire.QueuePosition{Err: "this job is no longer in the queue"})
		return
	}
	w.queuePlace.Overtake(m.UID, m.Number)
	w.lastQueued = wire.QueuePosition{Ahead: -1}
	w.reportPosition()
}

// notePing records that mpiexec is still waiting and not stopped. The session calls it, because the worker's goroutine
// may itself be waiting for the decision lock.
func (w *Worker) notePing() { w.lastPing.Store(int64(time.Since(w.began))) }

// expirePlace gives up this job's place in the queue if mpiexec has not sent a Ping in time. A stopped
// mpiexec would otherwise block all other requests.
func (w *Worker) expirePlace() {
	if w.queuePlace == nil {
		return
	}
	if left := wire.PingTimeout - time.Since(w.began.Add(time.Duration(w.lastPing.Load()))); left > 0 {
		w.pingTimer.Reset(left)
		return
	}
	w.dequeue()
	w.send(&wire.QueuePosition{Err: fmt.Sprintf("mpiexec sent nothing for %v, so its request was removed from the queue", wire.PingTimeout)})
}

// evictedTimeout is how long the worker may take to find out who evicts the job. The worker may be waiting
// for a lock, and the evicting process kills the helper after 3 s.
const evictedTimeout = time.Second

// EvictedBy calls handle, on another goroutine, with the name of the user who is evicting a job. The name is "" if
// nobody is evicting the job, or if that cannot be found out within evictedTimeout. If the job waits in the queue and
// is being evicted, EvictedBy first reports to mpiexec that the job's place is lost. id is the ID of the job; it is
// ignored if this session has a job in the queue.
func (w *Worker) EvictedBy(id job.ID, handle func(user string)) {
	found := make(chan string, 1)
	w.runTask(func() {
		user, waits := "", w.queuePlace != nil
		if waits {
			id = w.queuedJob
		}
		if w.ledger != nil && id != "" {
			user = w.ledger.EvictedBy(id)
		}
		if waits && user != "" {
			w.dequeue()
			w.send(&wire.QueuePosition{EvictedBy: user})
		}
		found <- user
	})
	go func() {
		select {
		case user := <-found:
			handle(user)
		case <-time.After(evictedTimeout):
			handle("")
		}
	}()
}

func (w *Worker) dequeue() {
	if w.queuePlace != nil {
		w.pingTimer.Stop()
		w.stopWatchingQueue()
		w.queuePlace.Leave()
		w.queuePlace = nil
	}
}
