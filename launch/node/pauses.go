package node

import (
	"context"
	"sync"
	"time"

	"remshell/deadline"
)

// Pauses are the times in which mpiexec was stopped (^Z): no deadline of a start runs on
// meanwhile (SIG-5). All deadlines come due at once when a process goes on that was stopped,
// so who has one asks here before he believes it. A nil *Pauses never stops.
type Pauses struct {
	mu    sync.Mutex // held while we are stopped
	total time.Duration
}

// During carries out a stop, and tells how long it took.
func (p *Pauses) During(stop func()) time.Duration {
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

// Sum is how long all stops took. During one it waits for its end.
func (p *Pauses) Sum() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// A Due is a moment by which something has to have come. What we are stopped until then counts for nothing.
type Due struct {
	pauses *Pauses
	at     time.Time
	slept  time.Duration // what it has allowed for
}

// Due is the moment at which we will have run for d.
func (p *Pauses) Due(d time.Duration) Due { return Due{p, time.Now().Add(d), p.Sum()} }

// Time is the moment, as far as it can be known. During a stop it waits for its end.
func (d Due) Time() time.Time { return d.at.Add(d.pauses.Sum() - d.slept) }

// Limit is a deadline that does not run while we are stopped.
func (p *Pauses) Limit(ctx context.Context, limit time.Duration, cause error) *deadline.Deadline {
	return deadline.New(ctx, limit, cause, p.Sum)
}

// Within is a context that ends, for that cause, when we have run for d.
func (p *Pauses) Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	limit := p.Limit(ctx, d, cause)
	return limit.Context(), limit.Stop
}
