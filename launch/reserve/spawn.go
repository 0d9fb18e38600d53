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

// A SpawnRequest is the request of a rank to spawn ranks (MPI_Comm_spawn).
type SpawnRequest struct {
	Request   spawn.Request
	ParentApp job.App    // the app context of the rank that spawns
	FromNode  *node.Node // the node of that rank
	Group     string     // name of the new group
	Number    int        // number of the new group in the job
	FirstRank int        // number of the group's rank 0 in the job
	Baseline  Baseline   // of the job
	OwnNodes  []OwnNode
}

// An OwnNode is a node that the job already uses.
type OwnNode struct {
	Node
	Occupancy  job.Occupancy // what the job uses of it
	TotalRanks int           // number of the job's ranks that have ever been placed there
}

// A spawnGroup contains the data of a reservation that is made for a spawn.
type spawnGroup struct {
	SpawnRequest
	constraints info.Constraints
}

// ReserveSpawn finds nodes for the ranks of a spawn while the job is running. It never waits in the queue, because a
// running job must not wait for others. It does not need the decision lock, because two jobs can never claim the same
// CPU. The Reservation is never nil.
func ReserveSpawn(ctx context.Context, req job.Request, env Env, s SpawnRequest) (*Reservation, error) {
	r := newSpawnReservation(req, env, s)
	timed, done := r.withinLimit(ctx, startTimeoutError(req))
	defer done()
	err := r.placeSpawn(timed)
	startBy := env.StopTimes.Deadline(r.limit.Left())
	if err == nil {
		_, err = r.prepareNodes(ctx, startBy)
	}
	if err != nil {
		r.abandonSpawn()
		return r.newResult(startBy), err
	}
	r.dismissNew()
	return r.newResult(startBy), nil
}

// newSpawnReservation returns a reservation that initially contains the nodes on which the job is running.
func newSpawnReservation(req job.Request, env Env, s SpawnRequest) *reservation {
	r := newReservation(req, env)
	r.spawnGroup, r.connected = &spawnGroup{SpawnRequest: s}, true
	for _, n := range s.OwnNodes {
		r.addHost(&host{Node: n.Node.Node, def: *n.Def, probe: *n.Probe, ofJob: true, ownOccupancy: n.Occupancy, earlierRanks: n.TotalRanks})
	}
	return r
}

// ownHosts returns the nodes that the job already uses.
func (r *reservation) ownHosts() []*host {
	return slices.DeleteFunc(slices.Clone(r.hosts), func(n *host) bool { return !n.ofJob })
}

// placeSpawn plans and claims nodes for the ranks of a spawn. It tries, in this order: the nodes of the job,
// more nodes, fewer ranks if the spawn allows that, and ranks that share CPUs.
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
	sharingPreferred := r.req.Oversubscribe && !r.req.NoOversubscribe // then all ranks share CPUs, rather than fewer ranks run
	for LacksCapacity(err) && !sharingPreferred && s.constraints.LowerCounts(r.req.Apps, capacityFrom(err)) {
		_, err = r.planAndClaim(ctx)
	}
	if lost := r.namedFailures(); LacksCapacity(err) && len(lost) > 0 {
		return &HostsError{lost, false}
	}
	if LacksCapacity(err) && !r.req.NoOversubscribe {
		r.req.FreeCPUsFirst, r.req.ShareOwnCPUs = false, !sharingPreferred
		_, err = r.planAndClaim(ctx)
	}
	return err
}

// connectNamed connects to the hosts that a spawn request names.
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

// LacksCapacity reports whether err says that no plan was made because the ranks do not fit.
func LacksCapacity(err error) bool {
	var failed *plan.Error
	return errors.As(err, &failed) && slices.Contains([]string{plan.CodeNotEnough, plan.CodeNoNodes, plan.CodeNoGPU, plan.CodeLimits}, failed.Code)
}

