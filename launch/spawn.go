package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/plan"
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

One spawn at a time is given its place, on a goroutine of its own with a booking of its
own, so that the job is supervised meanwhile. That booking sees shadows of the job's
nodes, which share the connections: what they answer to it, supervision passes on. The
gate of the queue is not asked for: a running job does not wait behind others, and claims
are exclusive without it.
*/
type spawning struct {
	from   *node // whose rank asks
	m      *wire.Spawn
	parent *group
	rank   int // that asks, in the job
	wishes []wish

	name    string // of the group that is to be
	first   int    // its first rank
	b       *booking
	shadows map[*node]*node // of the job's nodes
	real    map[*node]*node // of each shadow
	stop    context.CancelFunc
	over    chan struct{} // closed when the booking is
}

// spawns are those that have been asked for.
type spawns struct {
	queue []*spawning
	now   *spawning // whose place is being looked for; nil: nobody's
	count int       // of those that began, for their names
}

// A bred is the end of a booking for a spawn.
type bred struct {
	s   *spawning
	p   job.Plan
	err error
}

// errEnding is the answer to a spawn, and to all fences, when the job is at its end.
var errEnding = errors.New("the job is ending")

// spawn takes a request of a rank.
func (f *fleet) spawn(n *node, m *wire.Spawn) {
	f.spawns.queue = append(f.spawns.queue, &spawning{from: n, m: m})
	f.recordSpawn(&m.Request, "> SPAWN "+m.Request.String())
}

// nextSpawn begins with the next request, if none is under way.
func (f *fleet) nextSpawn() {
	q := &f.spawns
	for q.now == nil && len(q.queue) > 0 {
		s := q.queue[0]
		q.queue = q.queue[1:]
		if err := f.begin(s); err != nil {
			f.refuse(s, err)
		}
	}
}

// begin has a place looked for.
func (f *fleet) begin(s *spawning) error {
	s.parent, s.rank = f.groupNamed(s.m.Request.Group), -1
	if s.parent == nil {
		return fmt.Errorf("there is no group %s", s.m.Request.Group)
	}
	s.rank = s.parent.first + s.m.Request.Rank
	n, _, app := f.rankPlan(s.rank)
	if n == nil || !f.state.Open(s.rank) {
		return errEnding
	}
	req, wishes, err := offspring(f.req, app, s.m.Request, f.env.Find)
	if err != nil {
		return err
	}
	f.spawns.count++
	f.spawns.now = s
	s.wishes = wishes
	s.name, s.first = fmt.Sprintf("%s_%d", f.req.Job, f.spawns.count), f.size
	s.over = make(chan struct{})
	f.branch(s, req)
	ctx, stop := context.WithTimeoutCause(context.Background(), startLimit(req), lateError(req))
	s.stop = stop
	go func() {
		defer close(s.over)
		p, err := s.b.graft(ctx, s)
		if err != nil {
			s.b.wither()
		}
		f.events.put(bred{s, p, err})
	}()
	return nil
}

// branch makes the booking of a spawn, with shadows of the job's nodes.
func (f *fleet) branch(s *spawning, req job.Request) {
	env := f.env
	env.Seen, env.Again, env.In, env.Progress = nil, nil, nil, nil
	b := newBooking(req, env, newBox())
	b.fleet.events = f.events // where what new nodes say is looked for first
	b.fleet.feed, b.fleet.pids, b.fleet.account, b.fleet.graft = f.feed, f.pids, f.account, s
	b.own, b.mustered = make(map[*node]job.Use), true
	s.shadows, s.real = make(map[*node]*node), make(map[*node]*node)
	for _, n := range f.nodes {
		if n.lost != nil {
			continue
		}
		shadow := &node{def: n.def, index: -1, rw: n.rw, conn: n.conn, probe: n.probe}
		s.shadows[n], s.real[shadow] = shadow, n
		b.own[shadow] = f.own(n)
		b.fleet.all = append(b.fleet.all, shadow)
	}
	b.shape = func(snap job.Snapshot) { narrow(&b.req, s.wishes, snap) }
	s.b = b
}

