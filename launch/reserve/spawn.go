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

// A SpawnRequest is what a rank of a job that runs asks for (MPI_Comm_spawn).
type SpawnRequest struct {
	Request   spawn.Request
	ParentApp job.App    // the section of the rank that asks
	FromNode  *node.Node // where it runs
	Group     string     // name of the group that is to be
	Number    int        // of the group in the job
	FirstRank int        // number of its rank 0 in the job
	Baseline  Baseline   // of the job
	OwnNodes  []OwnNode
}

// OwnNode is a node that the job has already.
type OwnNode struct {
	Node
	Occupancy  job.Occupancy // what the job has of it
	TotalRanks int           // ranks of the job that have ever been there
}

// A spawnGroup is what a spawn that is being given its place wants.
type spawnGroup struct {
	SpawnRequest
	constraints info.Constraints
}

// ReserveSpawn finds the ranks of a spawn their place, beside the job that runs, and never waits
// for one. The gate of the queue is not asked for: a running job does not wait behind others,
// and claims are exclusive without it. The reservation is never nil.
func ReserveSpawn(ctx context.Context, req job.Request, env Env, s SpawnRequest) (*Reservation, error) {
	r := newSpawnReservation(req, env, s)
	timed, done := r.withinLimit(ctx, startTimeoutError(req))
	defer done()
	err := r.placeSpawn(timed)
	startBy := env.StopTimes.Deadline(r.limit.Left())
	if err == nil {
		_, err = r.stageFiles(ctx, startBy)
	}
	if err != nil {
		r.abandonSpawn()
		return r.newResult(startBy), err
	}
	r.dismissNew()
	return r.newResult(startBy), nil
}

// newSpawnReservation makes the reservation, with the nodes that the job has.
func newSpawnReservation(req job.Request, env Env, s SpawnRequest) *reservation {
	r := newReservation(req, env)
	r.spawnGroup, r.connected = &spawnGroup{SpawnRequest: s}, true
	for _, n := range s.OwnNodes {
		r.addHost(&host{Node: n.Node.Node, def: *n.Def, probe: *n.Probe, ofJob: true, ownOccupancy: n.Occupancy, earlierRanks: n.TotalRanks, staged: true})
	}
	return r
}

// ownHosts are the nodes that the job has already.
func (r *reservation) ownHosts() []*host {
	return slices.DeleteFunc(slices.Clone(r.hosts), func(n *host) bool { return !n.ofJob })
}

// placeSpawn finds the ranks of a spawn their place: on the job's own nodes if that can be,
// else on more; with fewer ranks if that will do; else where they share CPUs.
func (r *reservation) placeSpawn(ctx context.Context) error {
	s := r.spawnGroup
	var err error
	if r.req, s.constraints, err = info.MakeRequest(r.req, s.ParentApp, s.Request, r.hostPolicy()); err != nil {
		return err
	}
	if err := s.constraints.BoundSoft(r.req.Apps, r.maxSpawnRanks()); err != nil {
		return err
	}
	r.req.SkipUnreachable, r.req.FreeCPUsFirst = true, true
	if err := r.connectNamed(ctx); err != nil {
		return err
	}
	if s.constraints.UsesAllHosts(r.req) {
		more := r.untriedCandidates(func(job.NodeDef) bool { return true })
		r.connectAll(ctx, more[:min(len(more), s.Request.Size())], nil)
	}
	_, err = r.planAndClaim(ctx)
	if more := r.untriedCandidates(func(job.NodeDef) bool { return true }); LacksCapacity(err) && len(more) > 0 {
		r.connectAll(ctx, more, nil)
		_, err = r.planAndClaim(ctx)
	}
	welcome := r.req.Oversubscribe && !r.req.NoOversubscribe // all of the ranks share, rather than fewer run
	for LacksCapacity(err) && !welcome && s.constraints.LowerCounts(r.req.Apps, capacityFrom(err)) {
		_, err = r.planAndClaim(ctx)
	}
	if lost := r.namedFailures(); LacksCapacity(err) && len(lost) > 0 {
		return &HostsError{lost, false}
	}
	if LacksCapacity(err) && !r.req.NoOversubscribe {
		r.req.FreeCPUsFirst, r.req.ShareOwnCPUs = false, !welcome
		_, err = r.planAndClaim(ctx)
	}
	return err
}

// connectNamed connects to the hosts that a spawn names.
func (r *reservation) connectNamed(ctx context.Context) error {
	named := r.untriedCandidates(r.spawnGroup.constraints.NamesHost)
	if len(named) == 0 {
		return nil
	}
	r.connectAll(ctx, named, nil)
	if failed := r.connectFailures(); len(failed) > 0 {
		return &HostsError{failed, false}
	}
	return r.disguisedLocalError()
}

// LacksCapacity reports whether a plan failed for want of room.
func LacksCapacity(err error) bool {
	var failed *plan.Error
	return errors.As(err, &failed) && slices.Contains([]string{plan.CodeNotEnough, plan.CodeNoNodes, plan.CodeNoGPU, plan.CodeLimits}, failed.Code)
}

