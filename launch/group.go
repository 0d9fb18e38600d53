package launch

import (
	"errors"
	"slices"

	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/usererr"
	"remshell/wire"
)

// A Group is the set of ranks in one MPI_COMM_WORLD: the ranks of the command line, or the ranks of one
// spawn. In the job, its ranks are numbered after those of earlier groups. In plans and for PMI, they are
// numbered from 0.
type Group struct {
	Name           string
	First          int // number of the group's rank 0 in the job
	Plan           job.Plan
	Apps           []job.App
	Nodes          []*Node         // in the order of the plan
	NodeOfRank     []int           // by rank, the key of its node; must not be modified
	ranksAlive     map[*Node]int   // ranks that have not ended, for each node that has some
	earlierRanks   []int           // for each node, its ranks of earlier groups
	unstarted      int             // ranks that have neither started nor failed to start
	Killed         bool            // a rank could not be started, so all were killed
	FirstFenceDone bool            // all its nodes have completed a fence
	mapReaders     []*Node         // nodes without ranks of the group that asked for its rank map
	hasFailedRank  bool            // a rank failed in a way that may have to be reported
	waiting        [2]*waitingRank // by PMI and by PMIx, the first rank that waits for all others
}

// AddGroup adds a group of ranks and returns it. The nodes must already have been prepared for these ranks.
func (j *Job) AddGroup(name string, p job.Plan, apps []job.App, nodes []*Node) *Group {
	g := &Group{Name: name, First: j.Size, Plan: p, Apps: apps, Nodes: nodes, ranksAlive: make(map[*Node]int), unstarted: p.Size}
	g.earlierRanks = make([]int, len(nodes))
	indices, nodeOfRank := make([]int, len(nodes)), make([]int, p.Size)
	for i, n := range nodes {
		g.ranksAlive[n] = len(p.Nodes[i].Ranks)
		indices[i] = n.Key
		g.earlierRanks[i] = n.totalRanks
		n.totalRanks += len(p.Nodes[i].Ranks)
		for _, r := range p.Nodes[i].Ranks {
			nodeOfRank[r.Rank] = n.Key
		}
	}
	g.NodeOfRank = nodeOfRank
	j.fences.AddGroup(name, indices, nodeOfRank)
	j.Groups = append(j.Groups, g)
	j.GroupFirsts = append(j.GroupFirsts, g.First)
	j.Size += p.Size
	return g
}

// ReleaseGroup starts the ranks of a group. rendezvous is the address at which the ranks of a torchrun job
// meet, or empty. If the job's ranks are stopped (see Hold), the new ranks are stopped as well.
func (j *Job) ReleaseGroup(g *Group, rendezvous string) {
	for _, starts := range j.Hooks.GroupStarts {
		starts(g)
	}
	for _, n := range g.Nodes {
		n.drained = false
		for _, why := range j.holds.Reasons() {
			if why != job.HoldGang {
				n.Send(&wire.Hold{Why: why, On: true})
			}
		}
		n.Send(&wire.Start{Group: g.Name, Rendezvous: rendezvous})
	}
}

// GroupOf returns the group of a rank, and the rank's number in this group. rank is the rank's number in the
// job. The group is nil if there is no such rank or the group was removed by forgetGroup.
func (j *Job) GroupOf(rank int) (*Group, int) {
	if rank < 0 || rank >= j.Size {
		return nil, rank
	}
	i, found := slices.BinarySearchFunc(j.Groups, rank, func(g *Group, rank int) int { return g.First - rank })
	if !found {
		i--
	}
	g := j.Groups[i]
	if rank >= g.First+g.Plan.Size {
		return nil, rank
	}
	return g, rank - g.First
}

