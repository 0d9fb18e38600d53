package launch

import (
	"context"
	"sync"
	"time"
)

// Pauses are the times in which mpiexec was stopped (^Z): no deadline of a start runs on
// meanwhile (SIG-5). All deadlines come due at once when a process goes on that was stopped,
// so who has one asks here before he believes it. A nil *pauses never stops.
type pauses struct {
	mu    sync.Mutex // held while we are stopped
	total time.Duration
}

// during carries out a stop, and tells how long it took.
func (p *pauses) during(stop func()) time.Duration {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	began := time.Now()
	stop()
	took := time.Since(began)
	if p != nil {
		p.total += took
	}
	return took
}

// sum is how long all stops took. During one it waits for its end.
func (p *pauses) sum() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// An alarm is a time.AfterFunc that does not run while we are stopped.
type alarm struct {
	pauses *pauses
	ring   func()

	mu    sync.Mutex // guards the rest
	timer *time.Timer
	slept time.Duration // what it has allowed for
	over  bool          // it was stopped, or has rung
}

// after has ring called when we have run for d.
func (p *pauses) after(d time.Duration, ring func()) *alarm {
	a := &alarm{pauses: p, ring: ring, slept: p.sum()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(d, a.due)
	return a
}

func (a *alarm) due() {
	slept := a.pauses.sum()
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return
	}
	if more := slept - a.slept; more > 0 {
		a.slept = slept
		a.timer.Reset(more)
		a.mu.Unlock()
		return
	}
	a.over = true
	a.mu.Unlock()
	a.ring()
}

// Stop keeps it from ringing, and reports whether it had not rung.
func (a *alarm) Stop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	rung := a.over
	a.over = true
	a.timer.Stop()
	return !rung
}

// within is a context that ends, for that cause, when we have run for d.
func (p *pauses) within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := p.after(d, func() { cancel(cause) })
	return ctx, func() {
		late.Stop()
		cancel(nil)
	}
}