// own is what the job has of a node.
func (f *fleet) own(n *node) (u job.Use) {
	for _, g := range f.groups {
		i := slices.Index(g.nodes, n)
		if i < 0 || g.alive[n] == 0 {
			continue
		}
		for _, r := range g.plan.Nodes[i].Ranks {
			u.Procs++
			u.Own++
			if len(r.Held) > 0 {
				u.Seated++
			}
			u.Busy = append(u.Busy, r.Held...)
			u.BusyGPUs = append(u.BusyGPUs, gpu.Addresses(r.GPUs)...)
		}
	}
	return u
}

// hear passes on what is meant for the booking that is under way.
func (q *spawns) hear(n *node, event any) {
	if q.now == nil {
		return
	}
	from := q.now.shadows[n]
	if from == nil {
		from = n // it is new
	}
	switch e := event.(type) {
	case said:
		if group, is := groupMeant(e.m); is && group != q.now.name {
			return // a late answer to another one
		}
		q.now.b.events.put(said{from, e.m})
	case ended:
		q.now.b.events.put(ended{from, e.err})
	}
}

// groupMeant is the group that an answer to Prepare is about.
func groupMeant(m wire.Message) (name string, is bool) {
	switch m := m.(type) {
	case *wire.Prepared:
		return m.Group, true
	case *wire.Refused:
		return m.Group, true
	case *wire.Taken:
		return m.Group, true
	}
	return "", false
}

// graft finds the ranks of a spawn their place.
func (b *booking) graft(ctx context.Context, s *spawning) (job.Plan, error) {
	b.req.Skip = true
	if named := b.untried(s.named); len(named) > 0 {
		b.reach(ctx, named)
		if failed := b.failures(); len(failed) > 0 {
			return job.Plan{}, &HostsError{failed, false}
		}
	}
	p, err := b.settle(ctx)
	if more := b.untried(func(job.NodeDef) bool { return true }); narrowPlace(err) && len(more) > 0 {
		b.reach(ctx, more)
		p, err = b.settle(ctx)
	}
	for narrowPlace(err) && lower(b.req.Apps, s.wishes) {
		p, err = b.settle(ctx)
	}
	return p, err
}

// narrowPlace reports whether a plan failed for want of room.
func narrowPlace(err error) bool {
	var failed *plan.Error
	return errors.As(err, &failed) && slices.Contains([]string{plan.NotEnough, plan.NoNodes, plan.NoGPU, plan.Limits}, failed.Code)
}

// named reports whether a spawn names a host.
func (s *spawning) named(def job.NodeDef) bool {
	return slices.ContainsFunc(s.wishes, func(w wish) bool { return slices.Contains(w.hosts, def.Name) })
}

// untried are the candidates that nobody has tried to reach yet, and that are wanted.
func (b *booking) untried(wanted func(job.NodeDef) bool) (defs []job.NodeDef) {
	for _, def := range b.req.Nodes {
		_, tried := b.errs[def.Name]
		if !tried && !b.has(def) && plan.Worth(b.req, def) && wanted(def) {
			defs = append(defs, def)
		}
	}
	return defs
}

// wither lets the nodes go that were reached for a spawn, which is not to be.
func (b *booking) wither() {
	for _, n := range b.fleet.nodes {
		n.conn.Send(&wire.Release{Group: b.fleet.groupName()})
	}
	b.fleet.nodes = nil
	b.dismissNew(nil)
}

// dismissNew sends the helpers home that a spawn has reached, but for those it keeps.
func (b *booking) dismissNew(kept []*node) {
	for _, n := range b.fleet.all {
		if _, shadow := b.own[n]; !shadow && !slices.Contains(kept, n) {
			n.conn.Send(&wire.Bye{})
			go n.conn.Close()
		}
	}
	b.fleet.all = nil
}

