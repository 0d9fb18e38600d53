//go:build linux

package rpc

import (
	"context"
	"sync"

	"remshell/wire"
)

// nameWaits are the names of which mpiexec will tell when they are published.
type nameWaits struct {
	mu     sync.Mutex // guards open
	byName map[string]*nameWait
}

// A nameWait is a name for which some ranks of this node wait.
type nameWait struct {
	posted chan struct{} // closed when the name is there
	ranks  int
}

// joinName makes a rank wait for a name.
func (a *nameWaits) joinName(service string) *nameWait {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.byName[service]
	if w == nil {
		if a.byName == nil {
			a.byName = make(map[string]*nameWait)
		}
		w = &nameWait{posted: make(chan struct{})}
		a.byName[service] = w
	}
	w.ranks++
	return w
}

// leaveName lets a rank wait no longer.
func (a *nameWaits) leaveName(service string, w *nameWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ranks--; w.ranks == 0 && a.byName[service] == w {
		delete(a.byName, service)
	}
}

// namePosted wakes those who wait for a name. Who comes later waits for the next time.
func (a *nameWaits) namePosted(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.byName[service]; w != nil {
		delete(a.byName, service)
		close(w.posted)
	}
}

// NamePosted says that a name is published.
func (q *Requests) NamePosted(service string) { q.nameWaits.namePosted(service) }

// Await looks a name up, and waits until it is there (PMIX-40). Others who wait for it may take
// it first; then it waits on. A rank joins before it asks, so that it misses no news.
func (n Names) Await(ctx context.Context, service string) (wire.NameReply, error) {
	for {
		w := n.nameWaits.joinName(service)
		found, err := n.requestName(ctx, &wire.NameRequest{Op: wire.LookupWait, Service: service})
		if err == nil && !found.OK {
			select {
			case <-w.posted:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		n.nameWaits.leaveName(service, w)
		if err != nil || found.OK {
			return found, err
		}
	}
}
