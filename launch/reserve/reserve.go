/*
Package reserve finds nodes for a request. The result is a Reservation: a plan, and nodes among the candidates that have
claimed their part of the plan. mpiexec makes one reservation for the command line and one for each spawn. Reservations
share no mutable state.

	               .---------- planAndClaim -----------.
	connectAll --> survey --> plan.Make --> claim       --> prepare
	  dial,         what       pure          every          features,
	  handshake     others       |           node, or       e.g. --stage
	                hold         '-> wait    none

Claims keep the jobs of all users apart. A claim is one file for each job and node, which the node's
helper keeps locked. The decision lock of the queue host allows one decision at a time (placement.md 6.4):

	mpiexec                 queue host      n1            n2            n3
	   | LockDecision -------->|
	   |<-- DecisionLocked ----|   (0 requests ahead)
	   | Survey ---------------|------------>|------------>|------------>|
	   |<---------------------------------- Surveyed (what other jobs hold)
	   |       plan.Make: n1 and n2
	   | Prepare ---------------------------->|   the lowest ID first: of two jobs
	   |<----------------------- Prepared ----|   in conflict, one wins everywhere
	   | Prepare ------------------------------------------->|
	   |<-------------------------------------- Prepared ----|    or ClaimConflict: CancelPrepare
	   | UnlockDecision ------>|                                  to n1, and survey again

The decision lock makes conflicts rare and ensures the order of the queue. Claims ensure that no two jobs use the
same core, even if the jobs use different decision locks.

The caller's goroutine takes the events out of the inbox, and is the only one that uses the state.
*/
package reserve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"remshell/deadline"
	"remshell/idset"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/queue"
	"remshell/plan"
	"remshell/trace"
	"remshell/wire"
)

// A Reservation contains the nodes that have been prepared for the ranks of a request. No rank has been started yet.
// Its connections stay open until Close is called.
type Reservation struct {
	Plan         job.Plan
	Nodes        []Node      // nodes of the plan, in its order
	Request      job.Request // as planned: it may have changed while it waited in the queue
	Rendezvous   string      // address of torch's rendezvous; empty if there is none
	UniverseSize int         // MPI_UNIVERSE_SIZE for PMI; 0 if it is not set
	Baseline     Baseline
	Standby      []KeptNode          // standby nodes, claimed for a later attempt
	StartBy      node.Deadline       // deadline by which all ranks must have started
	Connections  []job.ConnectResult // in the order in which they were begun

	r *reservation
}

// A Node is a node of a plan, with its connection.
type Node struct {
	*node.Node
	Def   *job.NodeDef // as planned; Def and Probe belong to the reservation and do not change any more
	Probe *job.Probe
}

// A reservation holds the state that mpiexec needs while it finds nodes for one request.
type reservation struct {
	env Env
	req job.Request
	connections
	queue           *queue.Queue
	snap            job.Snapshot
	snapHosts       []*host             // the hosts of snap.Nodes
	ignoredUsers    []int               // uids whose claims the survey leaves out
	notices         map[string]*nameSet // nodes without a usable ledger, by the problem
	warnings        map[string]*nameSet // nodes whose administrator's files contain something without effect, by the problem
	noticesReported map[string]bool     // notices that were reported
	spawnGroup      *spawnGroup         // the request of a rank that spawns; nil for the job of the command line
	limit           *deadline.Deadline  // time limit of this decision, or of the whole query; nil if there is none

	plan             job.Plan
	planHosts        []*host // nodes of the plan, in its order
	rendezvous       string  // address of torch's rendezvous; empty if there is none
	ranksPerApp      []int   // number of ranks of each app context
	baseline         Baseline
	standby          []standbyNode
	claimsConflicted bool // other jobs won maxConflicts conflicts
}

