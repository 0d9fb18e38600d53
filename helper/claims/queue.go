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

// decisionLockTimeout is how long one request may hold the decision lock. This time is longer than nodes
// may take to reply, and shorter than the time for which other requests wait for the lock. So an mpiexec
// that is stopped while it has the lock does not keep all others waiting. Claims are safe without the lock.
const decisionLockTimeout = 20 * time.Second

// takeDecisionLock waits for the decision lock, under which one request at a time is planned. Then it sends
// the length of the queue. A job that runs only on this node needs no lock: its claim is safe without (rule
// TRUST-17).
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

// queuePosition returns the number of requests before ours in the queue, and the number of all. If we have no place
// in the queue, all count as before ours.
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

// enqueue takes a place in the queue, and from then on sends mpiexec each new position.
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

// watchQueue starts a goroutine that reports every change of our position in the queue.
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

// reportPosition sends our position in the queue to mpiexec, if it has changed.
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

// passUser lets our request pass another user's requests in the queue, and sends the new position.
func (w *Worker) passUser(m *wire.Overtake) {
	if w.queuePlace == nil {
		w.send(&wire.QueuePosition{Err: "this job is no longer in the queue"})
		return
	}
	w.queuePlace.Overtake(m.UID, m.Number)
	w.lastQueued = wire.QueuePosition{Ahead: -1}
	w.reportPosition()
}

// notePing records that mpiexec still waits. The session calls it, not the worker, since the worker may itself be
// waiting for the decision lock.
func (w *Worker) notePing() { w.lastPing.Store(int64(time.Since(w.began))) }

// expirePlace gives up our place in the queue if mpiexec has sent no Ping in time, because it would hold up all other
// requests.
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

// evictedTimeout is how long the worker may take to find out who evicts the job. The worker may be waiting for a
// lock. The evicting process kills the helper after 3 s.
const evictedTimeout = time.Second

// EvictedBy calls handle with the name of the user who evicts our job, or with "" if no user does. If the job
// waits in the queue, it first reports to mpiexec that its place is lost. If id is empty, the job is the
// one that waits.
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
