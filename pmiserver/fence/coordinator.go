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
//	a time limit on i passed:   nodes, err := c.GiveUp(i, id, i has joined)
//	                            report to each that the fence is given up
//	a rank of i has left:       err := c.RankLeft(group, i, rank)
//	the group has ended:        c.RemoveGroup(group)
//	after an error:             end the job, because no rank can be released,
//	                            or call c.GiveUpStuck() and report to each node
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

// A group records, for one group of ranks, which nodes its ranks run on, and which ranks can no longer enter a fence.
type group struct {
	nodes     []int         // in the caller's numbering
	index     map[int]int   // node to its index in nodes
	nodeOf    []int         // by rank
	leftRanks map[int][]int // by node
}

// A fence holds the state of a fence that some, but not all, of its nodes have joined.
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

// maxFenceBytes is the maximum size of all blobs of one fence. A wire message can contain that many bytes.
const maxFenceBytes = 1<<30 - 1<<24

// maxOpenBytes is the maximum memory, in bytes, of all fences that are not complete, including bookkeeping. The limit
// is needed because nodes may open any number of fences (rule TRUST-29).
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

// AddGroup adds a group of ranks, which may then join fences. nodeOf contains the node of each rank. nodes contains
// each node once; Completed.Blobs has the same order. The Coordinator keeps both slices.
func (c *Coordinator) AddGroup(name string, nodes, nodeOf []int) {
	g := &group{nodes: nodes, nodeOf: nodeOf, index: make(map[int]int, len(nodes)), leftRanks: make(map[int][]int)}
	for i, node := range nodes {
		g.index[node] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[name] = g
}

// RemoveGroup removes a group that has ended. It also removes fences that are not complete and have members
// in this group.
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

// Fail makes all fences fail with err: the fences in progress and all later fences.
func (c *Coordinator) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	clear(c.open)
	c.heldBytes = 0
}

// Join records that a node has joined a fence with its blob. If the node was the last one, Join returns the result of
// the fence. It returns nil if other nodes have not joined yet, or if the fence was given up. The Coordinator keeps the
// blob, without copying it, until the fence is complete. An error means that the fence can never complete.
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

// completeFence returns the result of a fence that all nodes have joined. For a fence of the kind Construct, it appends
// the number of the new PMIx group as one more blob (rule PMIX-46).
func (c *Coordinator) completeFence(id ID, f *fence) (*Completed, error) {
	done := &Completed{Nodes: f.nodes}
	if f.bytes > 0 {
		done.Blobs = f.blobs
	}
	if id.Kind.WithoutTag() == Construct {
		if c.groupsMade == math.MaxInt32 {
			return nil, fmt.Errorf("fence %v: cannot create another PMIx group, because the job has already created %d groups, the maximum", id, c.groupsMade)
		}
		c.groupsMade++
		done.Blobs = append(slices.Clip(done.Blobs), binary.AppendUvarint(nil, uint64(c.groupsMade)))
	}
	return done, nil
}

// GiveUp ends a fence before all nodes have joined. It is called when the time limit of a member on a node has passed.
// hasJoined says whether that node has joined; if not, it must not join later. GiveUp returns the nodes that must be
// notified, or none if they were already notified or the fence is complete. A notified node that has not joined must
// also call GiveUp. An error means that the fence no longer exists.
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

// GiveUpStuck gives up all open PMIx fences that can never complete, because a member can no longer enter
// them. For each of these fences, it returns the nodes that must be notified. As with GiveUp, a notified node
// that has not joined must call GiveUp.
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

// dropBlobs drops the blobs of a fence that was given up. The caller must hold c.mu.
func (c *Coordinator) dropBlobs(f *fence) {
	c.heldBytes -= f.bytes
	f.givenUp, f.bytes = true, 0
	clear(f.blobs)
}

// countBytes records how many further bytes have arrived for an open fence. It returns an error if all open
// fences together exceed maxOpenBytes.
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

// removeFence removes a fence, and subtracts what countBytes has counted for it.
func (c *Coordinator) removeFence(id ID, f *fence) {
	delete(c.open, id)
	c.heldBytes -= f.overheadBytes(id) + f.bytes
}

// overheadBytes estimates the memory of a fence in bytes, without its blobs.
func (f *fence) overheadBytes(id ID) int {
	const ofNode, ofRange = 32, 16
	size := len(id.Members) + ofNode*len(f.nodes)
	for _, p := range f.parts {
		size += ofRange * len(p.ranges)
	}
	return size
}

// findFence returns the open fence with the given ID. If there is none, it creates one.
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

// listNodes sets f.nodes and f.index to the nodes on which members of the fence run.
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

// partOf returns the members that belong to a group, or nil if there are none.
func (f *fence) partOf(group string) *part {
	for i := range f.parts {
		if f.parts[i].group == group {
			return &f.parts[i]
		}
	}
	return nil
}

// RankLeft records that a rank can no longer enter fences. If other nodes wait for this rank, it returns a
// *StuckError. If they begin to wait later, Join returns that error.
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

// checkStuck returns a *StuckError if nodes wait in a fence that a member on another node can no longer
// enter. Otherwise it returns nil.
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

// waitingRanks returns the members that run on nodes that have joined the fence.
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