// A host is a connected node, with the data that one reservation keeps about it.
type host struct {
	*node.Node
	def              job.NodeDef // may change while the request waits
	probe            job.Probe
	occupancy        job.Occupancy // what other jobs use, as of the last survey
	outsideOccupancy job.Occupancy // what jobs outside the batch system's job use (RM-20)
	attributes       job.Attributes
	gang             job.GangTerms // how gangs take turns there; zero unless the job is a gang
	clock            clockRange    // likewise
	lost             error         // why it cannot be used any more; nil if it can

	ofJob        bool          // it belongs to the running job, so this reservation must not close it
	ownOccupancy job.Occupancy // what the job itself uses
	earlierRanks int           // number of the job's ranks that have ever been placed there

	forbidden string // why the node's administrator forbids this user's jobs; empty if they are allowed
	drained   bool   // forbidden says that root has drained the node
	maxRanks  *int   // administrator's limit on the ranks of all jobs; nil if there is none

	kept *KeptNode // the claim of the previous attempt, if the node is taken over from it; else nil

	sameMachine *host // first host that was proved to be the same machine; nil if none was
	watched     bool  // it was asked to report changes of claims
	jobHasAll   bool  // as of the last survey, the parent job has claimed all CPUs that this job could use
}

func newReservation(req job.Request, env Env) *reservation {
	r := &reservation{req: req, env: env, connections: newConnections(), noticesReported: make(map[string]bool), notices: make(map[string]*nameSet), warnings: make(map[string]*nameSet)}
	r.queue = r.newQueue()
	return r
}

// Reserve finds nodes for a job. It waits in the queue if the request allows that. kept contains nodes of the previous
// attempt (one run of all ranks), which Reserve reuses. The Reservation is never nil. After an error, the caller may
// only read its Connections and close it.
func Reserve(ctx context.Context, req job.Request, env Env, kept ...KeptNode) (*Reservation, error) {
	r := newReservation(req, env)
	r.takeOverKept(kept)
	p, startBy, err := r.findPlace(ctx)
	for _, note := range p.Notes {
		if note.Code == plan.CodeClaimed {
			env.Log.Info().Msg(note.Text)
			continue
		}
		env.Report(note.Text)
	}
	if err != nil {
		return r.newResult(startBy), err
	}
	r.reportPlan()
	r.dismissUnused()
	r.keepSelection()
	startBy, err = r.prepareNodes(ctx, startBy)
	return r.newResult(startBy), err
}

// newResult returns the Reservation for the caller. It discards data that only planning needed, because the caller
// keeps the Reservation until the job ends.
func (r *reservation) newResult(startBy node.Deadline) *Reservation {
	result := &Reservation{Plan: r.plan, Request: r.req, Rendezvous: r.rendezvous, UniverseSize: universeSize(r.req, r.baseline), Baseline: r.baseline, StartBy: startBy, Connections: r.results, r: r}
	r.snap, r.snapHosts = job.Snapshot{}, nil
	for _, n := range r.planHosts {
		result.Nodes = append(result.Nodes, Node{n.Node, &n.def, &n.probe})
	}
	for _, s := range r.standby {
		result.Standby = append(result.Standby, KeptNode{s.Node, s.plan.CPUs()})
	}
	return result
}

// Close closes all connections of the reservation. If a helper is still running ranks, it then ends them.
func (r *Reservation) Close() {
	var closing sync.WaitGroup
	for _, n := range r.r.hosts {
		closing.Go(n.Close)
	}
	closing.Wait()
}

// reportPlan passes the plan to Env.OnPlan. It logs rejected nodes, and reports skipped hosts and missing standby nodes
// to the user.
func (r *reservation) reportPlan() {
	r.reportSkipped()
	r.reportTooFewStandby()
	for _, line := range plan.FoldReasons(r.plan.Rejected) {
		r.env.Log.Info().Msg("not used: " + line)
	}
	if r.env.OnPlan != nil {
		r.env.OnPlan(r.snap, r.plan)
	}
}

// dismissUnused ends the helpers on nodes that are not needed: they have no rank and are not standby nodes.
func (r *reservation) dismissUnused() {
	needed := make(map[*host]bool, len(r.planHosts))
	for i, np := range r.plan.Nodes {
		n := r.planHosts[i]
		needed[n] = true
		r.env.Log.Info().Str("node", np.Name).Str("host", n.probe.Hostname).Msg(FormatRanksOf(np))
	}
	for _, s := range r.standby {
		needed[s.host] = true
		r.env.Log.Info().Str("node", s.Name()).Msg("standby node")
	}
	for _, n := range r.hosts {
		if !needed[n] {
			n.Send(&wire.Bye{})
		}
	}
}

