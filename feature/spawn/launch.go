/*
Package spawn is the feature of mpiexec that starts more ranks when a rank asks for them (MPI_Comm_spawn). The new
ranks form a new group. mpiexec plans them, claims CPUs and supervises them, as for the ranks of the command line:

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

All ranks are started, or none. If a program cannot be executed, the other new ranks are killed, and the parent
rank gets an error. The parent rank continues, as the MPI standard requires.

mpiexec searches for nodes for one spawn at a time (launch.Job.StartSearch). Each search has its own reservation.
Replies from the job's own nodes arrive at the goroutine that supervises the job, which passes them to the search.

The decision lock lets only one waiting job be planned at a time. A search does not take this lock, because a running
job must not wait for other jobs. Claims are exclusive even without the lock.

Rules TRUST-9 to TRUST-12 limit how many ranks a rank may ask for, and on which hosts.
*/
package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
	"remshell/usererr"
)

func init() { launch.Register(launch.Feature{Name: "spawn", Attach: attach}) }

// A spawner handles the spawn requests of one job.
type spawner struct {
	job             *launch.Job
	waiting         []*request                 // requested, and not begun yet
	starting        map[*launch.Group]*request // begun, and not all their ranks run yet
	begun           int                        // spawns that began, to number their groups
	refusedReported int                        // refused spawns, whether or not they were reported
	sharingReported bool                       // whether the user was told that ranks share CPUs
}

func attach(j *launch.Job) {
	s := &spawner{job: j, starting: make(map[*launch.Group]*request)}
	launch.Handle(j, func(n *launch.Node, m *Spawn) []supervise.Event {
		s.handleRequest(n, m)
		return nil
	})
	j.Hooks.Due.Add(func(time.Time) time.Time {
		s.startNext()
		return time.Time{}
	})
	j.Hooks.GroupRuns.Add(s.reply)
	j.Hooks.GroupFailed.Add(func(g *launch.Group, err error) {
		s.refuse(s.starting[g], err)
		delete(s.starting, g)
	})
	j.Hooks.Ending.Add(func() { s.waiting = nil })
}

// A request is a rank's request to spawn other ranks.
type request struct {
	fromNode *launch.Node // the node whose rank asks
	message  *Spawn
	parent   *launch.Group // the group of the requesting rank; nil: there is no such group
	rank     int           // the number in the job of the rank that asks
	name     string        // name of the new group; empty until its search starts
}

// These are the limits of spawn requests (rule TRUST-12).
const (
	maxWaitingSpawns    = 64  // spawns that may wait
	maxReportedRefusals = 100 // refusals reported to the user
)

// A spawnAllocation holds the nodes that were found for a spawn's ranks, and the files for their output.
type spawnAllocation struct {
	*reserve.Reservation
	output *stdio.GroupOutput // nil if no nodes were found
}

func (s *spawner) handleRequest(n *launch.Node, m *Spawn) {
	r := &request{fromNode: n, message: m, rank: -1}
	s.addLine(&m.Request, "> SPAWN "+m.Request.String())
	if r.parent = s.job.GroupNamed(m.Request.Group); r.parent != nil { // the validator has checked that the rank belongs to the node
		r.rank = r.parent.First + m.Request.Rank
	}
	if err := s.checkMaySpawn(r); err != nil {
		s.refuse(r, err)
		return
	}
	s.waiting = append(s.waiting, r)
}

// addLine adds a line about a request of a rank to the transcript of PMI messages, if one is kept.
func (s *spawner) addLine(r *spawn.Request, line string) {
	if g := s.job.GroupNamed(r.Group); g != nil {
		for _, add := range s.job.Hooks.PMILine {
			add(g.First+r.Rank, line)
		}
	}
}

// checkMaySpawn returns an error that says why a rank may not spawn, or nil if it may.
func (s *spawner) checkMaySpawn(r *request) error {
	switch {
	case !s.job.State.MaySpawn(r.rank):
		return launch.ErrJobEnding
	case s.job.Request.SpawnHosts.None:
		return &info.ForbiddenError{Text: fmt.Sprintf("MPI_Comm_spawn is not allowed (%s)", s.job.Request.SpawnHosts.Option)}
	case len(r.parent.Nodes) > 1 && !r.parent.FirstFenceDone: // one node alone cannot start more ranks for all of them
		return &info.ForbiddenError{Text: "no rank may spawn before the first barrier of its MPI_COMM_WORLD"}
	case r.message.Fault != "":
		return errors.New(r.message.Fault)
	case len(s.waiting) >= maxWaitingSpawns:
		return errors.New("too many spawn requests of this job are in progress")
	}
	return nil
}