// namedFailures are the hosts that a spawn names and that cannot be used.
func (r *reservation) namedFailures() []job.Failure {
	return slices.DeleteFunc(r.connectFailures(), func(f job.Failure) bool { return !r.spawnGroup.constraints.NamesHost(job.NodeDef{Name: f.Node}) })
}

// capacityFrom is how many ranks would have found room.
func capacityFrom(err error) int {
	var failed *plan.Error
	errors.As(err, &failed)
	return failed.FreeRanks
}

// untriedCandidates are the candidates that nobody has tried to reach yet, and that are wanted.
func (r *reservation) untriedCandidates(wanted func(job.NodeDef) bool) (defs []job.NodeDef) {
	worthy := plan.ProbeFilter(r.req)
	for _, def := range r.req.Nodes {
		_, tried := r.errs[def.Name]
		if !tried && !r.hasHost(def) && worthy(def) && wanted(def) {
			defs = append(defs, def)
		}
	}
	return defs
}

// abandonSpawn gives back what was claimed for a spawn which is not to be, and lets the nodes go
// that were reached for it.
func (r *reservation) abandonSpawn() {
	r.cancelClaims()
	r.dismissNew()
}

// Abandon gives up a place for a spawn that nobody wants any more.
func (r *Reservation) Abandon() { r.r.abandonSpawn() }

// dismissNew sends the helpers home that a spawn has reached and does not need.
func (r *reservation) dismissNew() {
	for _, n := range r.hosts {
		if !n.ofJob && !slices.Contains(r.planHosts, n) {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keepHosts(func(n *host) bool { return n.ofJob || slices.Contains(r.planHosts, n) })
}

// applyTo adds to what a node has to know that it is about a spawned group.
func (s *spawnGroup) applyTo(m *wire.Prepare, chosen []*host) {
	m.Group.Name, m.Group.Number, m.Group.First, m.PMI.Preputs = s.Group, s.Number, s.FirstRank, s.Request.Preputs
	m.Group.Parent, m.Group.ParentRank, m.Group.PMIx = s.Request.Group, s.Request.Rank, s.Request.PMIx
	m.Node.OnlyNode = m.Node.OnlyNode && len(s.OwnNodes) == 1 && chosen[0].Node == s.FromNode
	m.Claim.Entry.Size += s.FirstRank
	m.Claim.Entry.Nodes = len(s.OwnNodes)
	for _, n := range chosen {
		if !n.ofJob {
			m.Claim.Entry.Nodes++
		}
	}
	m.Streams.PTY = nil // --pty speaks of the ranks of the command line
}

// groupName names the group that is to be.
func (r *reservation) groupName() string {
	if r.spawnGroup != nil {
		return r.spawnGroup.Group
	}
	return string(r.plan.Job)
}

// hostPolicy knows the hosts to which the job may spawn.
func (r *reservation) hostPolicy() *info.HostPolicy {
	g := &info.HostPolicy{FindHosts: r.env.FindHosts, Allowed: r.req.SpawnHosts, Candidates: r.req.Nodes}
	for _, n := range r.hosts {
		g.Hosts = append(g.Hosts, info.KnownHost{Def: n.def, Hostname: n.probe.Hostname})
	}
	return g
}

// disguisedLocalError finds that a host which no option named is the launching machine by another
// name (an alias of SSH, an address).
func (r *reservation) disguisedLocalError() error {
	local := func(def job.NodeDef) bool { return def.Local }
	if !r.req.SpawnHosts.Any || r.env.Localhost == nil || slices.ContainsFunc(r.req.Nodes, local) {
		return nil
	}
	wanted := &info.HostPolicy{Allowed: r.req.SpawnHosts}
	here := ""
	for _, n := range r.hosts {
		if n.ofJob || n.def.Local || slices.ContainsFunc(r.req.SpawnHosts.List, n.def.IsSameNode) {
			continue
		}
		if here == "" {
			here = r.env.Localhost()
		}
		if n.probe.Identity == here {
			return wanted.NotAllowedError([]job.NodeDef{n.def})
		}
	}
	return nil
}

// maxShare is by how much spawned ranks may outnumber slots, and leastShared how many there
// may be in any case (TRUST-12).
const (
	maxShare  = 16
	minShared = 4096
)

// maxSpawnRanks is how many ranks a spawn may have on its candidates at all. A host that nobody
// has looked at may be as large as it takes.
func (r *reservation) maxSpawnRanks() int {
	seen := make(map[string]*host, len(r.hosts))
	for _, n := range r.hosts {
		seen[n.def.Name] = n
	}
	slots := 0
	for _, def := range r.req.Nodes {
		switch n := seen[def.Name]; {
		case n != nil:
			slots += n.slotCount()
		case def.Slots > 0:
			slots += def.Slots
		default:
			return info.MaxRanks
		}
	}
	if !r.req.NoOversubscribe {
		slots = max(maxShare*slots, minShared)
	}
	return min(slots, info.MaxRanks)
}