// namedFailures returns the hosts that the spawn request names and that cannot be used.
func (r *reservation) namedFailures() []job.Failure {
	return slices.DeleteFunc(r.connectFailures(), func(f job.Failure) bool { return !r.spawnGroup.constraints.NamesHost(job.NodeDef{Name: f.Node}) })
}

// capacityFrom returns how many ranks would have fit, according to the *plan.Error in err.
func capacityFrom(err error) int {
	var failed *plan.Error
	errors.As(err, &failed)
	return failed.FreeRanks
}

// untriedCandidates returns the candidates for which match returns true and to which mpiexec has not tried to connect
// yet.
func (r *reservation) untriedCandidates(match func(job.NodeDef) bool) (defs []job.NodeDef) {
	canBeUsed := plan.ProbeFilter(r.req)
	for _, def := range r.req.Nodes {
		_, tried := r.errs[def.Name]
		if !tried && !r.hasHost(def) && canBeUsed(def) && match(def) {
			defs = append(defs, def)
		}
	}
	return defs
}

// abandonSpawn releases the claims of a spawn and closes the connections that were made for it.
func (r *reservation) abandonSpawn() {
	r.cancelClaims()
	r.dismissNew()
}

// Abandon releases the claims of a spawn that is no longer needed, and closes the connections that were made
// for it.
func (r *Reservation) Abandon() { r.r.abandonSpawn() }

// dismissNew ends the helpers that were started for a spawn but are not used by its plan.
func (r *reservation) dismissNew() {
	for _, n := range r.hosts {
		if !n.ofJob && !slices.Contains(r.planHosts, n) {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keepHosts(func(n *host) bool { return n.ofJob || slices.Contains(r.planHosts, n) })
}

// applyTo sets the fields of a Prepare message that are different for spawned ranks.
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
	m.Streams.PTY = nil // --pty is about the ranks of the command line
}

// groupName returns the name of the group of ranks for which the reservation finds nodes: the spawned group, or the
// group of the command line.
func (r *reservation) groupName() string {
	if r.spawnGroup != nil {
		return r.spawnGroup.Group
	}
	return string(r.plan.Job)
}

// hostPolicy returns the rules that say on which hosts the job may spawn ranks.
func (r *reservation) hostPolicy() *info.HostPolicy {
	g := &info.HostPolicy{FindHosts: r.env.FindHosts, Allowed: r.req.SpawnHosts, Candidates: r.req.Nodes}
	for _, n := range r.hosts {
		g.Hosts = append(g.Hosts, info.KnownHost{Def: n.def, Hostname: n.probe.Hostname})
	}
	return g
}

// disguisedLocalError returns an error if a spawn request names the machine on which mpiexec is running by another
// name, such as an SSH alias or an address. Hosts that the user names in an option are allowed.
func (r *reservation) disguisedLocalError() error {
	local := func(def job.NodeDef) bool { return def.Local }
	if !r.req.SpawnHosts.Any || r.env.Localhost == nil || slices.ContainsFunc(r.req.Nodes, local) {
		return nil
	}
	wanted := &info.HostPolicy{Allowed: r.req.SpawnHosts}
	localIdentity := ""
	for _, n := range r.hosts {
		if n.ofJob || n.def.Local || slices.ContainsFunc(r.req.SpawnHosts.List, n.def.IsSameNode) {
			continue
		}
		if localIdentity == "" {
			localIdentity = r.env.Localhost()
		}
		if n.probe.Identity == localIdentity {
			return wanted.NotAllowedError([]job.NodeDef{n.def})
		}
	}
	return nil
}

// These constants limit the number of ranks of one spawn if ranks may share CPUs (rule TRUST-12). The limit is maxShare
// for each slot of the candidate hosts, but at least minShared.
const (
	maxShare  = 16
	minShared = 4096
)

// maxSpawnRanks returns how many ranks one spawn may have on its candidates. If the size of a candidate is
// unknown, because it was not probed and has no slot count, it returns info.MaxRanks.
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