// startNext starts the next spawn request, unless mpiexec is already searching for nodes.
func (s *spawner) startNext() {
	for !s.job.Searching() && !s.job.StartsBarred && len(s.waiting) > 0 {
		r := s.waiting[0]
		s.waiting = s.waiting[1:]
		if !s.job.State.MaySpawn(r.rank) {
			s.refuse(r, launch.ErrJobEnding)
			continue
		}
		s.start(r)
	}
}

// start starts the search for nodes that can run a spawn's ranks.
func (s *spawner) start(r *request) {
	j := s.job
	s.begun++
	r.name = j.Request.Job.GroupName(s.begun)
	_, _, app := j.RankPlan(r.rank)
	wanted := reserve.SpawnRequest{Request: r.message.Request, ParentApp: app, FromNode: r.fromNode.Node.Node, Group: r.name, Number: s.begun, FirstRank: j.Size, Baseline: j.Baseline, OwnNodes: j.OwnNodes()}
	req, group, began := j.RequestWithoutStandby(), len(j.GroupFirsts), j.State.Began()
	req.JobGang = j.Plan.Gang
	j.StartSearch(r.name, launch.GroupRow(group), func(ctx context.Context, env reserve.Env) launch.Found {
		var p spawnAllocation
		var err error
		if p.Reservation, err = reserve.ReserveSpawn(ctx, req, env, wanted); err == nil {
			p.output, err = j.Streams.PrepareGroup(p.Request.Streams, stdio.RanksOfPlan(p.Plan, j.Request.Attempt, group, wanted.FirstRank, began))
			if err != nil {
				p.Abandon()
			}
		}
		return launch.Found{Use: func(lost map[*node.Node]bool) []supervise.Event { return s.use(r, p, err, lost) }, Abandon: p.abandon}
	})
}

// abandon is called if the spawn does not use p. It releases the nodes and closes the output files of the new group.
func (p spawnAllocation) abandon() {
	p.Abandon()
	if p.output != nil {
		p.output.Close()
	}
}

// use adds the group of a spawn to the job, and starts its ranks on the nodes of p. It returns an event that reports
// the new group. If err is not nil, no nodes were found. Then use refuses the request with err and returns nil.
// lostNodes are nodes outside the job to which the connection was lost.
func (s *spawner) use(r *request, p spawnAllocation, err error, lostNodes map[*node.Node]bool) []supervise.Event {
	j := s.job
	j.AddConnections(p.Connections)
	if err == nil {
		switch lost := j.LostSinceReserved(p.Reservation, lostNodes); {
		case !j.State.MaySpawn(r.rank):
			err = launch.ErrJobEnding
		case lost != "":
			err = fmt.Errorf("%s: mpiexec lost contact with the host before the ranks started", lost)
		}
		if err != nil {
			p.abandon()
		}
	}
	if err != nil {
		s.refuse(r, err)
		return nil
	}
	j.Streams.AddGroup(p.output)
	grown := supervise.GroupSpawned{Nodes: make([]int, p.Plan.Size)}
	nodes := s.addNodes(r, p, &grown)
	for i, n := range nodes {
		np := p.Plan.Nodes[i]
		for _, rank := range np.Ranks {
			grown.Nodes[rank.Rank] = n.Key
		}
		j.Env.Log.Info().Str("node", n.Name()).Str("group", r.name).Msg("spawned " + reserve.FormatRanksOf(np))
	}
	s.reportSharing(r, p)
	g := j.AddGroup(r.name, p.Plan, p.Request.Apps, nodes)
	s.starting[g] = r
	j.ReleaseGroup(g, p.Rendezvous)
	return []supervise.Event{grown}
}

