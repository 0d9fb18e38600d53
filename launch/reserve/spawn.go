package reserve

import (
	"context"
	"errors"
	"slices"

	"remshell/job"
	"remshell/launch/info"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// A Spawn is what a rank of a job that runs asks for (MPI_Comm_spawn).
type Spawn struct {
	Request spawn.Request
	App     job.App    // the section of the rank that asks
	From    *node.Node // where it runs
	Group   string     // name of the group that is to be
	Number  int        // of the group in the job
	First   int        // number of its rank 0 in the job
	Outset  Outset     // of the job
	Own     []Own
}

// Own is a node that the job has already.
type Own struct {
	Node
	Use job.Use // what the job has of it
	Had int     // ranks of the job that have ever been there
}

// A wantedGroup is what a spawn that is being given its place wants.
type wantedGroup struct {
	Spawn
	wishes info.Wishes
}

// ForSpawn finds the ranks of a spawn their place, beside the job that runs, and never waits
// for one. The gate of the queue is not asked for: a running job does not wait behind others,
// and claims are exclusive without it. The reservation is never nil.
func ForSpawn(ctx context.Context, req job.Request, env Env, s Spawn) (*Reservation, error) {
	r := newSpawn(req, env, s)
	timed, done := r.within(ctx, lateError(req))
	defer done()
	err := r.placeSpawn(timed)
	startBy := env.Pauses.Due(r.limit.Left())
	if err == nil {
		_, err = r.stage(ctx, startBy)
	}
	if err != nil {
		r.abandon()
		return r.result(startBy), err
	}
	r.dismissNew()
	return r.result(startBy), nil
}

// newSpawn makes the reservation, with the nodes that the job has.
func newSpawn(req job.Request, env Env, s Spawn) *reservation {
	r := newReservation(req, env)
	r.spawn, r.connected = &wantedGroup{Spawn: s}, true
	for _, n := range s.Own {
		r.add(&host{Node: n.Node.Node, def: *n.Def, probe: *n.Probe, own: true, held: n.Use, earlier: n.Had, staged: true})
	}
	return r
}

// ownHosts are the nodes that the job has already.
func (r *reservation) ownHosts() []*host {
	return slices.DeleteFunc(slices.Clone(r.hosts), func(n *host) bool { return !n.own })
}

// placeSpawn finds the ranks of a spawn their place: on the job's own nodes if that can be,
// else on more; with fewer ranks if that will do; else where they share CPUs.
func (r *reservation) placeSpawn(ctx context.Context) error {
	s := r.spawn
	var err error
	if r.req, s.wishes, err = info.Read(r.req, s.App, s.Request, r.guide()); err != nil {
		return err
	}
	if err := s.wishes.Bound(r.req.Apps, r.largest()); err != nil {
		return err
	}
	r.req.Skip, r.req.FreeFirst = true, true
	if err := r.connectNamed(ctx); err != nil {
		return err
	}
	if s.wishes.Spread(r.req) {
		more := r.untried(func(job.NodeDef) bool { return true })
		r.connectAll(ctx, more[:min(len(more), s.Request.Size())], nil)
	}
	_, err = r.planAndClaim(ctx)
	if more := r.untried(func(job.NodeDef) bool { return true }); LacksRoom(err) && len(more) > 0 {
		r.connectAll(ctx, more, nil)
		_, err = r.planAndClaim(ctx)
	}
	welcome := r.req.Oversubscribe && !r.req.Forbid // all of the ranks share, rather than fewer run
	for LacksRoom(err) && !welcome && s.wishes.TryFewer(r.req.Apps, roomIn(err)) {
		_, err = r.planAndClaim(ctx)
	}
	if lost := r.namedFailures(); LacksRoom(err) && len(lost) > 0 {
		return &HostsError{lost, false}
	}
	if LacksRoom(err) && !r.req.Forbid {
		r.req.FreeFirst, r.req.Crowd = false, !welcome
		_, err = r.planAndClaim(ctx)
	}
	return err
}

// connectNamed connects to the hosts that a spawn names.
func (r *reservation) connectNamed(ctx context.Context) error {
	named := r.untried(r.spawn.wishes.Name)
	if len(named) == 0 {
		return nil
	}
	r.connectAll(ctx, named, nil)
	if failed := r.failures(); len(failed) > 0 {
		return &HostsError{failed, false}
	}
	return r.disguised()
}

// LacksRoom reports whether a plan failed for want of room.
func LacksRoom(err error) bool {
	var failed *plan.Error
	return errors.As(err, &failed) && slices.Contains([]string{plan.NotEnough, plan.NoNodes, plan.NoGPU, plan.Limits}, failed.Code)
}

// namedFailures are the hosts that a spawn names and that cannot be used.
func (r *reservation) namedFailures() []job.Failure {
	return slices.DeleteFunc(r.failures(), func(f job.Failure) bool { return !r.spawn.wishes.Name(job.NodeDef{Name: f.Node}) })
}

// roomIn is how many ranks would have found room.
func roomIn(err error) int {
	var failed *plan.Error
	errors.As(err, &failed)
	return failed.Free
}

// untried are the candidates that nobody has tried to reach yet, and that are wanted.
func (r *reservation) untried(wanted func(job.NodeDef) bool) (defs []job.NodeDef) {
	worthy := plan.Worthy(r.req)
	for _, def := range r.req.Nodes {
		_, tried := r.errs[def.Name]
		if !tried && !r.has(def) && worthy(def) && wanted(def) {
			defs = append(defs, def)
		}
	}
	return defs
}

// abandon gives back what was claimed for a spawn which is not to be, and lets the nodes go
// that were reached for it.
func (r *reservation) abandon() {
	r.giveBack()
	r.dismissNew()
}

// Abandon gives up a place for a spawn that nobody wants any more.
func (r *Reservation) Abandon() { r.r.abandon() }

// dismissNew sends the helpers home that a spawn has reached and does not need.
func (r *reservation) dismissNew() {
	for _, n := range r.hosts {
		if !n.own && !slices.Contains(r.chosen, n) {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keep(func(n *host) bool { return n.own || slices.Contains(r.chosen, n) })
}

// onto adds to what a node has to know that it is about a spawned group.
func (s *wantedGroup) onto(m *wire.Prepare, chosen []*host) {
	m.Group.Name, m.Group.Number, m.Group.First, m.PMI.Preputs = s.Group, s.Number, s.First, s.Request.Preputs
	m.Group.Parent, m.Group.Asker, m.Group.PMIx = s.Request.Group, s.Request.Rank, s.Request.PMIx
	m.Node.Alone = m.Node.Alone && len(s.Own) == 1 && chosen[0].Node == s.From
	m.Claim.Entry.Size += s.First
	m.Claim.Entry.Nodes = len(s.Own)
	for _, n := range chosen {
		if !n.own {
			m.Claim.Entry.Nodes++
		}
	}
	m.Streams.PTY = nil // --pty speaks of the ranks of the command line
}

// group names the group that is to be.
func (r *reservation) group() string {
	if r.spawn != nil {
		return r.spawn.Group
	}
	return string(r.plan.Job)
}

// guide knows the hosts to which the job may spawn.
func (r *reservation) guide() *info.Guide {
	g := &info.Guide{Find: r.env.Find, Allow: r.req.Spawn, All: r.req.Nodes}
	for _, n := range r.hosts {
		g.Seen = append(g.Seen, info.Seen{Def: n.def, Hostname: n.probe.Hostname})
	}
	return g
}

// disguised finds that a host which no option named is the launching machine by another
// name (an alias of SSH, an address).
func (r *reservation) disguised() error {
	local := func(def job.NodeDef) bool { return def.Local }
	if !r.req.Spawn.Any || r.env.Localhost == nil || slices.ContainsFunc(r.req.Nodes, local) {
		return nil
	}
	wanted := &info.Guide{Allow: r.req.Spawn}
	here := ""
	for _, n := range r.hosts {
		if n.own || n.def.Local || slices.ContainsFunc(r.req.Spawn.List, n.def.Same) {
			continue
		}
		if here == "" {
			here = r.env.Localhost()
		}
		if n.probe.Identity == here {
			return wanted.Refusal([]job.NodeDef{n.def})
		}
	}
	return nil
}

// share is by how much spawned ranks may outnumber slots, and leastShared how many there
// may be in any case (TRUST-12).
const (
	share       = 16
	leastShared = 4096
)

// largest is how many ranks a spawn may have on its candidates at all. A host that nobody
// has looked at may be as large as it takes.
func (r *reservation) largest() int {
	seen := make(map[string]*host, len(r.hosts))
	for _, n := range r.hosts {
		seen[n.def.Name] = n
	}
	slots := 0
	for _, def := range r.req.Nodes {
		switch n := seen[def.Name]; {
		case n != nil:
			slots += n.size()
		case def.Slots > 0:
			slots += def.Slots
		default:
			return info.MostRanks
		}
	}
	if !r.req.Forbid {
		slots = max(share*slots, leastShared)
	}
	return min(slots, info.MostRanks)
}
