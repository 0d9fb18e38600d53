/*
Package deadline bounds how long another host may keep us waiting.

Every step toward a host has a time of its own: connection and login, the first word of the shell, the delivery of our
program, the greeting, each answer. What the host sends does not extend it, so a host that sends a byte each second gains nothing.
Two things do: bytes of ours that the host has taken give back the time that they need at Rate, and pauses for which the host is
not to blame do not count.

	d := deadline.New(ctx, limit, cause, stopped)
	defer d.Stop()
	d.Context()            ends with cause when the step has taken longer than limit
	d.Took(n)              the host has taken n bytes of ours
	d.Next(limit)          the next step begins
	resume := d.Pause()    the user types, or it is another host's turn
*/
package deadline

import (
	"context"
	"sync"
	"time"
)

// MinRate is how many bytes per second a host has to take of what is delivered to it.
const MinRate = 10_000

// TimeFor is how long a host may need to take n bytes.
func TimeFor(n int) time.Duration { return time.Duration(n) * (time.Second / MinRate) }

// A Deadline ends a context when a step has taken too long.
type Deadline struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	cause   error
	stopped func() time.Duration

	mu     sync.Mutex // guards the rest
	timer  *time.Timer
	limit  time.Duration // of the step
	left   time.Duration // at since
	since  time.Time
	slept  time.Duration // how much of stopped is part of left
	paused int
}

// New begins the first step. The context of the deadline ends with parent, or with cause when the step has taken
// longer than limit. stopped tells for how long this process has been stopped (^Z), in all: that time does not count.
// If stopped is nil, it never is.
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

// check ends the context if the time is over. The time may have been extended since the timer was set.
func (d *Deadline) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.updateLeft(); left > 0 || d.paused > 0 {
		d.setTimer(left)
		return
	}
	d.cancel(d.cause)
}

// setTimer sets the timer, unless the deadline is paused. d.mu is held.
func (d *Deadline) setTimer(left time.Duration) {
	if d.paused == 0 && d.ctx.Err() == nil {
		d.timer.Reset(max(left, 0))
	}
}

// updateLeft brings left up to date. d.mu is held.
func (d *Deadline) updateLeft() time.Duration {
	now, slept := time.Now(), d.stopped()
	if d.paused == 0 {
		d.left -= now.Sub(d.since) - (slept - d.slept)
	}
	d.since, d.slept = now, slept
	return d.left
}

// Context ends with the deadline, or with the context that New was given.
func (d *Deadline) Context() context.Context { return d.ctx }

// BeginStep begins the next step, which may take limit.
func (d *Deadline) BeginStep(limit time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updateLeft()
	d.limit, d.left = limit, limit
	d.setTimer(limit)
}

// CountTaken gives back the time for n bytes that the host has taken, but there is never more of it than when the step began:
// a host that takes no more bytes has that time from then on.
func (d *Deadline) CountTaken(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = min(d.updateLeft()+TimeFor(n), d.limit)
}

// Pause lets no time pass until resume is called. Pauses may overlap.
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

// Left is how much time the step has left.
func (d *Deadline) Left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updateLeft()
}

// Stop ends the context at once. It must be called when nobody waits any more.
func (d *Deadline) Stop() {
	d.timer.Stop()
	d.cancel(nil)
}
