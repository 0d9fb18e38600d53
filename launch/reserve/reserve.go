/*
Package reserve finds a request its place: candidates in, a Reservation out, with a plan and
its nodes, which have claimed what the plan gives them. The command line's start uses it and
every spawn of a rank, each with a reservation of its own; they share nothing that changes.

	               .---------- planAndClaim -----------.
	connectAll --> survey --> plan.Make --> claim       --> stage
	  dial,         what       pure          every          files that
	  handshake     others       |           node, or       are wanted
	                hold         '-> wait    none

Jobs of all users are kept apart by claims, one file per job and node, which each node's
helper holds; and one decision at a time is made behind the gate of the queue host
(placement.md 6.4):

	mpiexec                 queue host      n1            n2            n3
	   | Gate ---------------->|
	   |<--- Gated (0 ahead) --|
	   | Survey ---------------|------------>|------------>|------------>|
	   |<---------------------------------- Surveyed (what other jobs hold)
	   |       plan.Make: n1 and n2
	   | Prepare ---------------------------->|   the lowest node first: of two that
	   |<----------------------- Prepared ----|   meet, one wins everywhere
	   | Prepare ------------------------------------------->|
	   |<-------------------------------------- Prepared ----|    or Taken: Release n1,
	   | Ungate -------------->|                                  and survey again

The gate is a courtesy that makes conflicts rare and gives the queue its order; it is
the claims that keep two jobs from one core, also where nobody shares a gate.

One goroutine, that of the caller, takes the events out of the inbox and owns all state.
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

// A Reservation is the place of a request: nodes that are prepared for their ranks, which
// nobody has started yet. All of its connections are open until Close.
type Reservation struct {
	Plan         job.Plan
	Nodes        []Node      // of the plan, in its order
	Request      job.Request // as it was placed: it may have changed while it waited
	Rendezvous   string      // where torch's ranks meet; empty: nowhere
	UniverseSize int         // MPI_UNIVERSE_SIZE by PMI; 0: it is not told
	Baseline     Baseline
	Standby      []KeptNode          // nodes that are claimed for another attempt
	StartBy      node.Deadline       // until then all ranks must run
	Connections  []job.ConnectResult // in the order in which they were begun

	r *reservation
}

// A Node is a node of a plan.
type Node struct {
	*node.Node
	Def   *job.NodeDef // as the plan had it; it and Probe are the reservation's, and do not change any more
	Probe *job.Probe
}

// A reservation is a request on its way to its place.
type reservation struct {
	env Env
	req job.Request
	connections
	queue           *queue.Queue
	snap            job.Snapshot
	snapHosts       []*host             // those of snap.Nodes
	ignoredUsers    []int               // users whose claims do not count for now
	notices         map[string]*nameSet // nodes without a usable ledger, by what is wrong with it
	warnings        map[string]*nameSet // nodes whose administrator's files have something without effect, by what that is
	noticesReported map[string]bool     // notices that were said
	spawnGroup      *spawnGroup         // what a rank asks for; nil: it is the job of the command line
	limit           *deadline.Deadline  // of this attempt, or of all that is asked; nil: there is none

	plan             job.Plan
	planHosts        []*host // nodes of the plan, in its order
	rendezvous       string  // where torch's ranks meet; empty: nowhere
	ranksPerApp      []int   // ranks of each section of the plan
	baseline         Baseline
	standby          []standbyNode
	claimsConflicted bool // other jobs claimed what was planned, again and again
}

// A host is a node as one reservation knows it.
type host struct {
	*node.Node
	def              job.NodeDef // may change while a request waits
	probe            job.Probe
	occupancy        job.Occupancy // what other jobs had of it when it was last asked
	outsideOccupancy job.Occupancy // what jobs outside of our batch system's job had (RM-20)
	attributes       job.Attributes
	lost             error // why it cannot be used any more; nil: it can

	ofJob        bool          // the job has it already, and it is not ours to give up
	ownOccupancy job.Occupancy // what the job has of it already
	earlierRanks int           // ranks of the job that have ever been there

	forbidden string // why its administrator lets nothing of ours run there; empty: he does
	maxRanks  *int   // how many ranks of all jobs he lets run; nil: any number

	kept *KeptNode // it was the job's in the attempt before, and is claimed since; nil: it was not

	sameMachine *host // one of the nodes that were shown to be this machine; nil: none was
	staged      bool  // it has the parcels of the job
	watched     bool  // it tells when claims change
	jobHasAll   bool  // as it said when it was last asked, our own job has all that we could use
}

func newReservation(req job.Request, env Env) *reservation {
	r := &reservation{req: req, env: env, connections: newConnections(), noticesReported: make(map[string]bool), notices: make(map[string]*nameSet), warnings: make(map[string]*nameSet)}
	r.queue = r.newQueue()
	return r
}

// Reserve finds a job its place, and waits for it if it is to. The reservation is never nil:
// with an error it has the notes of the plan, and how hosts were reached. Nodes that an earlier
// attempt of the job has left are the reservation's from now on.
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
	startBy, err = r.stageFiles(ctx, startBy)
	return r.newResult(startBy), err
}

// newResult is what others get to know of the reservation. What it has decided by is not kept for
// as long as the job runs.
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

// Close ends all connections of the reservation. A helper that is still at work takes it as the
// end of its job.
func (r *Reservation) Close() {
	var closing sync.WaitGroup
	for _, n := range r.r.hosts {
		closing.Go(n.Close)
	}
	closing.Wait()
}

// reportPlan tells what was planned.
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

// dismissUnused sends home the helpers that have no rank, and are no spares.
func (r *reservation) dismissUnused() {
	needed := make(map[*host]bool, len(r.planHosts))
	for i, np := range r.plan.Nodes {
		n := r.planHosts[i]
		needed[n] = true
		r.env.Log.Info().Str("node", np.Name).Str("host", n.probe.Hostname).Msg(FormatRanksOf(np))
	}
	for _, s := range r.standby {
		needed[s.host] = true
		r.env.Log.Info().Str("node", s.Name()).Msg("spare")
	}
	for _, n := range r.hosts {
		if !needed[n] {
			n.Send(&wire.Bye{})
		}
	}
}

// FormatRanksOf writes the ranks of a node: "rank 3", "ranks 0-3,7".
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

// maxConflicts is how often in a row another job may be faster (placement.md 6.4).
const maxConflicts = 5

// findPlace finds the job its place, and waits for it if it is to. The nodes of the plan are
// prepared then, and have claimed what it gives them. Until startBy all ranks must run.
func (r *reservation) findPlace(ctx context.Context) (p job.Plan, startBy node.Deadline, err error) {
	defer r.queue.Finish()
	var last *plan.Error // why the last attempt failed, of a request that waits
	for {
		r.rereadRequest()
		p, startBy, err = r.attempt(ctx)
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

// rereadRequest takes in how the request has changed while it waits. What cannot be read
// changes nothing.
func (r *reservation) rereadRequest() {
	if r.env.RereadRequest == nil || !r.queue.IsWaiting() {
		return
	}
	req, changed, err := r.env.RereadRequest()
	if err != nil {
		r.reportOnce(fmt.Sprintf("going on as before: %v", err))
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

// attempt is one decision, alone behind the gate. Until startBy all ranks of the plan must run.
func (r *reservation) attempt(ctx context.Context) (p job.Plan, startBy node.Deadline, err error) {
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

// withinLimit is a context that ends with late when all that is wanted has taken longer than a start may.
func (r *reservation) withinLimit(ctx context.Context, late error) (context.Context, context.CancelFunc) {
	outer, limit := r.limit, r.env.StopTimes.Limit(ctx, StartTimeout(r.req), late)
	r.limit = limit
	return limit.Context(), func() {
		limit.Stop()
		r.limit = outer
	}
}

// pauseStartLimit lets the time for a start stand still until resume is called, unless the user has said how long all of it may take.
func (r *reservation) pauseStartLimit() (resume func()) {
	if r.limit == nil || r.req.TimeLimits.Start > 0 {
		return func() {}
	}
	return r.limit.Pause()
}

// lockDecision waits for the gate, and takes in how many requests are ahead.
func (r *reservation) lockDecision(ctx context.Context) (err error) {
	r.snap.Ahead, err = r.queue.LockDecision(ctx)
	return err
}

// planAndClaim decides until no other job has been faster.
func (r *reservation) planAndClaim(ctx context.Context) (job.Plan, error) {
	for try := 1; ; try++ {
		r.claimsConflicted = try == maxConflicts
		p, err := r.planAndClaimOnce(ctx)
		var taken *claimConflict
		if err == nil || !errors.As(err, &taken) {
			return p, err
		}
		r.env.Log.Info().Msg(taken.Error())
		if try == maxConflicts {
			return job.Plan{}, r.conflictError(taken)
		}
	}
}

// planAndClaimOnce plans with what the nodes say now, and lets them claim it: all, or none.
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
	if err := r.runStep(trace.Claim, func() error { return r.claimNodes(ctx, p) }); err != nil {
		return p, err
	}
	if err := r.claimStandby(ctx); err != nil {
		r.cancelClaims()
		return p, err
	}
	return p, r.checkSeparation()
}

// makePlan is plan.Make, and is left when the start is (TRUST-8): a plan changes nothing, so that
// nobody minds that it is made to its end.
func makePlan(ctx context.Context, req job.Request, snap job.Snapshot) (job.Plan, error) {
	type outcome struct {
		plan job.Plan
		err  error
		why  any // of a panic
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

// conflictError is the end of an attempt in which others were faster each time.
func (r *reservation) conflictError(taken *claimConflict) error {
	failed := &plan.Error{Code: plan.CodeNotEnough, Text: fmt.Sprintf("%v; others were faster %d times", taken, maxConflicts), Remedy: "try again"}
	if r.req.Wait {
		failed.QueuePosition = r.snap.Ahead + 1
	}
	return failed
}

func (e *claimConflict) Error() string { return e.node + ": " + e.reason }

// reportOnce tells the user what is not worth telling twice.
func (r *reservation) reportOnce(text string) {
	if !r.noticesReported[text] {
		r.noticesReported[text] = true
		r.env.Report(text)
	}
}
