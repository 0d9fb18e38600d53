package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remshell/format"
	"remshell/gpu"
	"remshell/job"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
	"remshell/usererr"
	"remshell/wire"
)

/*
Ranks may ask for more ranks (MPI_Comm_spawn). These become a group of their own. They are planned,
claimed and supervised like those of the command line:

	rank     helper             mpiexec                          nodes
	 | spawn --> | Spawn ---------> |                               |
	 |           |                  | Survey ---------------------->|  what other jobs hold
	 |           |                  |   plan.Make: on the job's own nodes; if they
	 |           |                  |   are full, or others were named, on more
	 |           |                  | Prepare --------------------->|  a claim of its own
	 |           |                  |<-------------------- Prepared |
	 |           |                  | Start ----------------------->|
	 |           |                  |<--------------------- Started |  each rank
	 | <-------- | <------- Spawned |                               |

All ranks are started, or none: if one exec fails, the others are killed, and the rank that asked
gets an error. That rank goes on, as MPI says.

One spawn at a time gets its place, by a nodeSearch with a reservation of its own. The reservation
knows the job's nodes; supervision forwards their replies to it. It does not take the decision lock
of the queue: a running job does not wait behind others, and claims are exclusive without the lock.

TRUST-9 to TRUST-12 limit how much a rank may ask for, and on which hosts.
*/
type spawnRequest struct {
	fromNode *jobNode // the node whose rank asks
	message  *wire.Spawn
	parent   *group // the group of that rank; nil: there is no such group
	rank     int    // the number in the job of the rank that asks
	name     string // name of the new group; empty until its search starts
}

// A spawnQueue has the spawns that were requested and not started yet.
type spawnQueue struct {
	waiting         []*spawnRequest
	begun           int  // spawns that began, to number their groups
	refusedReported int  // refused spawns, whether or not they were reported
	sharingReported bool // the user was told that ranks share CPUs

}

// Limits of TRUST-12.
const (
	maxWaitingSpawns    = 64  // spawns that may wait
	maxReportedRefusals = 100 // refusals reported to the user
)

// spawnPlaceFound is the event that the search for a spawn's place has ended.
type spawnPlaceFound struct {
	spawn  *spawnRequest
	place  *reserve.Reservation
	output *stdio.GroupOutput // nil if err is set
	err    error
}

// errJobEnding is the reply to spawns and fences when the job is ending.
var errJobEnding = errors.New("the job is ending")

// handleSpawn handles a spawn request of a rank.
func (f *runningJob) handleSpawn(n *jobNode, m *wire.Spawn) {
	s := &spawnRequest{fromNode: n, message: m, rank: -1}
	f.recordSpawnLine(&m.Request, "> SPAWN "+m.Request.String())
	if s.parent = f.groupNamed(m.Request.Group); s.parent != nil { // the validator has checked that the rank belongs to the node
		s.rank = s.parent.first + m.Request.Rank
	}
	if err := f.checkMaySpawn(s); err != nil {
		f.refuseSpawn(s, err)
		return
	}
	f.spawnQueue.waiting = append(f.spawnQueue.waiting, s)
}

// checkMaySpawn returns why a rank may not spawn, or nil.
func (f *runningJob) checkMaySpawn(s *spawnRequest) error {
	switch {
	case !f.state.MaySpawn(s.rank):
		return errJobEnding
	case f.req.SpawnHosts.None:
		return &info.ForbiddenError{Text: fmt.Sprintf("wants to spawn; not done (%s)", f.req.SpawnHosts.Option)}
	case len(s.parent.nodes) > 1 && !s.parent.firstFenceDone: // one node alone cannot start more ranks for all of them
		return &info.ForbiddenError{Text: "wants to spawn before the group's first barrier; not done"}
	case s.message.Fault != "":
		return errors.New(s.message.Fault)
	case len(f.spawnQueue.waiting) >= maxWaitingSpawns:
		return errors.New("too many spawns at once")
	}
	return nil
}

// nextSpawn starts the next request, if no search is in progress.
func (f *runningJob) nextSpawn() {
	q := &f.spawnQueue
	if f.move != nil { // a Start would release the claims of the move
		return
	}
	for f.search == nil && len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting = q.waiting[1:]
		if !f.state.MaySpawn(s.rank) {
			f.refuseSpawn(s, errJobEnding)
			continue
		}
		f.startSpawn(s)
	}
}

