package fence

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
)

// A Coordinator is where the nodes of a job meet for their fences, those of all its groups. It runs in
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
type Coordinator struct {
	mu         sync.Mutex // guards what follows
	groups     map[string]*group
	open       map[ID]*fence
	heldBytes  int   // bytes that those in open take
	groupsMade int   // groups by Construct
	err        error // of Fail
}

// A group is where its ranks are, and which of them cannot enter a fence any more.
type group struct {
	nodes     []int         // as the caller numbers them
	index     map[int]int   // of a node in nodes
	nodeOf    []int         // the node of each rank
	leftRanks map[int][]int // ranks, by node
}

// A fence is one at which some nodes have arrived.
type fence struct {
	parts       []part
	nodes       []int
	index       map[int]int // of a node in nodes; both may be those of a group
	blobs       [][]byte    // of nodes
	joined      []bool
	joinedCount int
	bytes       int
	givenUp     bool // it was given up, and is kept until all nodes know
}

// maxFenceBytes is how many bytes a fence may spread: as much as a group may keep on a node, and
// what fits into one message to it.
const maxFenceBytes = 1<<30 - 1<<24

// maxOpenBytes is how many bytes all fences together may take at which somebody still waits, with what
// is kept of each of them: nodes open as many as they like (TRUST-29).
const maxOpenBytes = 1 << 30

// A Completed is a fence at which all nodes have arrived.
type Completed struct {
	Nodes []int    // that have ranks in it; not to be changed
	Blobs [][]byte // what each of Nodes brought, nil if nobody brought anything; of Construct then the number of the group
}

// NewCoordinator returns a hub without groups.
func NewCoordinator() *Coordinator {
	return &Coordinator{groups: make(map[string]*group), open: make(map[ID]*fence)}
}

// AddGroup lets the ranks of a group meet. home has the node of each rank, and nodes each of them
// once, in the order in which their blobs are spread. Both are kept.
func (h *Coordinator) AddGroup(name string, nodes, home []int) {
	g := &group{nodes: nodes, nodeOf: home, index: make(map[int]int, len(nodes)), leftRanks: make(map[int][]int)}
	for i, node := range nodes {
		g.index[node] = i
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups[name] = g
}

// RemoveGroup forgets a group that is over, and what is left of its fences.
func (h *Coordinator) RemoveGroup(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.groups, name)
	for id, f := range h.open {
		if f.partOf(name) != nil {
			h.removeFence(id, f)
		}
	}
}

// Fail refuses all fences from now on, those under way too, with an error.
func (h *Coordinator) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	clear(h.open)
	h.heldBytes = 0
}

// Join brings the blob of a node to a fence. If it was the last one, Join returns
// the exchange, else nil. The hub keeps the blob, not a copy, and forgets all about
// the fence when it is complete. An error means that it can never be complete.
func (h *Coordinator) Join(node int, id ID, blob []byte) (*Completed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	f, err := h.findFence(id)
	if err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if err := f.joinNode(node, blob); err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if f.givenUp {
		blob = nil
	}
	if err := h.countBytes(id, f, len(blob)); err != nil {
		return nil, err
	}
	if f.joinedCount < len(f.nodes) {
		return nil, h.checkStuck(f)
	}
	h.removeFence(id, f)
	if f.givenUp {
		return nil, nil
	}
	return h.completeFence(id, f)
}

// completeFence is a fence at which all nodes have arrived. That of a group which is made brings its number as
// well, as one blob more (PMIX-46).
func (h *Coordinator) completeFence(id ID, f *fence) (*Completed, error) {
	done := &Completed{Nodes: f.nodes}
	if f.bytes > 0 {
		done.Blobs = f.blobs
	}
	if id.Kind.WithoutTag() == Construct {
		if h.groupsMade == math.MaxInt32 {
			return nil, fmt.Errorf("fence %v: %d groups were made, and there are no more numbers", id, h.groupsMade)
		}
		h.groupsMade++
		done.Blobs = append(slices.Clip(done.Blobs), binary.AppendUvarint(nil, uint64(h.groupsMade)))
	}
	return done, nil
}

// GiveUp ends a fence without all its nodes, because the time of a member is over on one of them: one that
// has joined it, or will not, which then counts as joined. It returns the nodes that are to be told; none if
// they have been, or all were there before. A node that is told and has not joined calls GiveUp as well.
// An error means that there is no such fence any more.
func (h *Coordinator) GiveUp(node int, id ID, joined bool) (tell []int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	f := h.open[id]
	if joined && (f == nil || f.givenUp) {
		return nil, nil
	}
	if !joined {
		if f, err = h.findFence(id); err != nil {
			return nil, err
		}
		if err := f.joinNode(node, nil); err != nil {
			return nil, err
		}
		if err := h.countBytes(id, f, 0); err != nil {
			return nil, err
		}
	}
	first := !f.givenUp
	h.emptyFence(f)
	if f.joinedCount == len(f.nodes) {
		h.removeFence(id, f)
	}
	if first {
		tell = f.nodes
	}
	return tell, nil
}

