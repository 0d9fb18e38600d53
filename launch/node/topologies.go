package node

import (
	"slices"
	"sync"

	"remshell/pin"
)

// Topologies shares the memory of equal topologies: most nodes of a cluster are alike, and the topology of
// a node with 64 cores takes 7 KiB. A probed topology is never changed. The zero value is empty and ready
// for use. A nil *Topologies shares nothing.
type Topologies struct {
	mu    sync.Mutex // guards known
	known []pin.Topology
}

// maxTopologies is how many different topologies are kept, which bounds the search. A cluster has as many
// as it has types of nodes.
const maxTopologies = 16

// intern returns an equal topology that was seen before, or found itself.
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