// FormatRanksOf returns the ranks of a node as text: "rank 3", "ranks 0-3,7".
func FormatRanksOf(np job.NodePlan) string {
	var ranks []int
	for _, r := range np.Ranks {
		ranks = append(ranks, r.Rank)
	}
	if len(ranks) == 1 {
		return "rank " + idset.Text(ranks)
	}
	return "ranks " + idset.Text(ranks)
}

// maxConflicts is how many times a start may find that another job has just claimed the planned CPUs. After that many
// conflicts, the start fails (placement.md 6.4).
const maxConflicts = 5

// findPlace makes a plan for the job and claims its nodes. If that fails and the request may wait, findPlace waits in
// the queue and tries again. startBy is the deadline by which all ranks must have started.
func (r *reservation) findPlace(ctx context.Context) (p job.Plan, startBy node.Deadline, err error) {
	defer r.queue.Finish()
	var last *plan.Error // why the last decision failed, of a request that waits
	for {
		r.rereadRequest()
		p, startBy, err = r.decideOnce(ctx)
		var failed *plan.Error
		if !errors.As(err, &failed) || failed.QueuePosition == 0 {
			break
		}
		last = failed
		r.releaseEarlier()
		if !r.queue.IsWaiting() {
			var done context.CancelFunc
			ctx, done = r.queue.BeginWait(ctx)
			defer done()
		}
		if err = r.runStep(trace.Queue, func() error { return r.queue.WaitForChance(ctx, last) }); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		r.queue.Leave()
	case errors.Is(err, queue.ErrWaited):
		last.QueuePosition, last.Text = 0, fmt.Sprintf("%s; waited %s", last.Text, job.FormatClock(r.queue.Waited()))
		err = last
	}
	return p, startBy, err
}

// rereadRequest updates a request that waits in the queue from its files, which may have changed. If the files cannot
// be read, the old request remains in effect.
func (r *reservation) rereadRequest() {
	if r.env.RereadRequest == nil || !r.queue.IsWaiting() {
		return
	}
	req, changed, err := r.env.RereadRequest()
	if err != nil {
		r.reportOnce(fmt.Sprintf("the cluster file has changed, but the waiting request cannot use it: %v", err))
	}
	if !changed {
		return
	}
	req.NodeSelection = r.req.NodeSelection // a request that waits stays what it is
	r.req = req
	r.connected = false // there may be other nodes
	for _, def := range req.Nodes {
		if n := r.byName[def.Name]; n != nil {
			n.def = def
		}
	}
}

// decideOnce connects to the candidates that are not connected yet. It takes the decision lock, so that no other job is
// planned at the same time. Then it makes one plan and claims its nodes. startBy is the deadline by which all ranks of
// the plan must have started.
func (r *reservation) decideOnce(ctx context.Context) (p job.Plan, startBy node.Deadline, err error) {
	ctx, done := r.withinLimit(ctx, startTimeoutError(r.req))
	defer done()
	defer r.reportLedgerNotices()
	if !r.connected {
		if err := r.connectCandidates(ctx); err != nil {
			return p, startBy, err
		}
		r.connected = true
	}
	startBy = r.env.StopTimes.Deadline(r.limit.Left())
	if err := r.runStep(trace.DecisionLock, func() error { return r.lockDecision(ctx) }); err != nil {
		return p, startBy, err
	}
	defer r.queue.UnlockDecision()
	p, err = r.planAndClaim(ctx)
	return p, startBy, r.queue.EnqueueFailed(ctx, err)
}

// withinLimit returns a context that ends with the error lateCause when the start timeout has passed. It also stores
// the time limit in r.limit until the returned function is called.
func (r *reservation) withinLimit(ctx context.Context, lateCause error) (context.Context, context.CancelFunc) {
	outer, limit := r.limit, r.env.StopTimes.Limit(ctx, StartTimeout(r.req), lateCause)
	r.limit = limit
	return limit.Context(), func() {
		limit.Stop()
		r.limit = outer
	}
}

