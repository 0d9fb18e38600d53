package launch

import (
	"errors"
	"slices"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// A group is ranks with one MPI_COMM_WORLD: those of the command line, or those of one
// spawn. In the job they are numbered behind those that there were before; in plans, and
// for PMI, from 0.
type group struct {
	name     string
	first    int // number of its rank 0 in the job
	plan     job.Plan
	apps     []job.App
	nodes    []*member       // of the plan
	home     []int           // the node of each rank, by its key; not to be changed
	alive    map[*member]int // ranks that are not over
	earlier  []int           // ranks that each of nodes has had of groups before
	starting int             // ranks of which it is not known whether they run
	waits    *spawning       // who is told that all run; nil: nobody
	pruned   bool            // one of them could not be started
	fenced   bool            // all its nodes have met
	asked    []*member       // that have none of its ranks, and have asked where they are
	bound    *bindings       // nil: nobody wants to know
	dead     []int           // ranks that have failed while the others go on (job.Ends.KeepAll)
	told     int             // how many of dead its nodes know
	failed   bool            // one of its ranks ended in a way that may have to be told of
	waiting  [2]*waiting     // by PMI and by PMIx, the first rank that waits for all others
	life     *groupTimes     // in the timeline; nil: there is none
}

// addGroup takes in a group that is prepared, and returns it.
func (f *fleet) addGroup(name string, p job.Plan, apps []job.App, nodes []*member) *group {
	g := &group{name: name, first: f.size, plan: p, apps: apps, nodes: nodes, alive: make(map[*member]int), starting: p.Size}
	g.earlier = make([]int, len(nodes))
	indices, home := make([]int, len(nodes)), make([]int, p.Size)
	for i, n := range nodes {
		g.alive[n] = len(p.Nodes[i].Ranks)
		indices[i] = n.key
		g.earlier[i] = n.had
		n.had += len(p.Nodes[i].Ranks)
		for _, r := range p.Nodes[i].Ranks {
			home[r.Rank] = n.key
		}
	}
	if f.env.Report {
		f.streams.Hold() // what ranks write comes behind the lines about them
		g.bound = newBindings(f.streams.Release, len(f.firsts), p.Size)
	}
	g.home = home
	f.hub.Add(name, indices, home)
	f.groups = append(f.groups, g)
	f.firsts = append(f.firsts, g.first)
	f.size += p.Size
	return g
}

// release lets the ranks of a group go; meet is where torch's can. If the job stands still, so do they: a
// node that is new hears of that here.
func (f *fleet) release(g *group, meet string) {
	g.life = f.live(g)
	for _, n := range g.nodes {
		n.over = false
		if f.state != nil && f.state.Held() {
			n.Send(&wire.Hold{Why: job.HoldAsked, On: true})
		}
		n.Send(&wire.Start{Group: g.name, Meet: meet})
	}
}

// groupOf finds the group of a rank of the job, and its number there; nil: there is no
// such rank, or its group is forgotten.
func (f *fleet) groupOf(rank int) (*group, int) {
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
func (f *fleet) groupNamed(name string) *group {
	for _, g := range f.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

// A whereabouts is which rank of the job is on which node.
type whereabouts struct {
	nodes []string
	of    []int // the node of each rank
}

// names are the nodes of ranks.
func (p whereabouts) names() []string {
	names := make([]string, len(p.of))
	for rank, node := range p.of {
		names[rank] = p.nodes[node]
	}
	return names
}

// placement is that of all groups together, also of those that are over.
func (f *fleet) placement() whereabouts {
	p := whereabouts{of: f.state.Nodes()}
	for _, n := range f.nodes {
		p.nodes = append(p.nodes, n.Name())
	}
	return p
}

// fence takes what one node brings to a fence; the last one releases all. It is news if the
// fence can never be complete.
func (f *fleet) fence(n *member, m *wire.Fence) []supervise.Event {
	id, err := fence.ParseID(m.ID)
	if err != nil {
		return broken(err)
	}
	if m.Late {
		f.giveUp(n, id, m.Joined)
		return nil
	}
	done, err := f.hub.Join(n.key, id, m.Blob)
	if err != nil {
		if f.state.KeepsAll() && id.Kind != fence.Barrier && !errors.As(err, new(*fence.StuckError)) { // one of its groups is over
			f.tellLate(id, []int{n.key})
		}
		return f.stuck(err)
	}
	if id.Kind == fence.Barrier || id.Kind == fence.Collective {
		f.noteFence(n, id.Members, done != nil)
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

// giveUp ends a fence for all its nodes, because the time of a rank on one of them is over (PMIX-31).
func (f *fleet) giveUp(n *member, id fence.ID, joined bool) {
	tell, err := f.hub.GiveUp(n.key, id, joined)
	if err != nil { // one of its groups is over
		tell = []int{n.key}
	}
	f.tellLate(id, tell)
}

// tellLate tells nodes that a fence was given up.
func (f *fleet) tellLate(id fence.ID, nodes []int) {
	frame := wire.Encode(&wire.Fenced{ID: id.String(), Late: true})
	for _, i := range nodes {
		f.nodes[i].SendFenced(id, frame)
	}
}

// stuck is the news that a fence can never be complete. If the job goes on without the ranks that have
// left (job.Ends.KeepAll), those that wait are let out.
func (f *fleet) stuck(err error) []supervise.Event {
	if f.state.KeepsAll() {
		late := f.hub.Abandon()
		for id, nodes := range late {
			f.tellLate(id, nodes)
		}
		if stuck := new(fence.StuckError); errors.As(err, &stuck) {
			stuck.Out = len(late) > 0
		}
	}
	return broken(err)
}

// broken is the news that a fence can never be complete.
func broken(err error) []supervise.Event {
	return []supervise.Event{supervise.Failed{Kind: supervise.PMIBroken, Text: err.Error()}}
}

// noteFence notes that a node has come to a fence whose members are a group, and whether all of the group have met so.
func (f *fleet) noteFence(n *member, members fence.Members, all bool) {
	if g := f.groupNamed(members.Group()); g != nil {
		g.fenced = g.fenced || all
		g.life.arrived(n, all)
	}
}

// A deadNews is the event that the nodes of a group are to be told which of its ranks have died.
type deadNews struct{ *group }

// deadDelay is how long deaths are collected before nodes are told, so that those of many ranks are one
// message.
const deadDelay = 100 * time.Millisecond

// noteDead notes a rank of a group that has failed, if the others go on.
func (f *fleet) noteDead(g *group, rank int) {
	if !f.state.KeepsAll() {
		return
	}
	if g.told == len(g.dead) {
		time.AfterFunc(deadDelay, func() { f.events.Put(deadNews{g}) })
	}
	g.dead = append(g.dead, rank)
}

// tellDead tells the nodes of a group which of its ranks have failed so far.
func (g *group) tellDead() {
	dead := slices.Clone(g.dead)
	g.told = len(g.dead)
	for n := range g.alive {
		n.Send(&wire.Dead{Group: g.name, Ranks: dead})
	}
}

// rankGone takes the news that a rank is over. It is more news if others wait for it.
func (f *fleet) rankGone(n *member, rank int) []supervise.Event {
	g, number := f.groupOf(rank)
	if g == nil {
		return nil
	}
	if g.alive[n]--; g.alive[n] == 0 {
		delete(g.alive, n)
	}
	if g.pruned {
		if len(g.alive) == 0 {
			g.tellOver()
			g.life.end(errPruned)
			f.forget(g)
		}
		return nil
	}
	var news []supervise.Event
	if err := f.hub.Leave(g.name, n.key, number); err != nil {
		news = f.stuck(err) // before the hub forgets the fences of the group
	}
	if len(g.alive) == 0 {
		f.hub.Remove(g.name)
		g.tellOver()
		g.life.end(nil)
		f.forget(g)
	}
	return news
}

// tellOver tells others that nothing is left of a group.
func (g *group) tellOver() {
	for _, n := range g.asked {
		n.Send(&wire.Over{Group: g.name})
	}
	g.asked = nil
}

// forget lets go of a group that was spawned and is over, unless somebody may want to know more
// of it: a job may spawn for days. What stays of its ranks are their rows in the report.
func (f *fleet) forget(g *group) {
	if g.first == 0 || f.trace != nil || !g.pruned && (g.failed || g.waits != nil) {
		return
	}
	g.bound.tell()
	f.groups = slices.DeleteFunc(f.groups, func(x *group) bool { return x == g })
}

// started takes the news that a rank runs, or why it does not. Of a group that was
// spawned either all ranks run, or none: who waits for it could do nothing with the rest.
func (f *fleet) started(n *member, m *wire.Started) []supervise.Event {
	g, number := f.groupOf(m.Rank)
	if g == nil {
		return nil
	}
	f.account.started(n, m)
	g.bound.note(n, number, m)
	g.life.started(n, m.Rank, f.state.Number(m.Rank), m.Err)
	if m.Err == "" {
		if g.starting--; g.starting == 0 && g.waits != nil {
			f.answerSpawn(g)
		}
		return []supervise.Event{supervise.Started{Rank: m.Rank}}
	}
	failed := supervise.NotStarted{Rank: m.Rank, Code: m.Code, Reason: m.Err, Hint: m.Hint}
	if g.first == 0 {
		return []supervise.Event{failed}
	}
	news := []supervise.Event{failed}
	if !g.pruned {
		g.pruned = true
		f.hub.Remove(g.name)
		for _, n := range g.nodes {
			n.Send(&wire.Prune{Group: g.name})
		}
		f.refuse(g.waits, &fault.Error{Text: n.Name() + ": " + m.Err, Remedy: m.Hint, Code: m.Code})
		news = []supervise.Event{supervise.Pruned{First: g.first, Ranks: g.plan.Size}, failed}
	}
	f.rankGone(n, m.Rank)
	return news
}

// peered tells a node which ranks of a group are where. One that has none of them hears when the group
// is over, and until then nothing keeps it from waiting for its ranks.
func (f *fleet) peered(n *member, m *wire.Peers) *wire.Peered {
	answer := &wire.Peered{ID: m.ID, Group: m.Group}
	g := f.groupNamed(m.Group)
	if g == nil || len(g.alive) == 0 {
		return answer
	}
	if !slices.Contains(g.nodes, n) && !slices.Contains(g.asked, n) {
		g.asked = append(g.asked, n)
	}
	answer.Apps = reserve.PerSection(g.plan, len(g.apps))
	answer.Of, answer.Earlier = make([]int, g.plan.Size), g.earlier
	for i, np := range g.plan.Nodes {
		answer.Nodes = append(answer.Nodes, np.Name)
		for _, r := range np.Ranks {
			answer.Of[r.Rank] = i
		}
	}
	return answer
}
