package pmiserver

import (
	"context"
	"fmt"
	"sync"
)

// A Hub is where the fences of all nodes of a group meet. It runs in mpiexec and
// knows nothing of connections:
//
//	on Fence from node i:   all, complete, err := h.Join(i, id, blob)
//	                        if complete, send Fenced with all to every node,
//	                        encoded once
//	a rank of i has left:   err := h.Leave(i, rank)
//	any err:                nobody is ever released; end the job
//
// No method waits, but for those of Node. They may be called from any goroutine.
type Hub struct {
	nodes int

	mu   sync.Mutex // guards what follows
	open map[string]*meeting
	left map[int][]int // ranks that cannot arrive any more, by node
	err  error         // of Fail
}

// A meeting is a fence at which some nodes have arrived.
type meeting struct {
	blobs [][]byte // by node; all nil if nobody brought anything
	here  []bool
	count int
	bytes int
	over  chan struct{} // closed when all or err is set
	all   [][]byte
	err   error
}

// NewHub returns a hub for nodes numbered from 0.
func NewHub(nodes int) *Hub {
	return &Hub{nodes: nodes, open: make(map[string]*meeting), left: make(map[int][]int)}
}

// Join brings the blob of a node to a fence. If it was the last one, complete is
// true, and all holds what each node brought, by node; it is nil if nobody
// brought anything. The hub keeps the blob, not a copy, and forgets all about the
// fence when it is complete. An error means that the fence can never be complete.
func (h *Hub) Join(node int, id string, blob []byte) (all [][]byte, complete bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.join(node, id, blob)
	if err != nil {
		return nil, false, err
	}
	return m.all, m.count == h.nodes, nil
}

func (h *Hub) join(node int, id string, blob []byte) (*meeting, error) {
	if h.err != nil {
		return nil, h.err
	}
	if node < 0 || node >= h.nodes {
		return nil, fmt.Errorf("fence %s: there is no node %d", id, node)
	}
	m := h.open[id]
	if m == nil {
		m = &meeting{blobs: make([][]byte, h.nodes), here: make([]bool, h.nodes), over: make(chan struct{})}
		h.open[id] = m
	}
	if m.here[node] {
		return nil, fmt.Errorf("fence %s: node %d came twice", id, node)
	}
	m.here[node], m.blobs[node] = true, blob
	m.count++
	m.bytes += len(blob)
	if m.count < h.nodes {
		return m, h.stuck(m)
	}
	if m.bytes > 0 {
		m.all = m.blobs
	}
	delete(h.open, id)
	close(m.over)
	return m, nil
}

// Leave says that a rank of a node cannot enter a barrier any more. It returns a
// *StuckError if other nodes wait for that, now or, by Join, later.
func (h *Hub) Leave(node, rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left[node] = append(h.left[node], rank)
	for _, m := range h.open {
		if err := h.stuck(m); err != nil {
			return err
		}
	}
	return nil
}

// stuck returns an error if nodes wait for one that a rank has left.
func (h *Hub) stuck(m *meeting) error {
	var gone []int
	for node, ranks := range h.left {
		if !m.here[node] {
			gone = append(gone, ranks...)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return &StuckError{Nodes: m.count, Gone: gone}
}

// Fail ends all fences, those under way and those to come, with an error.
func (h *Hub) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	for id, m := range h.open {
		m.err = h.err
		delete(h.open, id)
		close(m.over)
	}
}

// Node returns the hub as one node sees it, for servers in the same process.
func (h *Hub) Node(i int) Fencer { return hubNode{h, i} }

type hubNode struct {
	h *Hub
	i int
}

// Fence joins and waits.
func (n hubNode) Fence(ctx context.Context, id string, mine []byte) ([][]byte, error) {
	n.h.mu.Lock()
	m, err := n.h.join(n.i, id, mine)
	n.h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-m.over:
		return m.all, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
