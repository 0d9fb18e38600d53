package node

import (
	"slices"
	"sync"

	"remshell/pin"
)

// Topologies keeps only one copy of each topology, to save memory. The topology of a node with 64 cores takes 7 KiB,
// and most nodes of a cluster are alike. A topology is never changed after it was probed. The zero value is empty and
// ready for use. A nil *Topologies keeps nothing.
type Topologies struct {
	mu    sync.Mutex // guards known
	known []pin.Topology
}

// maxTopologies is how many different topologies are kept. It limits the time that a search takes.
const maxTopologies = 16

// intern returns the kept topology that is equal to found. If there is none, it keeps and returns found.
func (t *Topologies) intern(found pin.Topology) pin.Topology {
	if t == nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.known, found.Equal); i >= 0 {
		return t.known[i]
	}
	if len(t.known) < maxTopologies {
		t.known = append(t.known, found)
	}
	return found
}
