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

// A group is ranks with one MPI_COMM_WORLD: those of the command line, or those of one
// spawn. In the job they are numbered behind those that there were before; in plans, and
// for PMI, from 0.
type group struct {
	name           string
	first          int // number of its rank 0 in the job
	plan           job.Plan
	apps           []job.App
	nodes          []*jobNode       // of the plan
	nodeOfRank     []int            // the node of each rank, by its key; not to be changed
	ranksAlive     map[*jobNode]int // ranks that are not over
	earlierRanks   []int            // ranks that each of nodes has had of groups before
	unstarted      int              // ranks of which it is not known whether they run
	spawnWaiting   *spawnRequest    // who is told that all run; nil: nobody
	killed         bool             // one of them could not be started
	firstFenceDone bool             // all its nodes have met
	mapReaders     []*jobNode       // that have none of its ranks, and have asked where they are
	bindings       *bindingReport   // nil: nobody wants to know
	failedRanks    []int            // ranks that have failed while the others go on (job.EndPolicy.KeepAll)
	failedReported int              // how many of dead its nodes know
	hasFailedRank  bool             // one of its ranks ended in a way that may have to be told of
	waiting        [2]*waiting      // by PMI and by PMIx, the first rank that waits for all others
	times          *groupTrace      // in the timeline; nil: there is none
}

// addGroup takes in a group that is prepared, and returns it.
func (f *runningJob) addGroup(name string, p job.Plan, apps []job.App, nodes []*jobNode) *group {
	g := &group{name: name, first: f.size, plan: p, apps: apps, nodes: nodes, ranksAlive: make(map[*jobNode]int), unstarted: p.Size}
	g.earlierRanks = make([]int, len(nodes))
	indices, home := make([]int, len(nodes)), make([]int, p.Size)
	for i, n := range nodes {
		g.ranksAlive[n] = len(p.Nodes[i].Ranks)
		indices[i] = n.key
		g.earlierRanks[i] = n.totalRanks
		n.totalRanks += len(p.Nodes[i].Ranks)
		for _, r := range p.Nodes[i].Ranks {
			home[r.Rank] = n.key
		}
	}
	if f.env.ReportBindings {
		f.streams.HoldOutput() // what ranks write comes behind the lines about them
		g.bindings = newBindingReport(f.streams.ReleaseOutput, len(f.groupFirsts), p.Size)
	}
	g.nodeOfRank = home
	f.fences.AddGroup(name, indices, home)
	f.groups = append(f.groups, g)
	f.groupFirsts = append(f.groupFirsts, g.first)
	f.size += p.Size
	return g
}

// releaseGroup lets the ranks of a group go; meet is where torch's can. If the job stands still, so do they: a
// node that is new hears of that here.
func (f *runningJob) releaseGroup(g *group, meet string) {
	g.times = f.newGroupTrace(g)
	for _, n := range g.nodes {
		n.drained = false
		if f.state != nil && f.state.IsSuspended() {
			n.Send(&wire.Hold{Why: job.HoldRequested, On: true})
		}
		n.Send(&wire.Start{Group: g.name, Rendezvous: meet})
	}
}

// groupOf finds the group of a rank of the job, and its number there; nil: there is no
// such rank, or its group is forgotten.
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

