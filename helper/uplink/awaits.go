//go:build linux

package uplink

import (
	"context"
	"sync"

	"remshell/wire"
)

// awaits are the names of which mpiexec will tell when they are published.
type awaits struct {
	mu   sync.Mutex // guards open
	open map[string]*nameWait
}

// A nameWait is a name for which some ranks of this node wait.
type nameWait struct {
	posted chan struct{} // closed when the name is there
	ranks  int
}

// join makes a rank wait for a name.
func (a *awaits) join(service string) *nameWait {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.open[service]
	if w == nil {
		if a.open == nil {
			a.open = make(map[string]*nameWait)
		}
		w = &nameWait{posted: make(chan struct{})}
		a.open[service] = w
	}
	w.ranks++
	return w
}

// leave lets a rank wait no longer.
func (a *awaits) leave(service string, w *nameWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ranks--; w.ranks == 0 && a.open[service] == w {
		delete(a.open, service)
	}
}

// posted wakes those who wait for a name. Who comes later waits for the next time.
func (a *awaits) posted(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.open[service]; w != nil {
		delete(a.open, service)
		close(w.posted)
	}
}

// Posted says that a name is published.
func (q *Questions) Posted(service string) { q.awaits.posted(service) }

// Await looks a name up, and waits until it is there (PMIX-40). Others who wait for it may take
// it first; then it waits on. A rank joins before it asks, so that it misses no news.
func (n Names) Await(ctx context.Context, service string) (wire.Named, error) {
	for {
		w := n.awaits.join(service)
		found, err := n.name(ctx, &wire.Name{Op: wire.Await, Service: service})
		if err == nil && !found.Yes {
			select {
			case <-w.posted:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		n.awaits.leave(service, w)
		if err != nil || found.Yes {
			return found, err
		}
	}
}