// GiveUpStuck gives up all open fences of PMIx that a member has left for good, and returns the nodes that
// are to be told of each. As with GiveUp, a node that has not joined one then calls GiveUp.
func (h *Coordinator) GiveUpStuck() map[ID][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	tell := make(map[ID][]int)
	for id, f := range h.open {
		if id.Kind != Barrier && h.checkStuck(f) != nil {
			h.emptyFence(f)
			tell[id] = f.nodes
		}
	}
	return tell
}

// emptyFence empties a fence that is given up. h.mu is held.
func (h *Coordinator) emptyFence(f *fence) {
	h.heldBytes -= f.bytes
	f.givenUp, f.bytes = true, 0
	clear(f.blobs)
}

// countBytes notes that somebody waits at a fence, for which so many bytes have come.
func (h *Coordinator) countBytes(id ID, f *fence, more int) error {
	if h.open[id] == nil {
		more += f.overheadBytes(id)
	}
	if h.heldBytes+more > maxOpenBytes {
		return fmt.Errorf("fences at which somebody waits take more than %d MiB", maxOpenBytes>>20)
	}
	h.heldBytes += more
	h.open[id] = f
	return nil
}

// removeFence undoes all that keep has done for a fence.
func (h *Coordinator) removeFence(id ID, f *fence) {
	delete(h.open, id)
	h.heldBytes -= f.overheadBytes(id) + f.bytes
}

// overheadBytes is how many bytes, about, a fence takes beside what was brought to it.
func (f *fence) overheadBytes(id ID) int {
	const ofNode, ofRange = 32, 16
	size := len(id.Members) + ofNode*len(f.nodes)
	for _, p := range f.parts {
		size += ofRange * len(p.ranges)
	}
	return size
}

// findFence returns a fence, as it is or new.
func (h *Coordinator) findFence(id ID) (*fence, error) {
	if f := h.open[id]; f != nil {
		return f, nil
	}
	parts, err := id.Members.parseParts()
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
	} else if err := f.listNodes(h.groups); err != nil {
		return nil, err
	}
	f.blobs, f.joined = make([][]byte, len(f.nodes)), make([]bool, len(f.nodes))
	return f, nil
}

// listNodes lists the nodes on which the members are.
func (f *fence) listNodes(groups map[string]*group) error {
	f.index = make(map[int]int)
	for _, p := range f.parts {
		g := groups[p.group]
		if n := len(p.ranges); n > 0 && p.ranges[n-1].last >= len(g.nodeOf) {
			return fmt.Errorf("there is no rank %d in group %s", p.ranges[n-1].last, p.group)
		}
		here := make(map[int]bool)
		for _, r := range p.ranges {
			for _, node := range g.nodeOf[r.first : r.last+1] {
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

func (f *fence) joinNode(node int, blob []byte) error {
	i, member := f.index[node]
	switch {
	case !member:
		return fmt.Errorf("node %d is none of the group", node)
	case f.joined[i]:
		return fmt.Errorf("node %d came twice", node)
	}
	f.joined[i] = true
	f.joinedCount++
	if f.givenUp {
		return nil
	}
	f.blobs[i] = blob
	f.bytes += len(blob)
	if f.bytes > maxFenceBytes {
		return fmt.Errorf("the ranks have put %d MiB since the one before, and %d are too much", f.bytes>>20, maxFenceBytes>>20)
	}
	return nil
}

// partOf returns what a group has in a fence; nil: nothing.
func (f *fence) partOf(group string) *part {
	for i := range f.parts {
		if f.parts[i].group == group {
			return &f.parts[i]
		}
	}
	return nil
}

// RankLeft says that a rank of a group, on a node, cannot enter a fence any more.
// It returns a *StuckError if other nodes wait for that, now or, by Join, later.
func (h *Coordinator) RankLeft(group string, node, rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[group]
	if g == nil {
		return nil
	}
	if _, member := g.index[node]; !member {
		return nil
	}
	g.leftRanks[node] = append(g.leftRanks[node], rank)
	for _, f := range h.open {
		if f.partOf(group) == nil {
			continue
		}
		if err := h.checkStuck(f); err != nil {
			return err
		}
	}
	return nil
}

// checkStuck returns an error if nodes wait for one that a member has left.
func (h *Coordinator) checkStuck(f *fence) error {
	if f.givenUp {
		return nil
	}
	here := func(node int) bool {
		i, member := f.index[node]
		return member && f.joined[i]
	}
	var gone []Rank
	for _, p := range f.parts {
		var numbers []int
		for node, ranks := range h.groups[p.group].leftRanks {
			if _, member := f.index[node]; member && !here(node) {
				numbers = append(numbers, slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return !p.hasRank(rank) })...)
			}
		}
		slices.Sort(numbers)
		for _, rank := range numbers {
			gone = append(gone, Rank{p.group, rank})
		}
	}
	if len(gone) == 0 || f.joinedCount == 0 {
		return nil
	}
	return &StuckError{Waiting: h.waitingRanks(f, here), Gone: gone}
}

// waitingRanks are the members of a fence on nodes that have joined it.
func (h *Coordinator) waitingRanks(f *fence, here func(node int) bool) (ranks []Rank) {
	for _, p := range f.parts {
		for rank, node := range h.groups[p.group].nodeOf {
			if here(node) && p.hasRank(rank) {
				ranks = append(ranks, Rank{p.group, rank})
			}
		}
	}
	return ranks
}