// bred takes in what a booking has found a place for, and lets it go.
func (f *fleet) bred(e bred) []any {
	s := e.s
	f.spawns.now = nil
	s.stop()
	f.connects = append(f.connects, s.b.fleet.connects...)
	if e.err != nil {
		f.refuse(s, e.err)
		return nil
	}
	err := errEnding
	if f.state.Open(s.rank) {
		err = f.widen(len(f.groups), s.first, e.p, s.b.req)
	}
	if err != nil {
		s.b.wither()
		f.refuse(s, err)
		return nil
	}
	grown := Grown{Nodes: make([]int, e.p.Size)}
	nodes := f.adopt(s, &grown)
	for i, n := range nodes {
		for _, r := range e.p.Nodes[i].Ranks {
			grown.Nodes[r.Rank] = n.index
		}
		f.env.Log.Info().Str("node", n.def.Name).Str("group", s.name).Msg("spawned " + ranks(numbers(e.p.Nodes[i].Ranks)))
	}
	g := f.found(s.name, e.p, s.b.req.Apps, nodes)
	g.waits = s
	f.let(g, s.b.fleet.meet)
	return []any{grown}
}

// adopt returns the nodes of a spawn: those of the job for their shadows, and new ones,
// which the job has from now on.
func (f *fleet) adopt(s *spawning, grown *Grown) (nodes []*node) {
	for _, n := range s.b.fleet.nodes {
		if own := s.real[n]; own != nil {
			n = own
		} else {
			n.index = len(f.nodes)
			f.nodes, f.all = append(f.nodes, n), append(f.all, n)
			grown.NewNodes = append(grown.NewNodes, n.def.Name)
		}
		nodes = append(nodes, n)
	}
	s.b.dismissNew(nodes)
	return nodes
}

// tellSpawned tells the rank that asked for a group that it runs.
func (f *fleet) tellSpawned(g *group) {
	s := g.waits
	g.waits = nil
	f.recordSpawn(&s.m.Request, "< STARTED")
	s.from.conn.Send(&wire.Spawned{ID: s.m.ID, Group: g.name, Codes: codes(s.m.Request, g.apps)})
}

// refuse tells the rank that asked why nothing was started; and the user, since MPI tells
// no reasons.
func (f *fleet) refuse(s *spawning, err error) {
	if err != errEnding {
		f.env.Say(fmt.Sprintf("%s: spawn %s: %s", f.state.who(s.rank), s.m.Request, inOneLine(err)))
	}
	f.recordSpawn(&s.m.Request, "< FAILED "+reasonOf(err))
	s.from.conn.Send(&wire.Spawned{ID: s.m.ID, Err: reasonOf(err)})
}

// inOneLine is an error with what is to be done about it, or, of a plan, why it failed.
func inOneLine(err error) string {
	text := err.Error()
	var failed *plan.Error
	var h interface{ Hint() string }
	switch {
	case errors.As(err, &failed):
		for _, line := range plan.Folded(failed.Rejected) {
			text += "; " + line
		}
	case errors.As(err, &h) && h.Hint() != "":
		text += "; " + h.Hint()
	}
	return text
}

// stopSpawning gives up what is under way.
func (f *fleet) stopSpawning() {
	f.spawns.queue = nil
	if s := f.spawns.now; s != nil {
		s.stop()
	}
}

// endSpawning waits until what is under way has been given up.
func (f *fleet) endSpawning() {
	f.stopSpawning()
	if s := f.spawns.now; s != nil {
		<-s.over
		s.b.wither()
	}
}

// onto adds to what a node has to know that it is about a spawned group.
func (s *spawning) onto(m *wire.Prepare) {
	if s == nil {
		return
	}
	m.Group, m.First, m.Parent, m.Preputs = s.name, s.first, s.parent.name, s.m.Request.Preputs
	m.Alone = m.Alone && len(s.shadows) == 1 && s.shadows[s.from] == s.b.fleet.nodes[0]
	m.Claim.Size += s.first
	m.Claim.Nodes = s.nodes()
	m.PTY = nil // --pty speaks of the ranks of the command line
}

// nodes is how many the job has with those of the spawn.
func (s *spawning) nodes() int {
	count := len(s.shadows)
	for _, n := range s.b.fleet.nodes {
		if s.real[n] == nil {
			count++
		}
	}
	return count
}

// host are the nodes of the job that a spawn belongs to.
func (s *spawning) host() (nodes []*node) {
	if s != nil {
		for n := range s.shadows {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// groupName names the group that a fleet prepares.
func (f *fleet) groupName() string {
	if f.graft != nil {
		return f.graft.name
	}
	return string(f.plan.Job)
}
