package fence

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
)

// A Hub is where the nodes of a job meet for their fences, those of all its groups. It runs in
// mpiexec and knows nothing of connections:
//
//	a group is about to start:  h.Add(group, its nodes, the node of each rank)
//	on Fence from node i:       done, err := h.Join(i, id, blob)
//	                            if done != nil, send Fenced with its blobs to
//	                            its nodes, encoded once
//	its time is over on i:      nodes, err := h.GiveUp(i, id, i has joined)
//	                            send to each that it is over
//	a rank of i has left:       err := h.Leave(group, i, rank)
//	the group is over:          h.Remove(group)
//	any err:                    nobody is ever released; end the job, or
//	                            h.Abandon() and send to each node that it is over
//
// No method waits. They may be called from any goroutine.
type Hub struct {
	mu     sync.Mutex // guards what follows
	groups map[string]*group
	open   map[ID]*fence
	held   int   // bytes that those in open take
	made   int   // groups by Construct
	err    error // of Fail
}

// A group is where its ranks are, and which of them cannot enter a fence any more.
type group struct {
	nodes []int         // as the caller numbers them
	index map[int]int   // of a node in nodes
	home  []int         // the node of each rank
	gone  map[int][]int // ranks, by node
}

// A fence is one at which some nodes have arrived.
type fence struct {
	parts []part
	nodes []int
	index map[int]int // of a node in nodes; both may be those of a group
	blobs [][]byte    // of nodes
	here  []bool
	count int
	bytes int
	late  bool // it was given up, and is kept until all nodes know
}

// maxFence is how many bytes a fence may spread: as much as a group may keep on a node, and
// what fits into one message to it.
const maxFence = 1<<30 - 1<<24

// maxOpen is how many bytes all fences together may take at which somebody still waits, with what
// is kept of each of them: nodes open as many as they like (TRUST-29).
const maxOpen = 1 << 30

// An Exchange is a fence at which all nodes have arrived.
type Exchange struct {
	Nodes []int    // that have ranks in it; not to be changed
	Blobs [][]byte // what each of Nodes brought, nil if nobody brought anything; of Construct then the number of the group
}

// NewHub returns a hub without groups.
func NewHub() *Hub { return &Hub{groups: make(map[string]*group), open: make(map[ID]*fence)} }

// Add lets the ranks of a group meet. home has the node of each rank, and nodes each of them
// once, in the order in which their blobs are spread. Both are kept.
func (h *Hub) Add(name string, nodes, home []int) {
	g := &group{nodes: nodes, home: home, index: make(map[int]int, len(nodes)), gone: make(map[int][]int)}
	for i, node := range nodes {
		g.index[node] = i
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups[name] = g
}

// Remove forgets a group that is over, and what is left of its fences.
func (h *Hub) Remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.groups, name)
	for id, f := range h.open {
		if f.of(name) != nil {
			h.forget(id, f)
		}
	}
}

// Fail refuses all fences from now on, those under way too, with an error.
func (h *Hub) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	clear(h.open)
	h.held = 0
}

// Join brings the blob of a node to a fence. If it was the last one, Join returns
// the exchange, else nil. The hub keeps the blob, not a copy, and forgets all about
// the fence when it is complete. An error means that it can never be complete.
func (h *Hub) Join(node int, id ID, blob []byte) (*Exchange, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	f, err := h.find(id)
	if err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if err := f.join(node, blob); err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if f.late {
		blob = nil
	}
	if err := h.keep(id, f, len(blob)); err != nil {
		return nil, err
	}
	if f.count < len(f.nodes) {
		return nil, h.stuck(f)
	}
	h.forget(id, f)
	if f.late {
		return nil, nil
	}
	return h.complete(id, f)
}

// complete is a fence at which all nodes have arrived. That of a group which is made brings its number as
// well, as one blob more (PMIX-46).
func (h *Hub) complete(id ID, f *fence) (*Exchange, error) {
	done := &Exchange{Nodes: f.nodes}
	if f.bytes > 0 {
		done.Blobs = f.blobs
	}
	if id.Kind.Base() == Construct {
		if h.made == math.MaxInt32 {
			return nil, fmt.Errorf("fence %v: %d groups were made, and there are no more numbers", id, h.made)
		}
		h.made++
		done.Blobs = append(slices.Clip(done.Blobs), binary.AppendUvarint(nil, uint64(h.made)))
	}
	return done, nil
}

// GiveUp ends a fence without all its nodes, because the time of a member is over on one of them: one that
// has joined it, or will not, which then counts as joined. It returns the nodes that are to be told; none if
// they have been, or all were there before. A node that is told and has not joined calls GiveUp as well.
// An error means that there is no such fence any more.
func (h *Hub) GiveUp(node int, id ID, joined bool) (tell []int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	f := h.open[id]
	if joined && (f == nil || f.late) {
		return nil, nil
	}
	if !joined {
		if f, err = h.find(id); err != nil {
			return nil, err
		}
		if err := f.join(node, nil); err != nil {
			return nil, err
		}
		if err := h.keep(id, f, 0); err != nil {
			return nil, err
		}
	}
	first := !f.late
	h.drop(f)
	if f.count == len(f.nodes) {
		h.forget(id, f)
	}
	if first {
		tell = f.nodes
	}
	return tell, nil
}

