package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remshell/fault"
	"remshell/gpu"
	"remshell/job"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
	"remshell/show"
	"remshell/wire"
)

/*
Ranks may ask for more ranks (MPI_Comm_spawn). They become a group of their own, and are
selected, placed, claimed and supervised like those of the command line:

	rank     helper             mpiexec                          nodes
	 | spawn --> | Spawn ---------> |                               |
	 |           |                  | Survey ---------------------->|  what other jobs hold
	 |           |                  |   plan.Make: on the job's own nodes; if they have
	 |           |                  |   no room, or others were named, on more
	 |           |                  | Prepare --------------------->|  a claim of its own
	 |           |                  |<-------------------- Prepared |
	 |           |                  | Start ----------------------->|
	 |           |                  |<--------------------- Started |  each rank
	 | <-------- | <------- Spawned |                               |

All are started, or none: if one exec fails the others are killed, and the rank that
asked is told. It goes on, as MPI says.

One spawn at a time is given its place, by a seeking with a reservation of its own. That is
told which nodes the job has; what these answer to it, supervision passes on. The gate of
the queue is not asked for: a running job does not wait behind others, and claims are
exclusive without it.

Who may ask for how much, and where it may go, is said by TRUST-9 to TRUST-12.
*/
type spawning struct {
	from   *member // whose rank asks
	m      *wire.Spawn
	parent *group // of that rank; nil: there is no such group
	rank   int    // that asks, in the job
	name   string // of the group that is to be, once a place is looked for
}

// spawns are those that have been asked for.
type spawns struct {
	queue   []*spawning
	count   int  // of those that began, for their names
	refused int  // of those that were, as far as the user has been told
	crowded bool // he was told that ranks share CPUs

}

// Bounds of TRUST-12.
const (
	mostWaiting  = 64  // spawns in turn
	mostRefusals = 100 // told to the user
)

// spawnPlaced is the end of looking for the place of a spawn.
type spawnPlaced struct {
	s     *spawning
	place *reserve.Reservation
	grown *stdio.Growth // nil with an error
	err   error
}

// errEnding is the answer to a spawn, and to all fences, when the job is at its end.
var errEnding = errors.New("the job is ending")

// spawn takes a request of a rank.
func (f *fleet) spawn(n *member, m *wire.Spawn) {
	s := &spawning{from: n, m: m, rank: -1}
	f.recordSpawn(&m.Request, "> SPAWN "+m.Request.String())
	if s.parent = f.groupNamed(m.Request.Group); s.parent != nil { // the validator has seen that it is the node's own rank
		s.rank = s.parent.first + m.Request.Rank
	}
	if err := f.mayAsk(s); err != nil {
		f.refuse(s, err)
		return
	}
	f.spawns.queue = append(f.spawns.queue, s)
}

// mayAsk says why a rank may not spawn now, or not at all.
func (f *fleet) mayAsk(s *spawning) error {
	switch {
	case !f.state.Open(s.rank):
		return errEnding
	case f.req.Spawn.None:
		return &info.NotDone{Text: fmt.Sprintf("wants to spawn; not done (%s)", f.req.Spawn.Text)}
	case len(s.parent.nodes) > 1 && !s.parent.fenced: // a node alone could say so of them all
		return &info.NotDone{Text: "wants to spawn before the group's first barrier; not done"}
	case s.m.Fault != "":
		return errors.New(s.m.Fault)
	case len(f.spawns.queue) >= mostWaiting:
		return errors.New("too many spawns at once")
	}
	return nil
}

// nextSpawn begins with the next request, if none is under way.
func (f *fleet) nextSpawn() {
	q := &f.spawns
	if f.moving != nil { // a Start gives up all that rests
		return
	}
	for f.seeking == nil && len(q.queue) > 0 {
		s := q.queue[0]
		q.queue = q.queue[1:]
		if !f.state.Open(s.rank) {
			f.refuse(s, errEnding)
			continue
		}
		f.begin(s)
	}
}

