package launch

import (
	"errors"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/usererr"
	"remshell/wire"
)

// A group is the ranks of one MPI_COMM_WORLD: those of the command line, or those of one spawn. The
// job numbers its ranks after those of earlier groups. Plans and PMI number them from 0.
type group struct {
	name           string
	first          int // number of the group's rank 0 in the job
	plan           job.Plan
	apps           []job.App
	nodes          []*jobNode       // in the order of the plan
	nodeOfRank     []int            // by rank, the key of its node; must not be modified
	ranksAlive     map[*jobNode]int // ranks that have not ended, for each node that has some
	earlierRanks   []int            // for each node, its ranks of earlier groups
	unstarted      int              // ranks that have neither started nor failed to start
	spawnWaiting   *spawnRequest    // the request to answer once all ranks run; nil: none
	killed         bool             // a rank could not be started, so all were killed
	firstFenceDone bool             // all its nodes have completed a fence
	mapReaders     []*jobNode       // nodes without ranks of the group that asked for its rank map
	bindings       *bindingReport   // nil unless bindings are reported
	failedRanks    []int            // ranks that failed while the others go on (job.EndPolicy.KeepAll)
	failedReported int              // how many of failedRanks the nodes know
	hasFailedRank  bool             // a rank failed in a way that may have to be reported
	waiting        [2]*waiting      // by PMI and by PMIx, the first rank that waits for all others
	times          *groupTrace      // nil unless steps are recorded (--trace)
}

// addGroup adds a group whose nodes are prepared, and returns it.
func (f *runningJob) addGroup(name string, p job.Plan, apps []job.App, nodes []*jobNode) *group {
	g := &group{name: name, first: f.size, plan: p, apps: apps, nodes: nodes, ranksAlive: make(map[*jobNode]int), unstarted: p.Size}
	g.earlierRanks = make([]int, len(nodes))
	indices, nodeOfRank := make([]int, len(nodes)), make([]int, p.Size)
	for i, n := range nodes {
		g.ranksAlive[n] = len(p.Nodes[i].Ranks)
		indices[i] = n.key
		g.earlierRanks[i] = n.totalRanks
		n.totalRanks += len(p.Nodes[i].Ranks)
		for _, r := range p.Nodes[i].Ranks {
			nodeOfRank[r.Rank] = n.key
		}
	}
	if f.env.ReportBindings {
		f.streams.HoldOutput() // the bindings are printed before the output of ranks
		g.bindings = newBindingReport(f.streams.ReleaseOutput, len(f.groupFirsts), p.Size)
	}
	g.nodeOfRank = nodeOfRank
	f.fences.AddGroup(name, indices, nodeOfRank)
	f.groups = append(f.groups, g)
	f.groupFirsts = append(f.groupFirsts, g.first)
	f.size += p.Size
	return g
}

// releaseGroup starts the ranks of a group. rendezvous is the address at which torch's ranks meet,
// or empty. If the job is suspended, the ranks start suspended: a new node learns of that here.
func (f *runningJob) releaseGroup(g *group, rendezvous string) {
	g.times = f.newGroupTrace(g)
	for _, n := range g.nodes {
		n.drained = false
		if f.state != nil && f.state.IsSuspended() {
			n.Send(&wire.Hold{Why: job.HoldRequested, On: true})
		}
		n.Send(&wire.Start{Group: g.name, Rendezvous: rendezvous})
	}
}

// groupOf returns the group of a rank of the job, and its number in the group. The group is nil if
// there is no such rank, or the group was forgotten.
func (f *runningJob) groupOf(rank int) (*group, int) {
	if rank < 0 || rank >= f.size {
		return nil, rank
	}
	i, found := slices.BinarySearchFunc(f.groups, rank, func(g *group, rank int) int { return g.first - rank })
	if !found {
		i--
	}
	g := f.groups[i]
	if rank >= g.first+g.plan.Size {
		return nil, rank
	}
	return g, rank - g.first
}

