package node

import (
	"context"
	"sync"
	"time"

	"remshell/deadline"
)

// StopTimes records when mpiexec was stopped (^Z). Stops do not count towards deadlines, such as those for connecting
// to a host (rule SIG-5). When a stopped process continues, all its timers fire at once. So code with a deadline
// consults StopTimes first. A nil *StopTimes records no stops.
type StopTimes struct {
	mu    sync.Mutex // held while mpiexec is stopped
	total time.Duration
}

// RunStopped calls stop, which stops this process and returns when the process continues. RunStopped records how long
// this took, and returns it.
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

// Total returns the duration of all stops so far. During a stop, Total blocks until the stop is over.
func (p *StopTimes) Total() time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// A Deadline is a moment that moves when mpiexec is stopped: each stop delays it by the duration of the stop.
type Deadline struct {
	stops        *StopTimes
	at           time.Time
	allowedStops time.Duration // duration of all stops before the Deadline was set
}

// Deadline returns the moment at which mpiexec will have run for the time d from now on. The time during which it is
// stopped does not count.
func (p *StopTimes) Deadline(d time.Duration) Deadline {
	return Deadline{p, time.Now().Add(d), p.Total()}
}

// Time returns the time of the deadline. Each stop of mpiexec since the deadline was set has delayed it. During a stop,
// Time blocks until the stop is over.
func (d Deadline) Time() time.Time { return d.at.Add(d.stops.Total() - d.allowedStops) }

// Limit returns a deadline that passes after the duration limit, not counting stops of mpiexec. When it passes, its
// context ends with cause.
func (p *StopTimes) Limit(ctx context.Context, limit time.Duration, cause error) *deadline.Deadline {
	return deadline.New(ctx, limit, cause, p.Total)
}

// Within returns a context that ends with cause when mpiexec has run for d, not counting stops.
func (p *StopTimes) Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	limit := p.Limit(ctx, d, cause)
	return limit.Context(), limit.Stop
}
