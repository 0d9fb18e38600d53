//go:build linux

package names

import "sync"

// waits is the set of names for which ranks of this node wait. mpiexec reports when one of them is published.
type waits struct {
	mu     sync.Mutex // guards byName and what it holds
	byName map[string]*nameWait
}

// A nameWait is a name for which ranks of this node wait.
type nameWait struct {
	published chan struct{} // closed when the name is published
	ranks     int
}

// joinName records that one more rank waits for a name. All ranks that wait for the same name share the nameWait that
// joinName returns.
func (ws *waits) joinName(service string) *nameWait {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byName[service]
	if w == nil {
		if ws.byName == nil {
			ws.byName = make(map[string]*nameWait)
		}
		w = &nameWait{published: make(chan struct{})}
		ws.byName[service] = w
	}
	w.ranks++
	return w
}

// leaveName records that a rank no longer waits for a name.
func (ws *waits) leaveName(service string, w *nameWait) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.ranks--; w.ranks == 0 && ws.byName[service] == w {
		delete(ws.byName, service)
	}
}

// namePublished wakes the ranks that wait for a name. It does not wake ranks that begin to wait later.
func (ws *waits) namePublished(service string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byName[service]; w != nil {
		delete(ws.byName, service)
		close(w.published)
	}
}
