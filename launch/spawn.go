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
	fromNode *Node // the node whose rank asks
	message  *wire.Spawn
	parent   *Group // the group of that rank; nil: there is no such group
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
func (j *Job) handleSpawn(n *Node, m *wire.Spawn) {
	s := &spawnRequest{fromNode: n, message: m, rank: -1}
	j.spawnLine(&m.Request, "> SPAWN "+m.Request.String())
	if s.parent = j.GroupNamed(m.Request.Group); s.parent != nil { // the validator has checked that the rank belongs to the node
		s.rank = s.parent.First + m.Request.Rank
	}
	if err := j.checkMaySpawn(s); err != nil {
		j.refuseSpawn(s, err)
		return
	}
	j.spawnQueue.waiting = append(j.spawnQueue.waiting, s)
}

// spawnLine tells the features a line about a spawn request of a rank.
func (j *Job) spawnLine(r *spawn.Request, line string) {
	if g := j.GroupNamed(r.Group); g != nil {
		for _, add := range j.Hooks.PMILine {
			add(g.First+r.Rank, line)
		}
	}
}

// checkMaySpawn returns why a rank may not spawn, or nil.
func (j *Job) checkMaySpawn(s *spawnRequest) error {
	switch {
	case !j.State.MaySpawn(s.rank):
		return errJobEnding
	case j.Request.SpawnHosts.None:
		return &info.ForbiddenError{Text: fmt.Sprintf("wants to spawn; not done (%s)", j.Request.SpawnHosts.Option)}
	case len(s.parent.Nodes) > 1 && !s.parent.firstFenceDone: // one node alone cannot start more ranks for all of them
		return &info.ForbiddenError{Text: "wants to spawn before the group's first barrier; not done"}
	case s.message.Fault != "":
		return errors.New(s.message.Fault)
	case len(j.spawnQueue.waiting) >= maxWaitingSpawns:
		return errors.New("too many spawns at once")
	}
	return nil
}

// nextSpawn starts the next request, if no search is in progress.
func (j *Job) nextSpawn() {
	q := &j.spawnQueue
	if j.move != nil { // a Start would release the claims of the move
		return
	}
	for j.search == nil && len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting = q.waiting[1:]
		if !j.State.MaySpawn(s.rank) {
			j.refuseSpawn(s, errJobEnding)
			continue
		}
		j.startSpawn(s)
	}
}