// GroupNamed returns the group with this name, or nil.
func (j *Job) GroupNamed(name string) *Group {
	for _, g := range j.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// RankNodes contains the node of every rank of the job.
type RankNodes struct {
	Nodes      []string
	NodeOfRank []int // index into Nodes, by rank
}

// Names returns the name of each rank's node, by rank number.
func (p RankNodes) Names() []string {
	names := make([]string, len(p.NodeOfRank))
	for rank, node := range p.NodeOfRank {
		names[rank] = p.Nodes[node]
	}
	return names
}

// RankNodes returns the nodes of the ranks of all groups, including groups that have ended.
func (j *Job) RankNodes() RankNodes {
	p := RankNodes{NodeOfRank: j.State.Nodes()}
	for _, n := range j.Nodes {
		p.Nodes = append(p.Nodes, n.Name())
	}
	return p
}

// handleFence adds the data of one node to a fence, in which ranks wait for each other. When the last node
// has sent its data, the fence is complete. If the fence can never complete, handleFence returns an event
// that says so.
func (j *Job) handleFence(n *Node, m *wire.Fence) []supervise.Event {
	id, err := fence.ParseID(m.ID)
	if err != nil {
		return fenceBroken(err)
	}
	if m.GivenUp {
		j.giveUpFence(n, id, m.Joined)
		return nil
	}
	done, err := j.fences.Join(n.Key, id, m.Blob)
	if err != nil {
		if j.State.KeepsAll() && id.Kind != fence.Barrier && !errors.As(err, new(*fence.StuckError)) { // one of its groups is over
			j.sendFenceGivenUp(id, []int{n.Key})
		}
		return j.fenceStuck(err)
	}
	if id.Kind == fence.Barrier || id.Kind == fence.PMIxFence {
		j.recordFence(n, id.Members, done != nil)
	}
	if done != nil {
		fenced := wire.Fenced{ID: m.ID, Blobs: done.Blobs}
		frame := fenced.FrameFor(len(done.Nodes))
		for _, i := range done.Nodes {
			j.Nodes[i].SendFenced(id, frame)
		}
	}
	return nil
}

// giveUpFence ends a fence with an error on all its nodes (rule PMIX-31). Either a rank of n has a timeout for the
// fence that has passed, or n confirms that another node gives up the fence. hasJoined is true if n had already
// contributed to the fence.
func (j *Job) giveUpFence(n *Node, id fence.ID, hasJoined bool) {
	waiting, err := j.fences.GiveUp(n.Key, id, hasJoined)
	if err != nil { // one of its groups is over
		waiting = []int{n.Key}
	}
	j.sendFenceGivenUp(id, waiting)
}

// sendFenceGivenUp tells nodes that a fence was given up. nodes contains indices into j.Nodes.
func (j *Job) sendFenceGivenUp(id fence.ID, nodes []int) {
	frame := wire.Encode(&wire.Fenced{ID: id.String(), GivenUp: true})
	for _, i := range nodes {
		j.Nodes[i].SendFenced(id, frame)
	}
}

// fenceStuck returns an event that reports a fence which can never complete. If the job continues after failures of
// ranks (job.EndPolicy.KeepAll), fenceStuck first releases the ranks that wait in such fences.
func (j *Job) fenceStuck(err error) []supervise.Event {
	if j.State.KeepsAll() {
		givenUp := j.fences.GiveUpStuck()
		for id, nodes := range givenUp {
			j.sendFenceGivenUp(id, nodes)
		}
		if stuck := new(fence.StuckError); errors.As(err, &stuck) {
			stuck.Released = len(givenUp) > 0
		}
	}
	return fenceBroken(err)
}

// fenceBroken converts err, which says that a fence can never complete, to an event.
func fenceBroken(err error) []supervise.Event {
	return []supervise.Event{supervise.Failure{Kind: supervise.PMIBarrierBroken, Text: err.Error()}}
}

// recordFence records that a node has reached a fence of the whole group. all is true if it was the last
// node.
func (j *Job) recordFence(n *Node, members fence.Members, all bool) {
	if g := j.GroupNamed(members.Group()); g != nil {
		g.FirstFenceDone = g.FirstFenceDone || all
		for _, reached := range j.Hooks.FenceReached {
			reached(n, g, all)
		}
	}
}

// HasRanksOn reports whether any rank of the group on the node n has not ended yet.
func (g *Group) HasRanksOn(n *Node) bool { return g.ranksAlive[n] > 0 }

// removeRank removes an ended rank from its group and from the group's fences. If other ranks wait for this rank
// in a fence, it returns the events of fenceStuck.
func (j *Job) removeRank(n *Node, rank int) []supervise.Event {
	g, number := j.GroupOf(rank)
	if g == nil {
		return nil
	}
	if g.ranksAlive[n]--; g.ranksAlive[n] == 0 {
		delete(g.ranksAlive, n)
	}
	if g.Killed {
		if len(g.ranksAlive) == 0 {
			j.groupEnded(g)
		}
		return nil
	}
	var events []supervise.Event
	if err := j.fences.RankLeft(g.Name, n.Key, number); err != nil {
		events = j.fenceStuck(err) // before the coordinator forgets the fences of the group
	}
	if len(g.ranksAlive) == 0 {
		j.fences.RemoveGroup(g.Name)
		j.groupEnded(g)
	}
	return events
}

// groupEnded handles the end of the last rank of a group.
func (j *Job) groupEnded(g *Group) {
	g.sendGroupEnded()
	for _, ended := range j.Hooks.GroupEnded {
		ended(g)
	}
	j.forgetGroup(g)
}

// sendGroupEnded reports the end of the group to nodes that run no rank of the group but have asked for its
// rank map.
func (g *Group) sendGroupEnded() {
	for _, n := range g.mapReaders {
		n.Send(&wire.GroupEnded{Group: g.Name})
	}
	g.mapReaders = nil
}

// forgetGroup removes a spawned group whose ranks have all ended, unless a later report needs it. This keeps
// the memory of long jobs with many spawns small. The records of the ranks remain for the report.
func (j *Job) forgetGroup(g *Group) {
	if g.First == 0 || j.KeepGroups || !g.Killed && g.hasFailedRank {
		return
	}
	for _, forgotten := range j.Hooks.GroupForgotten {
		forgotten(g)
	}
	j.Groups = slices.DeleteFunc(j.Groups, func(x *Group) bool { return x == g })
}

// rankStarted handles the report that a rank has started or could not be started. If one rank of a spawned
// group could not be started, the other ranks of the group are ended, because MPI_Comm_spawn must start all
// or none.
func (j *Job) rankStarted(n *Node, m *wire.Started) []supervise.Event {
	g, _ := j.GroupOf(m.Rank)
	if g == nil {
		return nil
	}
	j.record.addStart(n, m)
	for _, started := range j.Hooks.RankStarted {
		started(n, g, m)
	}
	if m.Err == "" {
		if g.unstarted--; g.unstarted == 0 {
			for _, runs := range j.Hooks.GroupRuns {
				runs(g)
			}
		}
		return []supervise.Event{supervise.RankStarted{Rank: m.Rank}}
	}
	failed := supervise.RankStartFailed{Rank: m.Rank, Code: m.Code, Reason: m.Err, Hint: m.Hint}
	if g.First == 0 {
		return []supervise.Event{failed}
	}
	events := []supervise.Event{failed}
	if !g.Killed {
		g.Killed = true
		j.fences.RemoveGroup(g.Name)
		for _, n := range g.Nodes {
			n.Send(&wire.KillGroup{Group: g.Name})
		}
		for _, failed := range j.Hooks.GroupFailed {
			failed(g, &usererr.Error{Text: n.Name() + ": " + m.Err, Remedy: m.Hint, Code: m.Code})
		}
		events = []supervise.Event{supervise.GroupKilled{FirstRank: g.First, RankCount: g.Plan.Size}, failed}
	}
	j.removeRank(n, m.Rank)
	return events
}

// rankMapOf returns the map of a group: the node of each of its ranks. If node n, which sent the request, has
// no rank of the group, rankMapOf records n, so that sendGroupEnded informs n of the group's end.
func (j *Job) rankMapOf(n *Node, m *wire.RankMapRequest) *wire.RankMap {
	answer := &wire.RankMap{ID: m.ID, Group: m.Group}
	g := j.GroupNamed(m.Group)
	if g == nil || len(g.ranksAlive) == 0 {
		return answer
	}
	if !slices.Contains(g.Nodes, n) && !slices.Contains(g.mapReaders, n) {
		g.mapReaders = append(g.mapReaders, n)
	}
	answer.AppSizes = reserve.RanksPerApp(g.Plan, len(g.Apps))
	answer.NodeOfRank, answer.EarlierRanks = make([]int, g.Plan.Size), g.earlierRanks
	for i, np := range g.Plan.Nodes {
		answer.Nodes = append(answer.Nodes, np.Name)
		for _, r := range np.Ranks {
			answer.NodeOfRank[r.Rank] = i
		}
	}
	return answer
}
