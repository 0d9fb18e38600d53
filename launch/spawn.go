package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/plan"
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

One spawn at a time is given its place, on a goroutine of its own with a booking of its
own, so that the job is supervised meanwhile: whatever takes time, be it a plan, a
connection or a file, is done there, and given up when the job ends. That booking sees
shadows of the job's nodes, which share the connections: what they answer to it,
supervision passes on. The gate of the queue is not asked for: a running job does not wait
behind others, and claims are exclusive without it.

Who may ask for how much, and where it may go, is said by TRUST-9 to TRUST-12.
*/
type spawning struct {
	from   *node // whose rank asks
	m      *wire.Spawn
	parent *group // of that rank; nil: there is no such group
	rank   int    // that asks, in the job
	wishes []wish

	name    string // of the group that is to be
	first   int    // its first rank
	who     func(job.Plan) []stdio.Rank
	b       *booking
	shadows map[*node]*node // of the job's nodes
	real    map[*node]*node // of each shadow
	stop    context.CancelFunc
	over    chan struct{} // closed when the booking is
}

// spawns are those that have been asked for.
type spawns struct {
	queue   []*spawning
	now     *spawning // whose place is being looked for; nil: nobody's
	count   int       // of those that began, for their names
	refused int       // of those that were, as far as the user has been told
	crowded bool      // he was told that ranks share CPUs
}

// Bounds of TRUST-12.
const (
	mostWaiting  = 64      // spawns in turn
	mostSpawned  = 1 << 20 // ranks of one
	mostRefusals = 100     // told to the user
)

// A bred is the end of a booking for a spawn.
type bred struct {
	s     *spawning
	p     job.Plan
	grown *stdio.Growth // nil with an error
	err   error
}

// errEnding is the answer to a spawn, and to all fences, when the job is at its end.
var errEnding = errors.New("the job is ending")

// A notDone is a spawn that a rule of TRUST-9 or TRUST-10 forbids. The text goes on where
// the rank that asks was named.
type notDone struct{ text string }

func (e *notDone) Error() string { return e.text }

// spawn takes a request of a rank.
func (f *fleet) spawn(n *node, m *wire.Spawn) {
	s := &spawning{from: n, m: m, rank: -1}
	f.recordSpawn(&m.Request, "> SPAWN "+m.Request.String())
	if s.parent = f.groupNamed(m.Request.Group); s.parent != nil { // the gate has seen that it is the node's own rank
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
		return &notDone{fmt.Sprintf("wants to spawn; not done (%s)", f.req.Spawn.Text)}
	case len(s.parent.nodes) > 1 && !s.parent.fenced: // a node alone could say so of them all
		return &notDone{"wants to spawn before the group's first barrier; not done"}
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
	for q.now == nil && len(q.queue) > 0 {
		s := q.queue[0]
		q.queue = q.queue[1:]
		if !f.state.Open(s.rank) {
			f.refuse(s, errEnding)
			continue
		}
		f.begin(s)
	}
}

// begin has a place looked for.
func (f *fleet) begin(s *spawning) {
	f.spawns.count++
	f.spawns.now = s
	s.name, s.first = fmt.Sprintf("%s_%d", f.req.Job, f.spawns.count), f.size
	s.over = make(chan struct{})
	group, began := len(f.firsts), f.state.Began()
	s.who = func(p job.Plan) []stdio.Rank { return stdio.Everybody(p, group, s.first, began) }
	f.branch(s)
	_, _, app := f.rankPlan(s.rank)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.over)
		done := bred{s: s}
		startBy := time.Now().Add(startLimit(f.req))
		timed, late := context.WithDeadlineCause(ctx, startBy, lateError(f.req))
		defer late()
		done.p, done.err = s.b.graft(timed, s, app)
		if done.err == nil {
			_, done.err = s.b.stage(ctx, startBy)
		}
		if done.err == nil {
			done.grown, done.err = f.streams.Prepare(s.b.req.Streams, s.who(done.p))
		}
		if done.err != nil {
			s.b.wither()
		}
		f.events.put(done)
	}()
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

