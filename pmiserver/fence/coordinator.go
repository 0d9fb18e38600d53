package fence

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
)

// A Coordinator completes the fences of a job: it collects the nodes' blobs for each fence. It serves
// all groups of the job. It runs in mpiexec and knows nothing of connections:
//
//	a group is about to start:  c.AddGroup(group, its nodes, the node of each rank)
//	Fence received from node i: done, err := c.Join(i, id, blob)
//	                            if done != nil, send Fenced with its blobs to
//	                            its nodes, encoded once
//	its time limit on i passed: nodes, err := c.GiveUp(i, id, i has joined)
//	                            report to each that it is given up
//	a rank of i has left:       err := c.RankLeft(group, i, rank)
//	the group has ended:        c.RemoveGroup(group)
//	any err:                    no rank can be released; end the job, or
//	                            c.GiveUpStuck() and report to each node
//
// No method blocks. All may be called from any goroutine.
type Coordinator struct {
	mu         sync.Mutex // guards the fields below
	groups     map[string]*group
	open       map[ID]*fence
	heldBytes  int   // bytes of the fences in open
	groupsMade int   // number of completed Construct fences
	err        error // the error given to Fail
}

// A group has the nodes of a group's ranks, and the ranks that cannot enter a fence any more.
type group struct {
	nodes     []int         // in the caller's numbering
	index     map[int]int   // node to its index in nodes
	nodeOf    []int         // by rank
	leftRanks map[int][]int // by node
}

// A fence is an open fence: some of its nodes have joined it.
type fence struct {
	parts       []part
	nodes       []int
	index       map[int]int // node to its index in nodes; both may be shared with a group
	blobs       [][]byte    // by index in nodes
	joined      []bool
	joinedCount int
	bytes       int
	givenUp     bool // given up, and kept until all nodes know
}

// maxFenceBytes limits the bytes exchanged in one fence. A group may store the same number of bytes on a
// node, and the same number fits into one message to a node.
const maxFenceBytes = 1<<30 - 1<<24

// maxOpenBytes limits the memory of all fences that are not complete, blobs and bookkeeping together, in
// bytes. Nodes may open any number of fences (rule TRUST-29).
const maxOpenBytes = 1 << 30

// Completed is the result of a fence that all nodes have joined.
type Completed struct {
	Nodes []int    // the nodes with ranks in the fence; must not be changed
	Blobs [][]byte // by index in Nodes; nil if no node brought any bytes. For Construct the group's number follows.
}

// NewCoordinator returns a Coordinator without groups.
func NewCoordinator() *Coordinator {
	return &Coordinator{groups: make(map[string]*group), open: make(map[ID]*fence)}
}

// AddGroup adds a group, whose ranks may then join fences. nodeOf has the node of each rank. nodes has
// each node once, in the order of their blobs in results. The Coordinator keeps both slices.
func (c *Coordinator) AddGroup(name string, nodes, nodeOf []int) {
	g := &group{nodes: nodes, nodeOf: nodeOf, index: make(map[int]int, len(nodes)), leftRanks: make(map[int][]int)}
	for i, node := range nodes {
		g.index[node] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[name] = g
}

// RemoveGroup removes a group that has ended, and the open fences with members in it.
func (c *Coordinator) RemoveGroup(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, name)
	for id, f := range c.open {
		if f.partOf(name) != nil {
			c.removeFence(id, f)
		}
	}
}

// Fail refuses all fences from now on with err, and drops the open ones.
func (c *Coordinator) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	clear(c.open)
	c.heldBytes = 0
}

// Join adds a node and its blob to a fence. It returns the result if the node was the last one, else
// nil. The Coordinator keeps the blob without copying it, until the fence is complete. An error means
// that the fence can never complete.
func (c *Coordinator) Join(node int, id ID, blob []byte) (*Completed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	f, err := c.findFence(id)
	if err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if err := f.joinNode(node, blob); err != nil {
		return nil, fmt.Errorf("fence %v: %w", id, err)
	}
	if f.givenUp {
		blob = nil
	}
	if err := c.countBytes(id, f, len(blob)); err != nil {
		return nil, err
	}
	if f.joinedCount < len(f.nodes) {
		return nil, c.checkStuck(f)
	}
	c.removeFence(id, f)
	if f.givenUp {
		return nil, nil
	}
	return c.completeFence(id, f)
}

