package reach

import (
	"context"
	"slices"
	"sync"
	"time"
)

// crowd is how many at once one server is sure to bear: OpenSSH drops from the
// tenth on (sshd_config, MaxStartups 10:30:100).
const crowd = 8

// A gate limits how many programs are in the set-up phase. We cannot see which of
// them go to the same server; a server that drops some halves the limit for all,
// down to one. The zero value is ready to use.
type gate struct {
	mu      sync.Mutex // guards the rest
	limit   int        // 0: none has entered yet
	busy    int
	halved  time.Time // when the limit was halved last
	waiting []chan struct{}
}

// halving is the time in which drops belong to one burst and halve only once.
const halving = 100 * time.Millisecond

// enter waits for a place and returns the limit at that moment.
func (g *gate) enter(ctx context.Context, limit int) (int, error) {
	turn := make(chan struct{})
	g.mu.Lock()
	if g.limit == 0 {
		g.limit = limit
	}
	g.waiting = append(g.waiting, turn)
	g.admit()
	g.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		if i := slices.Index(g.waiting, turn); i >= 0 {
			g.waiting = slices.Delete(g.waiting, i, i+1)
		} else {
			g.busy--
			g.admit()
		}
		return 0, err
	}
	return g.limit, nil
}

// leave gives the place back and tells whether the server was busy.
func (g *gate) leave(dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if dropped && time.Since(g.halved) > halving {
		g.limit = max(1, g.limit/2)
		g.halved = time.Now()
	}
	g.admit()
}

// admit lets in whoever has a place, in order; g.mu is held.
func (g *gate) admit() {
	for len(g.waiting) > 0 && g.busy < g.limit {
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
		g.busy++
	}
}

// backoff is how long to wait before another attempt after n of them: 0.2, 0.5, 1,
// 2, 2 ... seconds, each shorter or longer by up to a quarter, so that those dropped
// together do not come back together. random is from 0 to 1.
func backoff(n int, random float64) time.Duration {
	steps := []time.Duration{200, 500, 1000, 2000}
	d := steps[min(max(n-1, 0), len(steps)-1)] * time.Millisecond
	return time.Duration(float64(d) * (0.75 + random/2))
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
