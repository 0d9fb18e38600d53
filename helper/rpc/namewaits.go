//go:build linux

package rpc

import (
	"context"
	"sync"

	"remshell/wire"
)

// nameWaits is the set of names whose publication mpiexec will report.
type nameWaits struct {
	mu     sync.Mutex // guards open
	byName map[string]*nameWait
}

// A nameWait is a name for which ranks of this node wait.
type nameWait struct {
	posted chan struct{} // closed when the name is published
	ranks  int
}

// joinName adds a rank that waits for a name.
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

// leaveName removes a rank that waits for a name.
func (a *nameWaits) leaveName(service string, w *nameWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ranks--; w.ranks == 0 && a.byName[service] == w {
		delete(a.byName, service)
	}
}

// namePosted wakes the ranks that wait for a name. Later ones wait for the next publication.
func (a *nameWaits) namePosted(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.byName[service]; w != nil {
		delete(a.byName, service)
		close(w.posted)
	}
}

// NamePosted is called when mpiexec reports that a name was published.
func (q *Requests) NamePosted(service string) { q.nameWaits.namePosted(service) }

// Await looks a name up, and waits until it is published (PMIX-40). If another rank takes the name first, it waits
// again. A rank joins before it looks up, so that it misses no publication.
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
