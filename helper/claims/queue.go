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

// This file keeps our place in the queue, and the gate.

// gateMost is how long one request may decide: longer than nodes may take to answer, and
// shorter than others wait for the gate. An mpiexec that was stopped just then must not
// keep everybody else waiting, and no claim is less safe without the gate.
const gateMost = 20 * time.Second

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
		w.waits = m.Ticket.Job
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

// evictedTime is how long the worker may take to find out who evicts the job. It may be waiting for a lock, and is killed after 3 s.
const evictedTime = time.Second

// EvictedBy calls give with the name of the user who evicts our job, or with nothing if nobody does. If the job waits in the queue,
// mpiexec is told first that it has lost its place. The job is the one that waits, if id is empty.
func (w *Worker) EvictedBy(id job.ID, give func(user string)) {
	found := make(chan string, 1)
	w.do(func() {
		user, waits := "", w.place != nil
		if waits {
			id = w.waits
		}
		if w.ledger != nil && id != "" {
			user = w.ledger.EvictedBy(id)
		}
		if waits && user != "" {
			w.dequeue()
			w.send(&wire.Queued{Evicted: user})
		}
		found <- user
	})
	go func() {
		select {
		case user := <-found:
			give(user)
		case <-time.After(evictedTime):
			give("")
		}
	}()
}

func (w *Worker) dequeue() {
	if w.place != nil {
		w.quiet.Stop()
		w.turn()
		w.place.Leave()
		w.place = nil
	}
}