// groupNamed finds a group by its name.
func (f *runningJob) groupNamed(name string) *group {
	for _, g := range f.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

// A rankNodes is which rank of the job is on which node.
type rankNodes struct {
	nodes      []string
	nodeOfRank []int // the node of each rank
}

// nodeNames are the nodes of ranks.
func (p rankNodes) nodeNames() []string {
	names := make([]string, len(p.nodeOfRank))
	for rank, node := range p.nodeOfRank {
		names[rank] = p.nodes[node]
	}
	return names
}

// rankNodes is that of all groups together, also of those that are over.
func (f *runningJob) rankNodes() rankNodes {
	p := rankNodes{nodeOfRank: f.state.Nodes()}
	for _, n := range f.nodes {
		p.nodes = append(p.nodes, n.Name())
	}
	return p
}

// handleFence takes what one node brings to a fence; the last one releases all. It is news if the
// fence can never be complete.
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

// giveUpFence ends a fence for all its nodes, because the time of a rank on one of them is over (PMIX-31).
func (f *runningJob) giveUpFence(n *jobNode, id fence.ID, joined bool) {
	tell, err := f.fences.GiveUp(n.key, id, joined)
	if err != nil { // one of its groups is over
		tell = []int{n.key}
	}
	f.sendFenceGivenUp(id, tell)
}

// sendFenceGivenUp tells nodes that a fence was given up.
func (f *runningJob) sendFenceGivenUp(id fence.ID, nodes []int) {
	frame := wire.Encode(&wire.Fenced{ID: id.String(), Late: true})
	for _, i := range nodes {
		f.nodes[i].SendFenced(id, frame)
	}
}

// fenceStuck is the news that a fence can never be complete. If the job goes on without the ranks that have
// left (job.EndPolicy.KeepAll), those that wait are let out.
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

// fenceBroken is the news that a fence can never be complete.
func fenceBroken(err error) []supervise.Event {
	return []supervise.Event{supervise.Failure{Kind: supervise.PMIBarrierBroken, Text: err.Error()}}
}

// recordFence notes that a node has come to a fence whose members are a group, and whether all of the group have met so.
func (f *runningJob) recordFence(n *jobNode, members fence.Members, all bool) {
	if g := f.groupNamed(members.Group()); g != nil {
		g.firstFenceDone = g.firstFenceDone || all
		g.times.fenceReached(n, all)
	}
}

// A failedRanksDue is the event that the nodes of a group are to be told which of its ranks have died.
type failedRanksDue struct{ *group }

// failedRanksDelay is how long deaths are collected before nodes are told, so that those of many ranks are one
// message.
const failedRanksDelay = 100 * time.Millisecond

// recordFailedRank notes a rank of a group that has failed, if the others go on.
func (f *runningJob) recordFailedRank(g *group, rank int) {
	if !f.state.KeepsAll() {
		return
	}
	if g.failedReported == len(g.failedRanks) {
		time.AfterFunc(failedRanksDelay, func() { f.events.Put(failedRanksDue{g}) })
	}
	g.failedRanks = append(g.failedRanks, rank)
}

// sendFailedRanks tells the nodes of a group which of its ranks have failed so far.
func (g *group) sendFailedRanks() {
	dead := slices.Clone(g.failedRanks)
	g.failedReported = len(g.failedRanks)
	for n := range g.ranksAlive {
		n.Send(&wire.FailedRanks{Group: g.name, Ranks: dead})
	}
}

// rankEnded takes the news that a rank is over. It is more news if others wait for it.
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
	var news []supervise.Event
	if err := f.fences.RankLeft(g.name, n.key, number); err != nil {
		news = f.fenceStuck(err) // before the hub forgets the fences of the group
	}
	if len(g.ranksAlive) == 0 {
		f.fences.RemoveGroup(g.name)
		g.sendGroupEnded()
		g.times.endAll(nil)
		f.forgetGroup(g)
	}
	return news
}

// sendGroupEnded tells others that nothing is left of a group.
func (g *group) sendGroupEnded() {
	for _, n := range g.mapReaders {
		n.Send(&wire.GroupEnded{Group: g.name})
	}
	g.mapReaders = nil
}

// forgetGroup lets go of a group that was spawned and is over, unless somebody may want to know more
// of it: a job may spawn for days. What stays of its ranks are their rows in the report.
func (f *runningJob) forgetGroup(g *group) {
	if g.first == 0 || f.transcript != nil || !g.killed && (g.hasFailedRank || g.spawnWaiting != nil) {
		return
	}
	g.bindings.reportNow()
	f.groups = slices.DeleteFunc(f.groups, func(x *group) bool { return x == g })
}

// rankStarted takes the news that a rank runs, or why it does not. Of a group that was
// spawned either all ranks run, or none: who waits for it could do nothing with the rest.
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
	news := []supervise.Event{failed}
	if !g.killed {
		g.killed = true
		f.fences.RemoveGroup(g.name)
		for _, n := range g.nodes {
			n.Send(&wire.KillGroup{Group: g.name})
		}
		f.refuseSpawn(g.spawnWaiting, &usererr.Error{Text: n.Name() + ": " + m.Err, Remedy: m.Hint, Code: m.Code})
		news = []supervise.Event{supervise.GroupKilled{FirstRank: g.first, RankCount: g.plan.Size}, failed}
	}
	f.rankEnded(n, m.Rank)
	return news
}

// rankMapOf tells a node which ranks of a group are where. One that has none of them hears when the group
// is over, and until then nothing keeps it from waiting for its ranks.
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