// startSpawn starts the search for a spawn's place.
func (j *Job) startSpawn(s *spawnRequest) {
	j.spawnQueue.begun++
	s.name = j.Request.Job.GroupName(j.spawnQueue.begun)
	_, _, app := j.RankPlan(s.rank)
	wanted := reserve.SpawnRequest{Request: s.message.Request, ParentApp: app, FromNode: s.fromNode.Node.Node, Group: s.name, Number: j.spawnQueue.begun, FirstRank: j.Size, Baseline: j.baseline, OwnNodes: j.ownNodes()}
	req, group, began := j.requestWithoutStandby(), len(j.GroupFirsts), j.State.Began()
	j.startSearch(s.name, GroupRow(group), func(ctx context.Context, env reserve.Env) (any, func()) {
		done := spawnPlaceFound{spawn: s}
		if done.place, done.err = reserve.ReserveSpawn(ctx, req, env, wanted); done.err == nil {
			done.output, done.err = j.Streams.PrepareGroup(done.place.Request.Streams, stdio.RanksOfPlan(done.place.Plan, j.Request.Attempt, group, wanted.FirstRank, began))
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
func (j *Job) ownNodes() (all []reserve.OwnNode) {
	uses := make(map[*Node]*job.Occupancy)
	for _, n := range j.Nodes {
		uses[n] = new(job.Occupancy)
	}
	for _, g := range j.Groups {
		for i, n := range g.Nodes {
			if g.ranksAlive[n] > 0 {
				addOccupancy(uses[n], g.Plan.Nodes[i].Ranks)
			}
		}
	}
	for _, n := range j.Nodes {
		if n.Lost == nil {
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
func (j *Job) spawnPlaceFound(e spawnPlaceFound) []supervise.Event {
	s, place := e.spawn, e.place
	gone := j.finishedSearch().lostNodes
	j.connections = append(j.connections, place.Connections...)
	err := e.err
	if err == nil {
		switch lost := j.lostSinceReserved(place, gone); {
		case !j.State.MaySpawn(s.rank):
			err = errJobEnding
		case lost != "":
			err = fmt.Errorf("%s: lost contact before the start", lost)
		}
		if err != nil {
			e.abandon()
		}
	}
	if err != nil {
		j.refuseSpawn(s, err)
		return nil
	}
	j.Streams.AddGroup(e.output)
	grown := supervise.GroupSpawned{Nodes: make([]int, place.Plan.Size)}
	nodes := j.addSpawnNodes(s, place, &grown)
	for i, n := range nodes {
		np := place.Plan.Nodes[i]
		for _, r := range np.Ranks {
			grown.Nodes[r.Rank] = n.Key
		}
		j.Env.Log.Info().Str("node", n.Name()).Str("group", s.name).Msg("spawned " + reserve.FormatRanksOf(np))
	}
	j.reportSharing(s, place)
	g := j.addGroup(s.name, place.Plan, place.Request.Apps, nodes)
	g.spawnWaiting = s
	j.releaseGroup(g, place.Rendezvous)
	return []supervise.Event{grown}
}

// lostSinceReserved returns a node that was lost after the reservation had last checked it, or "".
// gone are lost nodes that are not part of the job.
func (j *Job) lostSinceReserved(place *reserve.Reservation, gone map[*node.Node]bool) (name string) {
	for _, n := range place.Nodes {
		if m := j.members[n.Node]; m != nil && m.Lost != nil || gone[n.Node] {
			return n.Name()
		}
	}
	return ""
}

// addSpawnNodes returns the nodes of a spawn. It adds those that are new to the job, and lists them
// in grown.
func (j *Job) addSpawnNodes(s *spawnRequest, place *reserve.Reservation, grown *supervise.GroupSpawned) (nodes []*Node) {
	for _, n := range place.Nodes {
		m := j.members[n.Node]
		if m == nil {
			m = j.addNode(n)
			grown.NewNodes = append(grown.NewNodes, n.Name())
			j.addSpawnHost(s, *n.Def)
		}
		nodes = append(nodes, m)
	}
	return nodes
}

// addSpawnHost adds a host to the job's candidates if it is new, and tells the user.
func (j *Job) addSpawnHost(s *spawnRequest, def job.NodeDef) {
	if slices.ContainsFunc(j.Request.Nodes, def.IsSameNode) {
		return
	}
	j.Request.AddNode(def)
	j.Env.Report(fmt.Sprintf("%s joins the job, as %s asks (%s)", def.Name, j.State.RankOnNode(s.rank), j.Request.SpawnHosts.Option))
}

// reportSharing tells the user, once, that spawned ranks share CPUs: with other ranks of the job
// or, if the job runs on this machine alone without a slot count, with everything on it.
func (j *Job) reportSharing(s *spawnRequest, place *reserve.Reservation) {
	shared := "the job"
	switch {
	case j.spawnQueue.sharingReported:
		return
	case place.Request.LocalOnly && place.Plan.Overbooked:
		shared = "this machine"
	case !place.Request.ShareOwnCPUs:
		return
	}
	j.spawnQueue.sharingReported = true
	j.Env.Report(j.State.RankOnNode(s.rank) + " spawns ranks that find no free CPU; they share those of " + shared + " (--nooversubscribe refuses that)")
}

// replySpawn tells the rank that requested a group that all its ranks run.
func (j *Job) replySpawn(g *Group) {
	s := g.spawnWaiting
	g.spawnWaiting = nil
	j.spawnLine(&s.message.Request, "< STARTED")
	s.fromNode.Send(&wire.Spawned{ID: s.message.ID, Group: g.Name, Codes: spawnCodes(s.message.Request, g.Apps)})
}

// refuseSpawn tells the rank why nothing was started. It also tells the user, since MPI passes no
// reasons on.
func (j *Job) refuseSpawn(s *spawnRequest, err error) {
	if err != errJobEnding {
		j.reportRefusal(s, err)
	}
	j.spawnLine(&s.message.Request, "< FAILED "+usererr.Reason(err))
	s.fromNode.Send(&wire.Spawned{ID: s.message.ID, Err: usererr.Reason(err), Full: reserve.LacksCapacity(err)})
}

// reportRefusal tells the user, even with --quiet, that a spawn was refused. It limits the number
// of reports, because a node may send any number of requests.
func (j *Job) reportRefusal(s *spawnRequest, err error) {
	lines := append([]string{fmt.Sprintf("%s: spawn %s: %s", j.State.RankOnNode(s.rank), s.message.Request, err)}, hintLines(err)...)
	var forbidden *info.ForbiddenError
	if errors.As(err, &forbidden) {
		lines = []string{j.State.RankOnNode(s.rank) + " " + forbidden.Text}
	}
	switch j.spawnQueue.refusedReported++; {
	case j.spawnQueue.refusedReported > maxReportedRefusals:
		return
	case j.spawnQueue.refusedReported == maxReportedRefusals:
		lines = []string{"further refused spawns are not reported"}
	}
	for i, line := range lines {
		lines[i] = format.EscapeSentence(line)
	}
	j.Env.reportFailure(lines...)
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
