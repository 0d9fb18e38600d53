package node

import (
	"slices"
	"sync"

	"remshell/pin"
)

// Topologies hold once what nodes have that are alike, as those of a cluster are: the 64 cores of
// a node take 7 KiB. Nobody changes a topology that was found. The zero value holds none; nil
// holds nothing.
type Topologies struct {
	mu    sync.Mutex // guards known
	known []pin.Topology
}

// maxTopologies is how many different ones are held, so that looking for one has an end. A cluster
// has as many as it has types of nodes.
const maxTopologies = 16

// intern is an equal topology that was found before, or this one.
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
