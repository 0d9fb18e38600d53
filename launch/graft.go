package launch

import (
	"context"
	"errors"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// This file is the booking of a spawn: what is done beside the job that runs.

// branch makes the booking, with shadows of the job's nodes.
func (f *fleet) branch(s *spawning) {
	env := f.env
	env.Seen, env.Again, env.In, env.Progress = nil, nil, nil, nil
	b := newBooking(f.req, env, newBox())
	b.fleet.events = f.events // where what new nodes say is looked for first
	b.fleet.streams, b.fleet.account, b.fleet.graft = f.streams, f.account, s
	b.own, b.mustered = make(map[*node]job.Use), true
	s.shadows, s.real = make(map[*node]*node), make(map[*node]*node)
	own := f.own()
	for _, n := range f.nodes {
		if n.lost != nil {
			continue
		}
		shadow := &node{name: n.name, def: n.def, index: -1, rw: n.rw, conn: n.conn, gate: n.gate, probe: n.probe, staged: n.staged, identity: n.identity}
		s.shadows[n], s.real[shadow] = shadow, n
		b.own[shadow] = own[n]
		b.fleet.all = append(b.fleet.all, shadow)
	}
	b.shape = func(snap job.Snapshot) { narrow(&b.req, s.wishes, snap) }
	s.b = b
}

// own is what the job has of each node.
func (f *fleet) own() map[*node]job.Use {
	own := make(map[*node]job.Use, len(f.nodes))
	for _, g := range f.groups {
		for i, n := range g.nodes {
			if g.alive[n] == 0 {
				continue
			}
			u := own[n]
			for _, r := range g.plan.Nodes[i].Ranks {
				u.Procs++
				u.Own++
				if len(r.Held) > 0 {
					u.Seated++
				}
				u.Busy = append(u.Busy, r.Held...)
				u.BusyGPUs = append(u.BusyGPUs, gpu.Addresses(r.GPUs)...)
			}
			own[n] = u
		}
	}
	return own
}

// graft finds the ranks of a spawn their place: on the job's own nodes if that can be, else
// on more; with fewer ranks if that will do; else where they share CPUs.
func (b *booking) graft(ctx context.Context, s *spawning, app job.App) (job.Plan, error) {
	var err error
	if b.req, s.wishes, err = offspring(b.req, app, s.m.Request, b.guide()); err != nil {
		return job.Plan{}, err
	}
	if err := b.tooLarge(s.wishes); err != nil {
		return job.Plan{}, err
	}
	b.req.Skip = true
	if err := b.reachNamed(ctx, s); err != nil {
		return job.Plan{}, err
	}
	p, err := b.settle(ctx)
	if more := b.untried(func(job.NodeDef) bool { return true }); narrowPlace(err) && len(more) > 0 {
		b.reach(ctx, more, len(more))
		p, err = b.settle(ctx)
	}
	for narrowPlace(err) && lower(b.req.Apps, s.wishes, roomIn(err)) {
		p, err = b.settle(ctx)
	}
	if lost := b.namedFailures(s); narrowPlace(err) && len(lost) > 0 {
		return p, &HostsError{lost, false}
	}
	if narrowPlace(err) && !b.req.Forbid {
		b.req.Crowd = true
		p, err = b.settle(ctx)
	}
	return p, err
}

// reachNamed connects to the hosts that a spawn names.
func (b *booking) reachNamed(ctx context.Context, s *spawning) error {
	named := b.untried(s.named)
	if len(named) == 0 {
		return nil
	}
	b.reach(ctx, named, len(named))
	if failed := b.failures(); len(failed) > 0 {
		return &HostsError{failed, false}
	}
	return b.disguised()
}

// narrowPlace reports whether a plan failed for want of room.
func narrowPlace(err error) bool {
	var failed *plan.Error
	return errors.As(err, &failed) && slices.Contains([]string{plan.NotEnough, plan.NoNodes, plan.NoGPU, plan.Limits}, failed.Code)
}

// namedFailures are the hosts that a spawn names and that cannot be used.
func (b *booking) namedFailures(s *spawning) []job.Failure {
	return slices.DeleteFunc(b.failures(), func(f job.Failure) bool { return !s.named(job.NodeDef{Name: f.Node}) })
}

// roomIn is how many ranks would have found room.
func roomIn(err error) int {
	var failed *plan.Error
	errors.As(err, &failed)
	return failed.Free
}

// named reports whether a spawn names a host.
func (s *spawning) named(def job.NodeDef) bool {
	return slices.ContainsFunc(s.wishes, func(w wish) bool { return slices.Contains(w.hosts, def.Name) })
}

// untried are the candidates that nobody has tried to reach yet, and that are wanted.
func (b *booking) untried(wanted func(job.NodeDef) bool) (defs []job.NodeDef) {
	connected := b.byName()
	for _, def := range b.req.Nodes {
		_, tried := b.errs[def.Name]
		if !tried && connected[def.Name] == nil && plan.Worth(b.req, def) && wanted(def) {
			defs = append(defs, def)
		}
	}
	return defs
}

// wither lets the nodes go that were reached for a spawn, which is not to be.
func (b *booking) wither() {
	for _, n := range b.fleet.nodes {
		n.send(&wire.Release{Group: b.fleet.groupName()})
	}
	b.fleet.nodes = nil
	b.dismissNew(nil)
}

// dismissNew sends the helpers home that a spawn has reached, but for those it keeps.
func (b *booking) dismissNew(kept []*node) {
	for _, n := range b.fleet.all {
		if _, shadow := b.own[n]; !shadow && !slices.Contains(kept, n) {
			n.send(&wire.Bye{})
			go n.conn.Close()
		}
	}
	b.fleet.all = nil
}

// onto adds to what a node has to know that it is about a spawned group.
func (s *spawning) onto(m *wire.Prepare) {
	if s == nil {
		return
	}
	m.Group.Name, m.Group.First, m.Group.Parent, m.PMI.Preputs = s.name, s.first, s.parent.name, s.m.Request.Preputs
	m.Node.Alone = m.Node.Alone && len(s.shadows) == 1 && s.shadows[s.from] == s.b.fleet.nodes[0]
	m.Claim.Entry.Size += s.first
	m.Claim.Entry.Nodes = s.nodes()
	m.Streams.PTY = nil // --pty speaks of the ranks of the command line
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