// bred takes in what a booking has found a place for, and lets it go.
func (f *fleet) bred(e bred) []supervise.Event {
	s := e.s
	f.spawns.now = nil
	s.stop()
	f.connects = append(f.connects, s.b.fleet.connects...)
	err := e.err
	if err == nil && !f.state.Open(s.rank) {
		err = errEnding
		s.b.wither()
		e.grown.Close()
	}
	if err != nil {
		f.refuse(s, err)
		return nil
	}
	f.streams.Grow(e.grown)
	grown := supervise.Grown{Nodes: make([]int, e.p.Size)}
	nodes := f.adopt(s, &grown)
	for i, n := range nodes {
		for _, r := range e.p.Nodes[i].Ranks {
			grown.Nodes[r.Rank] = n.index
		}
		f.env.Log.Info().Str("node", n.def.Name).Str("group", s.name).Msg("spawned " + supervise.Ranks(numbers(e.p.Nodes[i].Ranks)))
	}
	f.tellCrowded(s, e.p)
	g := f.found(s.name, e.p, s.b.req.Apps, nodes)
	g.waits = s
	f.let(g, s.b.fleet.meet)
	return []supervise.Event{grown}
}

// adopt returns the nodes of a spawn: those of the job for their shadows, and new ones,
// which the job has from now on.
func (f *fleet) adopt(s *spawning, grown *supervise.Grown) (nodes []*node) {
	for _, n := range s.b.fleet.nodes {
		if own := s.real[n]; own != nil {
			n = own
		} else {
			n.index = len(f.nodes)
			f.nodes, f.all = append(f.nodes, n), append(f.all, n)
			grown.NewNodes = append(grown.NewNodes, n.def.Name)
			f.welcome(s, n.def)
		}
		nodes = append(nodes, n)
	}
	s.b.dismissNew(nodes)
	return nodes
}

// welcome makes a host a candidate that was none, and says so.
func (f *fleet) welcome(s *spawning, def job.NodeDef) {
	if slices.ContainsFunc(f.req.Nodes, def.Same) {
		return
	}
	addCandidate(&f.req, def)
	f.env.Say(fmt.Sprintf("%s joins the job, as %s asks (%s)", def.Name, f.state.Who(s.rank), f.req.Spawn.Text))
}

// tellCrowded says, once, that spawned ranks share CPUs: those of their own job, or, where no
// count of slots was given for this machine alone, all of it.
func (f *fleet) tellCrowded(s *spawning, p job.Plan) {
	whose := "the job"
	switch {
	case f.spawns.crowded:
		return
	case s.b.req.Home && p.Overbooked:
		whose = "this machine"
	case !s.b.req.Crowd:
		return
	}
	f.spawns.crowded = true
	f.env.Say(f.state.Who(s.rank) + " spawns ranks that find no free CPU; they share those of " + whose + " (--nooversubscribe refuses that)")
}

// tellSpawned tells the rank that asked for a group that it runs.
func (f *fleet) tellSpawned(g *group) {
	s := g.waits
	g.waits = nil
	f.recordSpawn(&s.m.Request, "< STARTED")
	s.from.send(&wire.Spawned{ID: s.m.ID, Group: g.name, Codes: codes(s.m.Request, g.apps)})
}

// refuse tells the rank that asked why nothing was started; and the user, since MPI tells
// no reasons.
func (f *fleet) refuse(s *spawning, err error) {
	if err != errEnding {
		f.tellRefused(s, err)
	}
	f.recordSpawn(&s.m.Request, "< FAILED "+reasonOf(err))
	s.from.send(&wire.Spawned{ID: s.m.ID, Err: reasonOf(err)})
}

// tellRefused tells the user, --quiet or not: what his program wanted is not done. A node
// may ask without end, and what it asks for may be as long as a frame.
func (f *fleet) tellRefused(s *spawning, err error) {
	text := fmt.Sprintf("%s: spawn %s: %s", f.state.Who(s.rank), s.m.Request, inOneLine(err))
	var no *notDone
	if errors.As(err, &no) {
		text = f.state.Who(s.rank) + " " + no.text
	}
	switch f.spawns.refused++; {
	case f.spawns.refused > mostRefusals:
		return
	case f.spawns.refused == mostRefusals:
		text = "further spawns that are refused are not told"
	}
	fmt.Fprintf(f.env.Err, "mpiexec: %s\n", show.Clean(text))
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

// endSpawning gives what is under way a moment to be given up. A look-up that never ends,
// or a plan, is not waited for: it ends with this process.
func (f *fleet) endSpawning() {
	f.stopSpawning()
	s := f.spawns.now
	if s == nil {
		return
	}
	select {
	case <-s.over:
		s.b.wither()
	case <-time.After(time.Second):
	}
}
