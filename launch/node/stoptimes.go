package node

import (
	"context"
	"sync"
	"time"

	"remshell/deadline"
)

// StopTimes are the times in which mpiexec was stopped (^Z): no deadline of a start runs on
// meanwhile (SIG-5). All deadlines come due at once when a process goes on that was stopped,
// so who has one asks here before he believes it. A nil *Pauses never stops.
type StopTimes struct {
	mu    sync.Mutex // held while we are stopped
	total time.Duration
}

// RunStopped carries out a stop, and tells how long it took.
func (p *StopTimes) RunStopped(stop func()) time.Duration {
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

// Total is how long all stops took. During one it waits for its end.
func (p *StopTimes) Total() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// A Deadline is a moment by which something has to have come. What we are stopped until then counts for nothing.
type Deadline struct {
	pauses       *StopTimes
	at           time.Time
	allowedStops time.Duration // what it has allowed for
}

// Deadline is the moment at which we will have run for d.
func (p *StopTimes) Deadline(d time.Duration) Deadline {
	return Deadline{p, time.Now().Add(d), p.Total()}
}

// Time is the moment, as far as it can be known. During a stop it waits for its end.
func (d Deadline) Time() time.Time { return d.at.Add(d.pauses.Total() - d.allowedStops) }

// Limit is a deadline that does not run while we are stopped.
func (p *StopTimes) Limit(ctx context.Context, limit time.Duration, cause error) *deadline.Deadline {
	return deadline.New(ctx, limit, cause, p.Total)
}

// Within is a context that ends, for that cause, when we have run for d.
func (p *StopTimes) Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	limit := p.Limit(ctx, d, cause)
	return limit.Context(), limit.Stop
}
