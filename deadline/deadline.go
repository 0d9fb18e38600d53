/*
Package deadline limits how long this process waits for another host.

Each step of the communication with a host has its own time limit. Steps are the connection and login, the first output
of the shell, the transfer of the program, the greeting, and each reply. Data from the host does not extend the limit.
So a host gains nothing by sending a byte each second. Two things extend the limit:

  - Each byte that the host has accepted extends the limit by the time that a byte takes at MinRate.
  - A pause that is not the host's fault extends the limit by the length of the pause.

Usage:

	d := deadline.New(ctx, limit, cause, stopped)
	defer d.Stop()
	d.Context()            ends with cause when the step has taken longer than limit
	d.ExtendForBytes(n)    the host has accepted n bytes
	d.BeginStep(limit)     the next step begins
	resume := d.Pause()    the user types, or the connection waits for a permit
*/
package deadline

import (
	"context"
	"sync"
	"time"
)

// MinRate is the minimum rate at which a host must accept data, in bytes per second.
const MinRate = 10_000

// TimeFor returns the time that a host may take to accept n bytes.
func TimeFor(n int) time.Duration { return time.Duration(n) * (time.Second / MinRate) }

// A Deadline ends its context when a step has taken too long.
type Deadline struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	cause   error
	stopped func() time.Duration

	mu     sync.Mutex // guards the fields below
	timer  *time.Timer
	limit  time.Duration // of the current step
	left   time.Duration // remaining time at since
	since  time.Time
	slept  time.Duration // result of stopped at since
	paused int
}

// New returns a Deadline and begins the first step. The Deadline's context ends when parent ends. It also ends when
// the step has taken longer than limit, and context.Cause then returns cause. stopped returns the total time for
// which this process was stopped (^Z). That time is not counted. If stopped is nil, the process is assumed never to
// be stopped.
func New(parent context.Context, limit time.Duration, cause error, stopped func() time.Duration) *Deadline {
	if stopped == nil {
		stopped = func() time.Duration { return 0 }
	}
	d := &Deadline{cause: cause, stopped: stopped, limit: limit, left: limit, slept: stopped()}
	d.ctx, d.cancel = context.WithCancelCause(parent)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.timer = time.Now(), time.AfterFunc(limit, d.check)
	return d
}

// check is called when the timer fires. It ends the context if no time is left for the step and the Deadline is not
// paused. Otherwise the limit was extended after the timer had been set, and check sets the timer again.
func (d *Deadline) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.updateLeft(); left > 0 || d.paused > 0 {
		d.setTimer(left)
		return
	}
	d.cancel(d.cause)
}

// setTimer sets the timer to fire after the remaining time, unless the Deadline is paused or its context has ended.
// The caller must hold d.mu.
func (d *Deadline) setTimer(remaining time.Duration) {
	if d.paused == 0 && d.ctx.Err() == nil {
		d.timer.Reset(max(remaining, 0))
	}
}

// updateLeft subtracts the time since its last call from d.left, and returns d.left. It does not count pauses, and
// the time for which the process was stopped. The caller must hold d.mu.
func (d *Deadline) updateLeft() time.Duration {
	now, slept := time.Now(), d.stopped()
	if d.paused == 0 {
		d.left -= now.Sub(d.since) - (slept - d.slept)
	}
	d.since, d.slept = now, slept
	return d.left
}

// Context returns the Deadline's context. It ends when the time limit of a step has passed, or when the parent
// context that was passed to New ends.
func (d *Deadline) Context() context.Context { return d.ctx }

// BeginStep begins the next step. limit is its time limit.
func (d *Deadline) BeginStep(limit time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updateLeft()
	d.limit, d.left = limit, limit
	d.setTimer(limit)
}

// ExtendForBytes extends the time limit, because the host has accepted n bytes. The remaining time never exceeds the
// limit that was set for the step.
func (d *Deadline) ExtendForBytes(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = min(d.updateLeft()+TimeFor(n), d.limit)
}

// Pause stops the clock until resume is called. Several pauses may overlap.
func (d *Deadline) Pause() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updateLeft()
	d.paused++
	d.timer.Stop()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		left := d.updateLeft()
		d.paused--
		d.setTimer(left)
	}
}

// Left returns the remaining time of the step.
func (d *Deadline) Left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updateLeft()
}

// Stop ends the context at once. The caller must call Stop when nothing waits for the host any longer.
func (d *Deadline) Stop() {
	d.timer.Stop()
	d.cancel(nil)
}