// startSpawn starts the search for a spawn's place.
func (f *runningJob) startSpawn(s *spawnRequest) {
	f.spawnQueue.begun++
	s.name = f.req.Job.GroupName(f.spawnQueue.begun)
	_, _, app := f.rankPlan(s.rank)
	wanted := reserve.SpawnRequest{Request: s.message.Request, ParentApp: app, FromNode: s.fromNode.Node.Node, Group: s.name, Number: f.spawnQueue.begun, FirstRank: f.size, Baseline: f.baseline, OwnNodes: f.ownNodes()}
	req, group, began := f.requestWithoutStandby(), len(f.groupFirsts), f.state.Began()
	f.startSearch(s.name, groupRow(group), func(ctx context.Context, env reserve.Env) (any, func()) {
		done := spawnPlaceFound{spawn: s}
		if done.place, done.err = reserve.ReserveSpawn(ctx, req, env, wanted); done.err == nil {
			done.output, done.err = f.streams.PrepareGroup(done.place.Request.Streams, stdio.RanksOfPlan(done.place.Plan, f.req.Attempt, group, wanted.FirstRank, began))
			if done.err != nil {
				done.place.Abandon()
			}
		}
		return done, done.abandon
	})
}

// abandon releases what was found.
func (e spawnPlaceFound) abandon() {
	e.place.Abandon()
	if e.output != nil {
		e.output.Close()
	}
}

// ownNodes returns the nodes of the job that are not lost, with the CPUs and GPUs that the job uses
// there.
func (f *runningJob) ownNodes() (all []reserve.OwnNode) {
	uses := make(map[*jobNode]*job.Occupancy)
	for _, n := range f.nodes {
		uses[n] = new(job.Occupancy)
	}
	for _, g := range f.groups {
		for i, n := range g.nodes {
			if g.ranksAlive[n] > 0 {
				addOccupancy(uses[n], g.plan.Nodes[i].Ranks)
			}
		}
	}
	for _, n := range f.nodes {
		if n.lost == nil {
			all = append(all, reserve.OwnNode{Node: n.Node, Occupancy: *uses[n], TotalRanks: n.totalRanks})
		}
	}
	return all
}

// addOccupancy adds ranks to an occupancy.
func addOccupancy(u *job.Occupancy, ranks []job.RankPlan) {
	for _, r := range ranks {
		u.Ranks++
		u.OwnRanks++
		if len(r.ClaimedCPUs) > 0 {
			u.BoundRanks++
		}
		u.BusyCPUs = append(u.BusyCPUs, r.ClaimedCPUs...)
		u.BusyGPUs = append(u.BusyGPUs, gpu.Addresses(r.GPUs)...)
	}
}

// spawnPlaceFound adds the group of a spawn whose place was found, and starts its ranks.
func (f *runningJob) spawnPlaceFound(e spawnPlaceFound) []supervise.Event {
	s, place := e.spawn, e.place
	gone := f.finishedSearch().lostNodes
	f.connections = append(f.connections, place.Connections...)
	err := e.err
	if err == nil {
		switch lost := f.lostSinceReserved(place, gone); {
		case !f.state.MaySpawn(s.rank):
			err = errJobEnding
		case lost != "":
			err = fmt.Errorf("%s: lost contact before the start", lost)
		}
		if err != nil {
			e.abandon()
		}
	}
	if err != nil {
		f.refuseSpawn(s, err)
		return nil
	}
	f.streams.AddGroup(e.output)
	grown := supervise.GroupSpawned{Nodes: make([]int, place.Plan.Size)}
	nodes := f.addSpawnNodes(s, place, &grown)
	for i, n := range nodes {
		np := place.Plan.Nodes[i]
		for _, r := range np.Ranks {
			grown.Nodes[r.Rank] = n.key
		}
		f.env.Log.Info().Str("node", n.Name()).Str("group", s.name).Msg("spawned " + reserve.FormatRanksOf(np))
	}
	f.reportSharing(s, place)
	g := f.addGroup(s.name, place.Plan, place.Request.Apps, nodes)
	g.spawnWaiting = s
	f.releaseGroup(g, place.Rendezvous)
	return []supervise.Event{grown}
}

// lostSinceReserved returns a node that was lost after the reservation had last checked it, or "".
// gone are lost nodes that are not part of the job.
func (f *runningJob) lostSinceReserved(place *reserve.Reservation, gone map[*node.Node]bool) (name string) {
	for _, n := range place.Nodes {
		if m := f.members[n.Node]; m != nil && m.lost != nil || gone[n.Node] {
			return n.Name()
		}
	}
	return ""
}