// Abandon gives up all open fences of PMIx that a member has left for good, and returns the nodes that
// are to be told of each. As with GiveUp, a node that has not joined one then calls GiveUp.
func (h *Hub) Abandon() map[ID][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	tell := make(map[ID][]int)
	for id, f := range h.open {
		if id.Kind != Barrier && h.stuck(f) != nil {
			h.drop(f)
			tell[id] = f.nodes
		}
	}
	return tell
}

// drop empties a fence that is given up. h.mu is held.
func (h *Hub) drop(f *fence) {
	h.held -= f.bytes
	f.late, f.bytes = true, 0
	clear(f.blobs)
}

// keep notes that somebody waits at a fence, for which so many bytes have come.
func (h *Hub) keep(id ID, f *fence, more int) error {
	if h.open[id] == nil {
		more += f.own(id)
	}
	if h.held+more > maxOpen {
		return fmt.Errorf("fences at which somebody waits take more than %d MiB", maxOpen>>20)
	}
	h.held += more
	h.open[id] = f
	return nil
}

// forget undoes all that keep has done for a fence.
func (h *Hub) forget(id ID, f *fence) {
	delete(h.open, id)
	h.held -= f.own(id) + f.bytes
}

// own is how many bytes, about, a fence takes beside what was brought to it.
func (f *fence) own(id ID) int {
	const ofNode, ofRange = 32, 16
	size := len(id.Members) + ofNode*len(f.nodes)
	for _, p := range f.parts {
		size += ofRange * len(p.ranges)
	}
	return size
}

// find returns a fence, as it is or new.
func (h *Hub) find(id ID) (*fence, error) {
	if f := h.open[id]; f != nil {
		return f, nil
	}
	parts, err := id.Members.parts()
	if err != nil {
		return nil, err
	}
	f := &fence{parts: parts}
	for _, p := range parts {
		if h.groups[p.group] == nil {
			return nil, fmt.Errorf("there is no such group")
		}
	}
	if g := h.groups[id.Members.Group()]; g != nil {
		f.nodes, f.index = g.nodes, g.index
	} else if err := f.gather(h.groups); err != nil {
		return nil, err
	}
	f.blobs, f.here = make([][]byte, len(f.nodes)), make([]bool, len(f.nodes))
	return f, nil
}

// gather lists the nodes on which the members are.
func (f *fence) gather(groups map[string]*group) error {
	f.index = make(map[int]int)
	for _, p := range f.parts {
		g := groups[p.group]
		if n := len(p.ranges); n > 0 && p.ranges[n-1].last >= len(g.home) {
			return fmt.Errorf("there is no rank %d in group %s", p.ranges[n-1].last, p.group)
		}
		here := make(map[int]bool)
		for _, r := range p.ranges {
			for _, node := range g.home[r.first : r.last+1] {
				here[node] = true
			}
		}
		for _, node := range g.nodes {
			_, known := f.index[node]
			if !known && (here[node] || len(p.ranges) == 0) {
				f.index[node] = len(f.nodes)
				f.nodes = append(f.nodes, node)
			}
		}
	}
	return nil
}

func (f *fence) join(node int, blob []byte) error {
	i, member := f.index[node]
	switch {
	case !member:
		return fmt.Errorf("node %d is none of the group", node)
	case f.here[i]:
		return fmt.Errorf("node %d came twice", node)
	}
	f.here[i] = true
	f.count++
	if f.late {
		return nil
	}
	f.blobs[i] = blob
	f.bytes += len(blob)
	if f.bytes > maxFence {
		return fmt.Errorf("the ranks have put %d MiB since the one before, and %d are too much", f.bytes>>20, maxFence>>20)
	}
	return nil
}

// of returns what a group has in a fence; nil: nothing.
func (f *fence) of(group string) *part {
	for i := range f.parts {
		if f.parts[i].group == group {
			return &f.parts[i]
		}
	}
	return nil
}

// Leave says that a rank of a group, on a node, cannot enter a fence any more.
// It returns a *StuckError if other nodes wait for that, now or, by Join, later.
func (h *Hub) Leave(group string, node, rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[group]
	if g == nil {
		return nil
	}
	if _, member := g.index[node]; !member {
		return nil
	}
	g.gone[node] = append(g.gone[node], rank)
	for _, f := range h.open {
		if f.of(group) == nil {
			continue
		}
		if err := h.stuck(f); err != nil {
			return err
		}
	}
	return nil
}

// stuck returns an error if nodes wait for one that a member has left.
func (h *Hub) stuck(f *fence) error {
	if f.late {
		return nil
	}
	here := func(node int) bool {
		i, member := f.index[node]
		return member && f.here[i]
	}
	var gone []Rank
	for _, p := range f.parts {
		var numbers []int
		for node, ranks := range h.groups[p.group].gone {
			if _, member := f.index[node]; member && !here(node) {
				numbers = append(numbers, slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return !p.has(rank) })...)
			}
		}
		slices.Sort(numbers)
		for _, rank := range numbers {
			gone = append(gone, Rank{p.group, rank})
		}
	}
	if len(gone) == 0 || f.count == 0 {
		return nil
	}
	return &StuckError{Waiting: h.waiting(f, here), Gone: gone}
}

// waiting are the members of a fence on nodes that have joined it.
func (h *Hub) waiting(f *fence, here func(node int) bool) (ranks []Rank) {
	for _, p := range f.parts {
		for rank, node := range h.groups[p.group].home {
			if here(node) && p.has(rank) {
				ranks = append(ranks, Rank{p.group, rank})
			}
		}
	}
	return ranks
}
