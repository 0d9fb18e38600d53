package pmiserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Hub is where the fences of a job meet, those of all its groups. It runs in
// mpiexec and knows nothing of connections:
//
//	a group is about to start:  h.Add(group, its nodes)
//	on Fence from node i:       done, err := h.Join(i, id, blob)
//	                            if done != nil, send Fenced with its blobs to
//	                            its nodes, encoded once
//	a rank of i has left:       err := h.Leave(group, i, rank)
//	the group is over:          h.Remove(group)
//	any err:                    nobody is ever released; end the job
//
// The id of a fence is that of its group, a slash, and a number. No method waits,
// but for those of Node. They may be called from any goroutine.
type Hub struct {
	mu     sync.Mutex // guards what follows
	groups map[string]*circle
	err    error // of Fail
}

// A circle is a group as the hub sees it: nodes that meet.
type circle struct {
	nodes []int            // as the caller numbers them
	place map[int]int      // of a node in nodes
	open  map[string]*meet // by fence
	left  map[int][]int    // ranks that cannot arrive any more, by place
}

// A meet is a fence at which some nodes have arrived.
type meet struct {
	blobs [][]byte // by place; all nil if nobody brought anything
	here  []bool
	count int
	bytes int
	over  chan struct{} // closed when all or err is set
	all   [][]byte
	err   error
}

// maxFence is how many bytes a fence may spread: as much as a group may keep on a node, and
// what fits into one message to it.
const maxFence = maxStore - 1<<24

// A Meeting is a fence at which all nodes of a group have arrived.
type Meeting struct {
	Nodes []int    // of the group; not to be changed
	Blobs [][]byte // what each of Nodes brought; nil if nobody brought anything
}

// NewHub returns a hub without groups.
func NewHub() *Hub { return &Hub{groups: make(map[string]*circle)} }

// fenceID names one of a group's fences.
func fenceID(group string, n int) string { return group + "/" + strconv.Itoa(n) }

// Add lets the nodes of a group meet, each given once.
func (h *Hub) Add(group string, nodes []int) {
	g := &circle{
		nodes: slices.Clone(nodes),
		place: make(map[int]int, len(nodes)),
		open:  make(map[string]*meet),
		left:  make(map[int][]int),
	}
	for place, node := range nodes {
		g.place[node] = place
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups[group] = g
}

// Remove forgets a group that is over, and fails what is left of its fences.
func (h *Hub) Remove(group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.groups[group]; g != nil {
		g.fail(fmt.Errorf("group %s is over", group))
		delete(h.groups, group)
	}
}

// Join brings the blob of a node to a fence. If it was the last one, Join returns
// the meeting, else nil. The hub keeps the blob, not a copy, and forgets all about
// the fence when it is complete. An error means that it can never be complete.
func (h *Hub) Join(node int, id string, blob []byte) (*Meeting, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, m, err := h.join(node, id, blob)
	if err != nil || m.count < len(g.nodes) {
		return nil, err
	}
	return &Meeting{Nodes: g.nodes, Blobs: m.all}, nil
}

func (h *Hub) join(node int, id string, blob []byte) (*circle, *meet, error) {
	if h.err != nil {
		return nil, nil, h.err
	}
	group := id[:max(0, strings.LastIndexByte(id, '/'))]
	g := h.groups[group]
	if g == nil {
		return nil, nil, fmt.Errorf("fence %s: there is no such group", id)
	}
	place, member := g.place[node]
	if !member {
		return nil, nil, fmt.Errorf("fence %s: node %d is none of the group", id, node)
	}
	m, err := g.join(place, id, blob)
	return g, m, err
}

func (g *circle) join(place int, id string, blob []byte) (*meet, error) {
	m := g.open[id]
	if m == nil {
		m = &meet{blobs: make([][]byte, len(g.nodes)), here: make([]bool, len(g.nodes)), over: make(chan struct{})}
		g.open[id] = m
	}
	if m.here[place] {
		return nil, fmt.Errorf("fence %s: node %d came twice", id, g.nodes[place])
	}
	m.here[place], m.blobs[place] = true, blob
	m.count++
	m.bytes += len(blob)
	if m.bytes > maxFence {
		return nil, fmt.Errorf("fence %s: the ranks have put %d MiB since the one before, and %d are too much", id, m.bytes>>20, maxFence>>20)
	}
	if m.count < len(g.nodes) {
		return m, g.stuck(m)
	}
	if m.bytes > 0 {
		m.all = m.blobs
	}
	delete(g.open, id)
	close(m.over)
	return m, nil
}

// Leave says that a rank of a group, on a node, cannot enter a barrier any more.
// It returns a *StuckError if other nodes wait for that, now or, by Join, later.
func (h *Hub) Leave(group string, node, rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[group]
	if g == nil {
		return nil
	}
	place, member := g.place[node]
	if !member {
		return nil
	}
	g.left[place] = append(g.left[place], rank)
	for _, m := range g.open {
		if err := g.stuck(m); err != nil {
			return err
		}
	}
	return nil
}

// stuck returns an error if nodes wait for one that a rank has left.
func (g *circle) stuck(m *meet) error {
	var gone []int
	for place, ranks := range g.left {
		if !m.here[place] {
			gone = append(gone, ranks...)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.Sort(gone)
	return &StuckError{Nodes: m.count, Gone: gone}
}

// Fail ends all fences, those under way and those to come, with an error.
func (h *Hub) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	for _, g := range h.groups {
		g.fail(h.err)
	}
}

func (g *circle) fail(err error) {
	for id, m := range g.open {
		m.err = err
		delete(g.open, id)
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
	_, m, err := n.h.join(n.i, id, mine)
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