// completeFence returns the result of a fence that all nodes have joined. For Construct it appends the
// number of the new group as one more blob (rule PMIX-46).
func (c *Coordinator) completeFence(id ID, f *fence) (*Completed, error) {
	done := &Completed{Nodes: f.nodes}
	if f.bytes > 0 {
		done.Blobs = f.blobs
	}
	if id.Kind.WithoutTag() == Construct {
		if c.groupsMade == math.MaxInt32 {
			return nil, fmt.Errorf("fence %v: cannot create another PMIx group: the job has created %d, the largest number", id, c.groupsMade)
		}
		c.groupsMade++
		done.Blobs = append(slices.Clip(done.Blobs), binary.AppendUvarint(nil, uint64(c.groupsMade)))
	}
	return done, nil
}

// GiveUp ends a fence before all nodes have joined, because a member's time limit passed on node. If
// hasJoined is false, the node will not join any more, and counts as joined. GiveUp returns the nodes to
// notify. It returns none if they were notified before, or the fence is complete. Each notified node
// that has not hasJoined must call GiveUp as well. An error means that there is no such fence any more.
func (c *Coordinator) GiveUp(node int, id ID, hasJoined bool) (notify []int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	f := c.open[id]
	if hasJoined && (f == nil || f.givenUp) {
		return nil, nil
	}
	if !hasJoined {
		if f, err = c.findFence(id); err != nil {
			return nil, err
		}
		if err := f.joinNode(node, nil); err != nil {
			return nil, err
		}
		if err := c.countBytes(id, f, 0); err != nil {
			return nil, err
		}
	}
	first := !f.givenUp
	c.dropBlobs(f)
	if f.joinedCount == len(f.nodes) {
		c.removeFence(id, f)
	}
	if first {
		notify = f.nodes
	}
	return notify, nil
}

// GiveUpStuck gives up all open PMIx fences that a member can no longer enter. It returns the nodes to
// notify for each. As with GiveUp, a notified node that has not joined must call GiveUp.
func (c *Coordinator) GiveUpStuck() map[ID][]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	notify := make(map[ID][]int)
	for id, f := range c.open {
		if id.Kind != Barrier && c.checkStuck(f) != nil {
			c.dropBlobs(f)
			notify[id] = f.nodes
		}
	}
	return notify
}

// dropBlobs drops the blobs of a fence that is given up. The caller holds c.mu.
func (c *Coordinator) dropBlobs(f *fence) {
	c.heldBytes -= f.bytes
	f.givenUp, f.bytes = true, 0
	clear(f.blobs)
}

// countBytes records that a fence is open, and that more bytes have arrived for it. It fails if all
// open fences exceed maxOpenBytes.
func (c *Coordinator) countBytes(id ID, f *fence, added int) error {
	if c.open[id] == nil {
		added += f.overheadBytes(id)
	}
	if c.heldBytes+added > maxOpenBytes {
		return fmt.Errorf("the data of all PMI fences in progress exceed %d MiB", maxOpenBytes>>20)
	}
	c.heldBytes += added
	c.open[id] = f
	return nil
}

// removeFence closes a fence, and undoes countBytes.
func (c *Coordinator) removeFence(id ID, f *fence) {
	delete(c.open, id)
	c.heldBytes -= f.overheadBytes(id) + f.bytes
}

// overheadBytes estimates the memory of a fence without its blobs, in bytes.
func (f *fence) overheadBytes(id ID) int {
	const ofNode, ofRange = 32, 16
	size := len(id.Members) + ofNode*len(f.nodes)
	for _, p := range f.parts {
		size += ofRange * len(p.ranges)
	}
	return size
}