// groupNamed returns the group with a name, or nil.
func (f *runningJob) groupNamed(name string) *group {
	for _, g := range f.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

// rankNodes maps the ranks of the job to nodes.
type rankNodes struct {
	nodes      []string
	nodeOfRank []int // index into nodes, by rank
}

// nodeNames returns the name of each rank's node.
func (p rankNodes) nodeNames() []string {
	names := make([]string, len(p.nodeOfRank))
	for rank, node := range p.nodeOfRank {
		names[rank] = p.nodes[node]
	}
	return names
}

// rankNodes returns the nodes of the ranks of all groups, also of groups that are over.
func (f *runningJob) rankNodes() rankNodes {
	p := rankNodes{nodeOfRank: f.state.Nodes()}
	for _, n := range f.nodes {
		p.nodes = append(p.nodes, n.Name())
	}
	return p
}

// handleFence adds a node's contribution to a fence. The last contribution completes the fence.
// handleFence returns an event if the fence can never complete.
func (f *runningJob) handleFence(n *jobNode, m *wire.Fence) []supervise.Event {
	id, err := fence.ParseID(m.ID)
	if err != nil {
		return fenceBroken(err)
	}
	if m.Late {
		f.giveUpFence(n, id, m.Joined)
		return nil
	}
	done, err := f.fences.Join(n.key, id, m.Blob)
	if err != nil {
		if f.state.KeepsAll() && id.Kind != fence.Barrier && !errors.As(err, new(*fence.StuckError)) { // one of its groups is over
			f.sendFenceGivenUp(id, []int{n.key})
		}
		return f.fenceStuck(err)
	}
	if id.Kind == fence.Barrier || id.Kind == fence.PMIxFence {
		f.recordFence(n, id.Members, done != nil)
	}
	if done != nil {
		fenced := wire.Fenced{ID: m.ID, Blobs: done.Blobs}
		frame := fenced.FrameFor(len(done.Nodes))
		for _, i := range done.Nodes {
			f.nodes[i].SendFenced(id, frame)
		}
	}
	return nil
}

// giveUpFence ends a fence for all its nodes, because the timeout of a rank has passed (PMIX-31).
func (f *runningJob) giveUpFence(n *jobNode, id fence.ID, joined bool) {
	waiting, err := f.fences.GiveUp(n.key, id, joined)
	if err != nil { // one of its groups is over
		waiting = []int{n.key}
	}
	f.sendFenceGivenUp(id, waiting)
}

// sendFenceGivenUp tells nodes that a fence was given up.
func (f *runningJob) sendFenceGivenUp(id fence.ID, nodes []int) {
	frame := wire.Encode(&wire.Fenced{ID: id.String(), Late: true})
	for _, i := range nodes {
		f.nodes[i].SendFenced(id, frame)
	}
}

// fenceStuck returns the event that a fence can never complete. If the job goes on without failed
// ranks (job.EndPolicy.KeepAll), the ranks that wait in the fence are released.
func (f *runningJob) fenceStuck(err error) []supervise.Event {
	if f.state.KeepsAll() {
		late := f.fences.GiveUpStuck()
		for id, nodes := range late {
			f.sendFenceGivenUp(id, nodes)
		}
		if stuck := new(fence.StuckError); errors.As(err, &stuck) {
			stuck.Released = len(late) > 0
		}
	}
	return fenceBroken(err)
}

// fenceBroken returns the event that a fence can never complete.
func fenceBroken(err error) []supervise.Event {
	return []supervise.Event{supervise.Failure{Kind: supervise.PMIBarrierBroken, Text: err.Error()}}
}

// recordFence records that a node has reached a fence of a whole group, and whether that completed
// the fence.
func (f *runningJob) recordFence(n *jobNode, members fence.Members, all bool) {
	if g := f.groupNamed(members.Group()); g != nil {
		g.firstFenceDone = g.firstFenceDone || all
		g.times.fenceReached(n, all)
	}
}

// failedRanksDue is the event that a group's failed ranks have to be sent to its nodes.
type failedRanksDue struct{ *group }

// failedRanksDelay is how long failed ranks are collected before they are sent to the nodes in one
// message.
const failedRanksDelay = 100 * time.Millisecond

// recordFailedRank records a failed rank of a group, if the other ranks go on.
func (f *runningJob) recordFailedRank(g *group, rank int) {
	if !f.state.KeepsAll() {
		return
	}
	if g.failedReported == len(g.failedRanks) {
		time.AfterFunc(failedRanksDelay, func() { f.events.Put(failedRanksDue{g}) })
	}
	g.failedRanks = append(g.failedRanks, rank)
}

// sendFailedRanks sends the group's failed ranks to its nodes.
func (g *group) sendFailedRanks() {
	failed := slices.Clone(g.failedRanks)
	g.failedReported = len(g.failedRanks)
	for n := range g.ranksAlive {
		n.Send(&wire.FailedRanks{Group: g.name, Ranks: failed})
	}
}

// rankEnded handles the end of a rank. It returns an event if other ranks wait for it in a fence.
func (f *runningJob) rankEnded(n *jobNode, rank int) []supervise.Event {
	g, number := f.groupOf(rank)
	if g == nil {
		return nil
	}
	if g.ranksAlive[n]--; g.ranksAlive[n] == 0 {
		delete(g.ranksAlive, n)
	}
	if g.killed {
		if len(g.ranksAlive) == 0 {
			g.sendGroupEnded()
			g.times.endAll(errGroupKilled)
			f.forgetGroup(g)
		}
		return nil
	}
	var events []supervise.Event
	if err := f.fences.RankLeft(g.name, n.key, number); err != nil {
		events = f.fenceStuck(err) // before the coordinator forgets the fences of the group
	}
	if len(g.ranksAlive) == 0 {
		f.fences.RemoveGroup(g.name)
		g.sendGroupEnded()
		g.times.endAll(nil)
		f.forgetGroup(g)
	}
	return events
}

// sendGroupEnded tells nodes that asked for the group's rank map that the group is over.
func (g *group) sendGroupEnded() {
	for _, n := range g.mapReaders {
		n.Send(&wire.GroupEnded{Group: g.name})
	}
	g.mapReaders = nil
}

// forgetGroup forgets a spawned group that is over, unless a later report needs it. Otherwise
// memory would grow with each spawn of a long job. The records of its ranks stay in the report.
func (f *runningJob) forgetGroup(g *group) {
	if g.first == 0 || f.transcript != nil || !g.killed && (g.hasFailedRank || g.spawnWaiting != nil) {
		return
	}
	g.bindings.reportNow()
	f.groups = slices.DeleteFunc(f.groups, func(x *group) bool { return x == g })
}

// rankStarted handles the report that a rank has started or could not be started. Of a spawned
// group all ranks run, or none: the rank that spawned them could not use a part.
func (f *runningJob) rankStarted(n *jobNode, m *wire.Started) []supervise.Event {
	g, number := f.groupOf(m.Rank)
	if g == nil {
		return nil
	}
	f.usage.addStart(n, m)
	g.bindings.addRank(n, number, m)
	g.times.started(n, m.Rank, f.state.RankNumber(m.Rank), m.Err)
	if m.Err == "" {
		if g.unstarted--; g.unstarted == 0 && g.spawnWaiting != nil {
			f.replySpawn(g)
		}
		return []supervise.Event{supervise.RankStarted{Rank: m.Rank}}
	}
	failed := supervise.RankStartFailed{Rank: m.Rank, Code: m.Code, Reason: m.Err, Hint: m.Hint}
	if g.first == 0 {
		return []supervise.Event{failed}
	}
	events := []supervise.Event{failed}
	if !g.killed {
		g.killed = true
		f.fences.RemoveGroup(g.name)
		for _, n := range g.nodes {
			n.Send(&wire.KillGroup{Group: g.name})
		}
		f.refuseSpawn(g.spawnWaiting, &usererr.Error{Text: n.Name() + ": " + m.Err, Remedy: m.Hint, Code: m.Code})
		events = []supervise.Event{supervise.GroupKilled{FirstRank: g.first, RankCount: g.plan.Size}, failed}
	}
	f.rankEnded(n, m.Rank)
	return events
}

// rankMapOf returns which ranks of a group are on which node. A node without ranks of the group is
// told later when the group is over, so that it stops waiting for them.
func (f *runningJob) rankMapOf(n *jobNode, m *wire.RankMapRequest) *wire.RankMap {
	answer := &wire.RankMap{ID: m.ID, Group: m.Group}
	g := f.groupNamed(m.Group)
	if g == nil || len(g.ranksAlive) == 0 {
		return answer
	}
	if !slices.Contains(g.nodes, n) && !slices.Contains(g.mapReaders, n) {
		g.mapReaders = append(g.mapReaders, n)
	}
	answer.AppSizes = reserve.RanksPerApp(g.plan, len(g.apps))
	answer.NodeOfRank, answer.EarlierRanks = make([]int, g.plan.Size), g.earlierRanks
	for i, np := range g.plan.Nodes {
		answer.Nodes = append(answer.Nodes, np.Name)
		for _, r := range np.Ranks {
			answer.NodeOfRank[r.Rank] = i
		}
	}
	return answer
}