// begin has a place looked for. What new nodes say is looked for in the job's inbox first.
func (f *fleet) begin(s *spawning) {
	f.spawns.count++
	s.name = f.req.Job.Group(f.spawns.count)
	_, _, app := f.rankPlan(s.rank)
	wanted := reserve.Spawn{Request: s.m.Request, App: app, From: s.from.Node.Node, Group: s.name, Number: f.spawns.count, First: f.size, Outset: f.outset, Own: f.own()}
	req, group, began := f.withoutSpares(), len(f.firsts), f.state.Began()
	f.seek(s.name, groupRow(group), func(ctx context.Context, env reserve.Env) (any, func()) {
		done := spawnPlaced{s: s}
		if done.place, done.err = reserve.ForSpawn(ctx, req, env, wanted); done.err == nil {
			done.grown, done.err = f.streams.Prepare(done.place.Request.Streams, stdio.Everybody(done.place.Plan, f.req.Attempt, group, wanted.First, began))
			if done.err != nil {
				done.place.Abandon()
			}
		}
		return done, done.abandon
	})
}

// abandon gives up what was found.
func (e spawnPlaced) abandon() {
	e.place.Abandon()
	if e.grown != nil {
		e.grown.Close()
	}
}

// own are the nodes of the job that are not lost, with what it has of them.
func (f *fleet) own() (all []reserve.Own) {
	uses := make(map[*member]*job.Use)
	for _, n := range f.nodes {
		uses[n] = new(job.Use)
	}
	for _, g := range f.groups {
		for i, n := range g.nodes {
			if g.alive[n] > 0 {
				addUse(uses[n], g.plan.Nodes[i].Ranks)
			}
		}
	}
	for _, n := range f.nodes {
		if n.lost == nil {
			all = append(all, reserve.Own{Node: n.Node, Use: *uses[n], Had: n.had})
		}
	}
	return all
}

// addUse counts ranks in.
func addUse(u *job.Use, ranks []job.RankPlan) {
	for _, r := range ranks {
		u.Procs++
		u.Own++
		if len(r.Held) > 0 {
			u.Seated++
		}
		u.Busy = append(u.Busy, r.Held...)
		u.BusyGPUs = append(u.BusyGPUs, gpu.Addresses(r.GPUs)...)
	}
}

// spawnPlaced takes in a spawn that a place was found for, and lets it go.
func (f *fleet) spawnPlaced(e spawnPlaced) []supervise.Event {
	s, place := e.s, e.place
	gone := f.found().gone
	f.connects = append(f.connects, place.Connects...)
	err := e.err
	if err == nil {
		switch lost := f.lostSince(place, gone); {
		case !f.state.Open(s.rank):
			err = errEnding
		case lost != "":
			err = fmt.Errorf("%s: lost contact before the start", lost)
		}
		if err != nil {
			e.abandon()
		}
	}
	if err != nil {
		f.refuse(s, err)
		return nil
	}
	f.streams.Grow(e.grown)
	grown := supervise.Grown{Nodes: make([]int, place.Plan.Size)}
	nodes := f.adopt(s, place, &grown)
	for i, n := range nodes {
		np := place.Plan.Nodes[i]
		for _, r := range np.Ranks {
			grown.Nodes[r.Rank] = n.key
		}
		f.env.Log.Info().Str("node", n.Name()).Str("group", s.name).Msg("spawned " + reserve.RanksOf(np))
	}
	f.tellCrowded(s, place)
	g := f.addGroup(s.name, place.Plan, place.Request.Apps, nodes)
	g.waits = s
	f.release(g, place.Meet)
	return []supervise.Event{grown}
}

// lostSince is a node that was lost after its reservation had last looked, gone if the job has it not; empty: none was.
func (f *fleet) lostSince(place *reserve.Reservation, gone map[*node.Node]bool) (name string) {
	for _, n := range place.Nodes {
		if m := f.members[n.Node]; m != nil && m.lost != nil || gone[n.Node] {
			return n.Name()
		}
	}
	return ""
}