// addNodes returns the job's nodes on which a spawn's ranks start. It adds nodes to the job that do not belong to it
// yet, and appends their names to spawned.NewNodes.
func (s *spawner) addNodes(r *request, p spawnAllocation, spawned *supervise.GroupSpawned) (nodes []*launch.Node) {
	for _, n := range p.Nodes {
		m := s.job.FindNode(n.Node)
		if m == nil {
			m = s.job.AddNode(n)
			spawned.NewNodes = append(spawned.NewNodes, n.Name())
			s.addHost(r, *n.Def)
		}
		nodes = append(nodes, m)
	}
	return nodes
}

// addHost adds a host to the job's candidate hosts if it is new, and reports the new host to the user.
func (s *spawner) addHost(r *request, def job.NodeDef) {
	j := s.job
	if slices.ContainsFunc(j.Request.Nodes, def.IsSameNode) {
		return
	}
	j.Request.AddNode(def)
	j.Env.Report(fmt.Sprintf("%s now belongs to the job, because %s requested it (%s)", def.Name, j.State.RankOnNode(r.rank), j.Request.SpawnHosts.Option))
}

// reportSharing reports to the user, once, that spawned ranks share CPUs with other ranks of the job. If the
// whole job runs on this machine and no number of slots was given, the ranks share CPUs with all processes on
// the machine.
func (s *spawner) reportSharing(r *request, p spawnAllocation) {
	shared := "the job"
	switch {
	case s.sharingReported:
		return
	case p.Request.LocalOnly && p.Plan.Overbooked:
		shared = "this machine"
	case !p.Request.ShareOwnCPUs:
		return
	}
	s.sharingReported = true
	s.job.Env.Report(s.job.State.RankOnNode(r.rank) + " spawns ranks, but no CPUs are free; they share the CPUs of " + shared + " (--nooversubscribe forbids that)")
}

// reply replies to the rank that requested a group, once all ranks of the group are running.
func (s *spawner) reply(g *launch.Group) {
	r := s.starting[g]
	if r == nil {
		return // the group of the command line
	}
	delete(s.starting, g)
	s.addLine(&r.message.Request, "< STARTED")
	r.fromNode.Send(&Spawned{ID: r.message.ID, Group: g.Name, Codes: spawnCodes(r.message.Request, g.Apps)})
}

// refuse reports to the rank why no rank was started. It also reports the reason to the user, because MPI
// does not pass the reason to the program.
func (s *spawner) refuse(r *request, err error) {
	if err != launch.ErrJobEnding {
		s.reportRefusal(r, err)
	}
	s.addLine(&r.message.Request, "< FAILED "+usererr.Reason(err))
	r.fromNode.Send(&Spawned{ID: r.message.ID, Err: usererr.Reason(err), Full: reserve.LacksCapacity(err)})
}

// reportRefusal reports to the user, even with --quiet, that a spawn was refused. It limits the number of reports,
// because a node may send any number of requests.
func (s *spawner) reportRefusal(r *request, err error) {
	on := s.job.State.RankOnNode(r.rank)
	lines := append([]string{fmt.Sprintf("%s: spawn %s: %s", on, r.message.Request, err)}, hintLines(err)...)
	var forbidden *info.ForbiddenError
	if errors.As(err, &forbidden) {
		lines = []string{on + ": the spawn was refused: " + forbidden.Text}
	}
	switch s.refusedReported++; {
	case s.refusedReported > maxReportedRefusals:
		return
	case s.refusedReported == maxReportedRefusals:
		lines = []string{"mpiexec does not report further refused spawn requests"}
	}
	for i, line := range lines {
		lines[i] = format.EscapeSentence(line)
	}
	s.job.Env.PrintFailure(lines...)
}

// hintLines returns the lines that follow an error in a message: the reasons why nodes could not be used or, if there
// are none, the hint.
func hintLines(err error) (lines []string) {
	for _, reason := range usererr.Reasons(err) {
		lines = append(lines, "  "+reason)
	}
	if hint := usererr.Hint(err); hint != "" && lines == nil {
		lines = append(lines, "  hint: "+hint)
	}
	return lines
}

// spawnCodes returns the error codes of a spawn: 0 for each process that is running, 1 for each that was not started.
// It returns nil if all are running.
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