// findFence returns the open fence of an ID, or a new one.
func (c *Coordinator) findFence(id ID) (*fence, error) {
	if f := c.open[id]; f != nil {
		return f, nil
	}
	parts, err := id.Members.parseParts()
	if err != nil {
		return nil, err
	}
	f := &fence{parts: parts}
	for _, p := range parts {
		if c.groups[p.group] == nil {
			return nil, fmt.Errorf("the fence names a group of ranks that does not exist")
		}
	}
	if g := c.groups[id.Members.Group()]; g != nil {
		f.nodes, f.index = g.nodes, g.index
	} else if err := f.listNodes(c.groups); err != nil {
		return nil, err
	}
	f.blobs, f.joined = make([][]byte, len(f.nodes)), make([]bool, len(f.nodes))
	return f, nil
}

// listNodes sets f.nodes and f.index to the nodes of the members.
func (f *fence) listNodes(groups map[string]*group) error {
	f.index = make(map[int]int)
	for _, p := range f.parts {
		g := groups[p.group]
		if n := len(p.ranges); n > 0 && p.ranges[n-1].last >= len(g.nodeOf) {
			return fmt.Errorf("the fence names rank %d, which group %s does not have", p.ranges[n-1].last, p.group)
		}
		isNode := make(map[int]bool)
		for _, r := range p.ranges {
			for _, node := range g.nodeOf[r.first : r.last+1] {
				isNode[node] = true
			}
		}
		for _, node := range g.nodes {
			_, known := f.index[node]
			if !known && (isNode[node] || len(p.ranges) == 0) {
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
		return fmt.Errorf("node %d entered a fence that none of its ranks belongs to", node)
	case f.joined[i]:
		return fmt.Errorf("node %d entered the same fence twice", node)
	}
	f.joined[i] = true
	f.joinedCount++
	if f.givenUp {
		return nil
	}
	f.blobs[i] = blob
	f.bytes += len(blob)
	if f.bytes > maxFenceBytes {
		return fmt.Errorf("the ranks have published %d MiB by PMI since the last fence; the limit is %d MiB", f.bytes>>20, maxFenceBytes>>20)
	}
	return nil
}

// partOf returns the members that are in a group, or nil if there are none.
func (f *fence) partOf(group string) *part {
	for i := range f.parts {
		if f.parts[i].group == group {
			return &f.parts[i]
		}
	}
	return nil
}

// RankLeft records that a rank of a group on a node cannot enter fences any more. It returns a
// *StuckError if other nodes wait for that rank. If they start to wait later, Join returns it.
func (c *Coordinator) RankLeft(group string, node, rank int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[group]
	if g == nil {
		return nil
	}
	if _, member := g.index[node]; !member {
		return nil
	}
	g.leftRanks[node] = append(g.leftRanks[node], rank)
	for _, f := range c.open {
		if f.partOf(group) == nil {
			continue
		}
		if err := c.checkStuck(f); err != nil {
			return err
		}
	}
	return nil
}

// checkStuck returns a *StuckError if nodes wait for a node on which a member can no longer enter the fence.
// Otherwise it returns nil.
func (c *Coordinator) checkStuck(f *fence) error {
	if f.givenUp {
		return nil
	}
	hasJoined := func(node int) bool {
		i, member := f.index[node]
		return member && f.joined[i]
	}
	var gone []Rank
	for _, p := range f.parts {
		var numbers []int
		for node, ranks := range c.groups[p.group].leftRanks {
			if _, member := f.index[node]; member && !hasJoined(node) {
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
	return &StuckError{Waiting: c.waitingRanks(f, hasJoined), Gone: gone}
}

// waitingRanks returns the members on nodes that have joined the fence.
func (c *Coordinator) waitingRanks(f *fence, hasJoined func(node int) bool) (ranks []Rank) {
	for _, p := range f.parts {
		for rank, node := range c.groups[p.group].nodeOf {
			if hasJoined(node) && p.hasRank(rank) {
				ranks = append(ranks, Rank{p.group, rank})
			}
		}
	}
	return ranks
}