// addSpawnNodes returns the nodes of a spawn. It adds those that are new to the job, and lists them
// in grown.
func (f *runningJob) addSpawnNodes(s *spawnRequest, place *reserve.Reservation, grown *supervise.GroupSpawned) (nodes []*jobNode) {
	for _, n := range place.Nodes {
		m := f.members[n.Node]
		if m == nil {
			m = f.addNode(n)
			grown.NewNodes = append(grown.NewNodes, n.Name())
			f.addSpawnHost(s, *n.Def)
		}
		nodes = append(nodes, m)
	}
	return nodes
}

// addSpawnHost adds a host to the job's candidates if it is new, and tells the user.
func (f *runningJob) addSpawnHost(s *spawnRequest, def job.NodeDef) {
	if slices.ContainsFunc(f.req.Nodes, def.IsSameNode) {
		return
	}
	f.req.AddNode(def)
	f.env.Report(fmt.Sprintf("%s joins the job, as %s asks (%s)", def.Name, f.state.RankOnNode(s.rank), f.req.SpawnHosts.Option))
}

// reportSharing tells the user, once, that spawned ranks share CPUs: with other ranks of the job
// or, if the job runs on this machine alone without a slot count, with everything on it.
func (f *runningJob) reportSharing(s *spawnRequest, place *reserve.Reservation) {
	shared := "the job"
	switch {
	case f.spawnQueue.sharingReported:
		return
	case place.Request.LocalOnly && place.Plan.Overbooked:
		shared = "this machine"
	case !place.Request.ShareOwnCPUs:
		return
	}
	f.spawnQueue.sharingReported = true
	f.env.Report(f.state.RankOnNode(s.rank) + " spawns ranks that find no free CPU; they share those of " + shared + " (--nooversubscribe refuses that)")
}

// replySpawn tells the rank that requested a group that all its ranks run.
func (f *runningJob) replySpawn(g *group) {
	s := g.spawnWaiting
	g.spawnWaiting = nil
	f.recordSpawnLine(&s.message.Request, "< STARTED")
	s.fromNode.Send(&wire.Spawned{ID: s.message.ID, Group: g.name, Codes: spawnCodes(s.message.Request, g.apps)})
}

// refuseSpawn tells the rank why nothing was started. It also tells the user, since MPI passes no
// reasons on.
func (f *runningJob) refuseSpawn(s *spawnRequest, err error) {
	if err != errJobEnding {
		f.reportRefusal(s, err)
	}
	f.recordSpawnLine(&s.message.Request, "< FAILED "+usererr.Reason(err))
	s.fromNode.Send(&wire.Spawned{ID: s.message.ID, Err: usererr.Reason(err), Full: reserve.LacksCapacity(err)})
}

// reportRefusal tells the user, even with --quiet, that a spawn was refused. It limits the number
// of reports, because a node may send any number of requests.
func (f *runningJob) reportRefusal(s *spawnRequest, err error) {
	lines := append([]string{fmt.Sprintf("%s: spawn %s: %s", f.state.RankOnNode(s.rank), s.message.Request, err)}, hintLines(err)...)
	var forbidden *info.ForbiddenError
	if errors.As(err, &forbidden) {
		lines = []string{f.state.RankOnNode(s.rank) + " " + forbidden.Text}
	}
	switch f.spawnQueue.refusedReported++; {
	case f.spawnQueue.refusedReported > maxReportedRefusals:
		return
	case f.spawnQueue.refusedReported == maxReportedRefusals:
		lines = []string{"further refused spawns are not reported"}
	}
	for i, line := range lines {
		lines[i] = format.EscapeSentence(line)
	}
	f.env.reportFailure(lines...)
}

// hintLines returns the lines below an error: why nodes could not be used, or else the hint.
func hintLines(err error) (lines []string) {
	for _, reason := range usererr.Reasons(err) {
		lines = append(lines, "  "+reason)
	}
	if hint := usererr.Hint(err); hint != "" && lines == nil {
		lines = append(lines, "  hint: "+hint)
	}
	return lines
}

// spawnCodes returns the error codes of a spawn: 0 for each process that runs, 1 for each that was
// left out. It returns nil if all run.
func spawnCodes(r spawn.Request, apps []job.App) (list []int) {
	missing := false
	for i, c := range r.Commands {
		for n := range c.Count {
			code := 0
			if n >= apps[i].N {
				code, missing = 1, true
			}
			list = append(list, code)
		}
	}
	if !missing {
		return nil
	}
	return list
}