// pauseStartLimit pauses the start timeout until resume is called. If the user has set --start-timeout, it
// does nothing, because the user's limit includes pauses.
func (r *reservation) pauseStartLimit() (resume func()) {
	if r.limit == nil || r.req.TimeLimits.Start > 0 {
		return func() {}
	}
	return r.limit.Pause()
}

// lockDecision waits for the decision lock. While mpiexec holds the lock, no other job is planned. lockDecision records
// how many requests come before this one in the queue.
func (r *reservation) lockDecision(ctx context.Context) (err error) {
	r.snap.Ahead, err = r.queue.LockDecision(ctx)
	return err
}

// planAndClaim makes a plan and claims its nodes. It tries again if another job has claimed the same CPUs in the
// meantime.
func (r *reservation) planAndClaim(ctx context.Context) (job.Plan, error) {
	for try := 1; ; try++ {
		r.claimsConflicted = try == maxConflicts
		p, err := r.planAndClaimOnce(ctx)
		var conflict *claimConflict
		if err == nil || !errors.As(err, &conflict) {
			return p, err
		}
		r.env.Log.Info().Msg(conflict.Error())
		if try == maxConflicts {
			return job.Plan{}, r.conflictError(conflict)
		}
	}
}

// planAndClaimOnce asks the nodes which CPUs and GPUs are free, makes a plan, and claims the plan's nodes. Either all
// nodes claim their part or none does.
func (r *reservation) planAndClaimOnce(ctx context.Context) (job.Plan, error) {
	if err := r.runStep(trace.Survey, func() error { return r.surveyNodes(ctx) }); err != nil {
		return job.Plan{}, err
	}
	r.snap.Ahead, r.snap.Waited = r.queue.Standing(r.snap.Ahead)
	if r.env.OnSnapshot != nil {
		r.env.OnSnapshot(r.snap)
	}
	if r.spawnGroup != nil {
		r.spawnGroup.constraints.RestrictArch(&r.req, r.snap)
	}
	planning := r.env.Trace.Begin(r.env.TraceRow, trace.Plan)
	p, err := makePlan(ctx, r.req, r.snap)
	planning.End(err)
	if p, err = r.tryBypass(ctx, p, err); err != nil {
		return p, err
	}
	if err := r.checkClocks(p); err != nil {
		return p, err
	}
	if err := r.runStep(trace.Claim, func() error { return r.claimNodes(ctx, p) }); err != nil {
		return p, err
	}
	if err := r.claimStandby(ctx); err != nil {
		r.cancelClaims()
		return p, err
	}
	return p, r.checkSeparation()
}

// makePlan calls plan.Make. It returns early if ctx ends (rule TRUST-8). In that case plan.Make continues in the
// background, which is harmless because it has no side effects.
func makePlan(ctx context.Context, req job.Request, snap job.Snapshot) (job.Plan, error) {
	type outcome struct {
		plan job.Plan
		err  error
		why  any // value of a panic; nil if there was none
	}
	made := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.why = recover()
			made <- o
		}()
		o.plan, o.err = plan.Make(req, snap)
	}()
	select {
	case o := <-made:
		if o.why != nil {
			panic(o.why)
		}
		return o.plan, o.err
	case <-ctx.Done():
		return job.Plan{}, context.Cause(ctx)
	}
}

// conflictError returns the error for a start that has given up after maxConflicts conflicts with other jobs. conflict
// is the last of them.
func (r *reservation) conflictError(conflict *claimConflict) error {
	failed := &plan.Error{Code: plan.CodeNotEnough, Text: fmt.Sprintf("%v; mpiexec tried %d times, and each time another job took CPUs first", conflict, maxConflicts), Remedy: "start the job again"}
	if r.req.Wait {
		failed.QueuePosition = r.snap.Ahead + 1
	}
	return failed
}

func (e *claimConflict) Error() string { return e.node + ": " + e.reason }

// reportOnce prints a line for the user, unless it has already printed the same line.
func (r *reservation) reportOnce(text string) {
	if !r.noticesReported[text] {
		r.noticesReported[text] = true
		r.env.Report(text)
	}
}