// adopt returns the nodes of a spawn: those that the job had, and new ones, which it has from
// now on.
func (f *fleet) adopt(s *spawning, place *reserve.Reservation, grown *supervise.Grown) (nodes []*member) {
	for _, n := range place.Nodes {
		m := f.members[n.Node]
		if m == nil {
			m = f.join(n)
			grown.NewNodes = append(grown.NewNodes, n.Name())
			f.welcome(s, *n.Def)
		}
		nodes = append(nodes, m)
	}
	return nodes
}

// welcome makes a host a candidate that was none, and says so.
func (f *fleet) welcome(s *spawning, def job.NodeDef) {
	if slices.ContainsFunc(f.req.Nodes, def.Same) {
		return
	}
	f.req.AddNode(def)
	f.env.Say(fmt.Sprintf("%s joins the job, as %s asks (%s)", def.Name, f.state.Who(s.rank), f.req.Spawn.Text))
}

// tellCrowded says, once, that spawned ranks share CPUs: those of their own job, or, where no
// count of slots was given for this machine alone, all of it.
func (f *fleet) tellCrowded(s *spawning, place *reserve.Reservation) {
	whose := "the job"
	switch {
	case f.spawns.crowded:
		return
	case place.Request.Home && place.Plan.Overbooked:
		whose = "this machine"
	case !place.Request.Crowd:
		return
	}
	f.spawns.crowded = true
	f.env.Say(f.state.Who(s.rank) + " spawns ranks that find no free CPU; they share those of " + whose + " (--nooversubscribe refuses that)")
}

// answerSpawn tells the rank that asked for a group that it runs.
func (f *fleet) answerSpawn(g *group) {
	s := g.waits
	g.waits = nil
	f.recordSpawn(&s.m.Request, "< STARTED")
	s.from.Send(&wire.Spawned{ID: s.m.ID, Group: g.name, Codes: codes(s.m.Request, g.apps)})
}

// refuse tells the rank that asked why nothing was started; and the user, since MPI tells
// no reasons.
func (f *fleet) refuse(s *spawning, err error) {
	if err != errEnding {
		f.tellRefused(s, err)
	}
	f.recordSpawn(&s.m.Request, "< FAILED "+fault.Reason(err))
	s.from.Send(&wire.Spawned{ID: s.m.ID, Err: fault.Reason(err), Full: reserve.LacksRoom(err)})
}

// tellRefused tells the user, --quiet or not: what his program wanted is not done. A node
// may ask without end, and what it asks for may be as long as a frame.
func (f *fleet) tellRefused(s *spawning, err error) {
	lines := append([]string{fmt.Sprintf("%s: spawn %s: %s", f.state.Who(s.rank), s.m.Request, err)}, below(err)...)
	var no *info.NotDone
	if errors.As(err, &no) {
		lines = []string{f.state.Who(s.rank) + " " + no.Text}
	}
	switch f.spawns.refused++; {
	case f.spawns.refused > mostRefusals:
		return
	case f.spawns.refused == mostRefusals:
		lines = []string{"further spawns that are refused are not told"}
	}
	for i, line := range lines {
		lines[i] = show.Clean(line)
	}
	f.env.fail(lines...)
}

// below is what stands below an error: of a plan why nodes were not used, else what is to be done about it.
func below(err error) (lines []string) {
	for _, reason := range fault.Reasons(err) {
		lines = append(lines, "  "+reason)
	}
	if hint := fault.Hint(err); hint != "" && lines == nil {
		lines = append(lines, "  hint: "+hint)
	}
	return lines
}

// codes are those of a spawn: 0 for each process that runs, 1 for one that was left out;
// nil: all run.
func codes(r spawn.Request, apps []job.App) (list []int) {
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
