package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/stdio"
	"remshell/plan"
	"remshell/wire"
)

/*
A booking is a request on its way to its place. Jobs of all users are kept apart by
claims, one file per job and node, which each node's helper holds; and one decision at
a time is made behind the gate of the queue host (placement.md 6.4):

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
*/
type booking struct {
	req    job.Request
	env    Env
	events *box
	fleet  *fleet
	snap   job.Snapshot
	seen   []*node          // those of snap.Nodes
	errs   map[string]error // of candidates that were not reached, by name
	told   map[string]bool  // notices that were said
	spot   spot
	inside bool          // of another job, all of whose nodes are ours: it passes the queue
	booked chan struct{} // closed when the job has its place, or shall have none

	own   map[*node]job.Use  // what the job has already, if it is there to be grown
	shape func(job.Snapshot) // adapts req to what was seen; may be nil

	without []int  // users whose claims do not count for now
	aside   string // nodes that the head of the queue names, and which we leave to it

	notices    map[string][]string // nodes without a usable ledger, by what is wrong with it
	gateNotice string              // what is wrong with the gate
	mustered   bool                // the candidates were dialled, and are kept
	twins      map[*node]*node     // nodes that were shown to be one machine, by one of them
	retries    map[string]*redial  // candidates that the head tries to reach again, by name
}

func newBooking(req job.Request, env Env, events *box) *booking {
	f := &fleet{env: env, events: events, streams: stdio.New(env.In, env.Out, env.Err), account: newAccount()}
	return &booking{req: req, env: env, events: events, fleet: f, errs: make(map[string]error), told: make(map[string]bool),
		booked: make(chan struct{}), notices: make(map[string][]string), twins: make(map[*node]*node), retries: make(map[string]*redial)}
}

// conflicts is how often in a row another job may be faster (placement.md 6.4).
const conflicts = 5

// book finds the job its place, and waits for it if it is to. The nodes of the plan are
// prepared then, and have claimed what it gives them. Until startBy all ranks must run.
func (b *booking) book(ctx context.Context) (p job.Plan, startBy time.Time, err error) {
	defer close(b.booked)
	var last *plan.Error // why the last attempt failed, of a request that waits
	for {
		b.refresh()
		slept := b.env.pauses.sum()
		startBy = time.Now().Add(startLimit(b.req))
		p, err = b.attempt(ctx, startBy)
		startBy = startBy.Add(b.env.pauses.sum() - slept)
		var failed *plan.Error
		if !errors.As(err, &failed) || failed.Position == 0 {
			break
		}
		last = failed
		if b.spot.began.IsZero() {
			b.spot.began = time.Now()
			var done context.CancelFunc
			ctx, done = b.patience(ctx)
			defer done()
		}
		if err = b.wait(ctx, last); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		b.leaveQueue()
	case errors.Is(err, errWaited):
		last.Position, last.Text = 0, fmt.Sprintf("%s; waited %s", last.Text, clock(time.Since(b.spot.began)))
		err = last
	}
	return p, startBy, err
}

// refresh takes in how the request has changed while it waits. What cannot be read
// changes nothing.
func (b *booking) refresh() {
	if b.env.Again == nil || b.spot.began.IsZero() {
		return
	}
	req, changed, err := b.env.Again()
	if err != nil {
		b.sayOnce(fmt.Sprintf("going on as before: %v", err))
	}
	if !changed {
		return
	}
	b.req = req
	b.mustered = false // there may be other nodes
	for _, n := range b.fleet.all {
		if i := slices.IndexFunc(req.Nodes, n.def.Same); i >= 0 {
			n.def = req.Nodes[i]
		}
	}
}

// attempt is one decision, alone behind the gate.
func (b *booking) attempt(ctx context.Context, startBy time.Time) (job.Plan, error) {
	ctx, done := b.env.pauses.within(ctx, time.Until(startBy), lateError(b.req))
	defer done()
	defer b.tellNotices()
	if !b.mustered {
		if err := b.muster(ctx); err != nil {
			return job.Plan{}, err
		}
		b.mustered = true
	}
	if err := b.enter(ctx); err != nil {
		return job.Plan{}, err
	}
	defer b.ungate()
	p, err := b.settle(ctx)
	return p, b.keepTurn(ctx, err)
}

// settle decides until no other job has been faster.
func (b *booking) settle(ctx context.Context) (job.Plan, error) {
	for try := 1; ; try++ {
		b.fleet.outrun = try == conflicts
		p, err := b.decide(ctx)
		var taken *takenError
		if err == nil || !errors.As(err, &taken) {
			return p, err
		}
		b.env.Log.Info().Msg(taken.Error())
		if try == conflicts {
			return job.Plan{}, b.outrun(taken)
		}
	}
}

// decide plans with what the nodes say now, and lets them claim it: all, or none.
func (b *booking) decide(ctx context.Context) (job.Plan, error) {
	if err := b.survey(ctx); err != nil {
		return job.Plan{}, err
	}
	if b.aside != "" { // what is ahead wants none of these nodes
		b.snap.Ahead = 0
	}
	b.env.seen(b.snap)
	b.fleet.usize = universe(b.req, b.snap)
	if b.shape != nil {
		b.shape(b.snap)
	}
	p, err := makePlan(ctx, b.req, b.snap)
	if err != nil {
		return p, err
	}
	if err := b.claim(ctx, p); err != nil {
		return p, err
	}
	return p, b.keptApart()
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

// keptApart is the end of a job that wants nobody beside it, or whose administrator does,
// where that cannot be had (TRUST-13). Others start all the same, and say so.
func (b *booking) keptApart() error {
	if !b.req.Exclusive && !b.req.Queue.Strict {
		return nil
	}
	for _, text := range slices.Sorted(maps.Keys(b.notices)) {
		for _, n := range b.fleet.nodes {
			if slices.Contains(b.notices[text], n.def.Name) {
				b.giveBack()
				clear(b.notices)
				b.gateNotice = ""
				return &StartError{notApart(n.def.Name, text), "", job.ExitInternal}
			}
		}
	}
	return nil
}

func notApart(where, why string) string {
	return fmt.Sprintf("%s: not kept apart from other jobs: %s", where, why)
}

// outrun is the end of an attempt in which others were faster each time.
func (b *booking) outrun(taken *takenError) error {
	failed := &plan.Error{Code: plan.NotEnough, Text: fmt.Sprintf("%v; others were faster %d times", taken, conflicts), Way: "try again"}
	if b.req.Wait {
		failed.Position = b.snap.Ahead + 1
	}
	return failed
}

// survey asks all nodes what other jobs hold of them, and makes the snapshot. Who does not
// answer is as good as gone.
func (b *booking) survey(ctx context.Context) error {
	candidates := b.reached()
	silent, err := b.probe(ctx, candidates, b.probeTime())
	if len(silent) > 0 && err == nil { // or it is we who were stopped meanwhile
		silent, err = b.probe(ctx, silent, time.Second)
	}
	for _, n := range silent {
		n.lost = silence{b.probeTime()}
		if _, own := b.own[n]; !own { // the job's own nodes are not ours to give up
			go n.conn.Close()
		}
	}
	if b.inside = len(candidates) > 0 && !slices.ContainsFunc(candidates, func(n *node) bool { return !n.inside }); b.inside {
		b.snap.Ahead = 0
	}
	if err == nil {
		err = b.lostCandidates()
	}
	if err == nil {
		err = b.identify(ctx)
	}
	b.look()
	return err
}

// probe asks nodes what other jobs hold of them, and returns those that have not answered in
// time.
func (b *booking) probe(ctx context.Context, nodes []*node, limit time.Duration) (silent []*node, err error) {
	answered := make(map[*node]bool)
	patient, done := b.env.pauses.within(ctx, limit, silence{limit})
	defer done()
	question := func(n *node) wire.Message {
		m := &wire.Survey{Ledger: b.req.Queue.Ledger, Own: b.req.Job, Without: b.without}
		if n.def.Local {
			m.Inside = b.req.Queue.Inside
		}
		return m
	}
	_, err = b.inquire(patient, nodes, question, func(n *node, m wire.Message) bool {
		answer, ok := m.(*wire.Surveyed)
		if ok {
			answered[n] = true
			n.use, n.probe.Load, n.inside = answer.Use, answer.Load, answer.Inside
			n.barred, n.most = answer.Barred, nil
			if answer.Limited {
				n.most = &answer.Most
			}
			b.notice(n, answer.Notice)
		}
		return ok
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return answered[n] || n.lost != nil }), nil
}

// probeTime is how long a node may take to tell what others hold of it, while the gate is
// shut for everybody (placement.md 6.4).
func (b *booking) probeTime() time.Duration {
	return cmp.Or(b.env.Probe, min(b.answerTime(), 10*time.Second))
}

// notice notes what is wrong with a node's ledger; empty: nothing.
func (b *booking) notice(n *node, text string) {
	if text != "" && !slices.Contains(b.notices[text], n.def.Name) {
		b.notices[text] = append(b.notices[text], n.def.Name)
	}
}

// tellNotices says once what is wrong with ledgers, equal things of all nodes together.
func (b *booking) tellNotices() {
	for _, text := range slices.Sorted(maps.Keys(b.notices)) {
		b.sayOnce(notApart(fold(b.notices[text]), text))
	}
	if q, text := b.fleet.queue, b.gateNotice; q != nil && text != "" && !slices.Contains(b.notices[text], q.def.Name) {
		b.sayOnce(q.def.Name + ": " + text)
	}
	clear(b.notices)
	b.gateNotice = ""
}

// lostCandidates judges helpers that went away since they were reached.
func (b *booking) lostCandidates() error {
	for _, n := range b.fleet.all {
		if n.lost != nil {
			b.errs[n.def.Name] = lostEarly(n.lost)
		}
	}
	b.fleet.all = slices.DeleteFunc(b.fleet.all, func(n *node) bool { return n.lost != nil })
	if failed := b.failures(); len(failed) > 0 && !b.req.Skip {
		return b.unreached(failed)
	}
	return nil
}

// lostEarly is the end of a connection before the start.
func lostEarly(why error) error {
	var v wire.Violation
	if errors.As(why, &v) {
		return unfit{v}
	}
	if errors.As(why, new(silence)) {
		return why
	}
	return fmt.Errorf("lost contact before the start (%s)", reasonOf(why))
}

// A takenError is a node that another job got first.
type takenError struct{ node, reason string }

func (e *takenError) Error() string { return e.node + ": " + e.reason }

// claim hands every node of a plan its part and waits until all are ready. If one cannot,
// the others give up what they have claimed.
func (b *booking) claim(ctx context.Context, p job.Plan) error {
	f := b.fleet
	f.plan, f.nodes = p, nil
	for _, np := range p.Nodes {
		f.nodes = append(f.nodes, b.seen[np.Node])
	}
	byID := slices.SortedFunc(slices.Values(f.nodes), func(x, y *node) int { return x.def.ID - y.def.ID })
	err := b.prepare(ctx, byID[:1], byID[1:])
	if err != nil {
		b.giveBack()
	}
	return err
}

// giveBack has the nodes of the plan forget their part.
func (b *booking) giveBack() {
	f := b.fleet
	for _, n := range f.nodes {
		n.send(&wire.Release{Group: f.groupName()})
	}
	f.nodes = nil
}

// prepare tells groups of nodes their part, one group after the other. The error says
// which refuse, or that one is taken; then those behind it are not asked.
func (b *booking) prepare(ctx context.Context, groups ...[]*node) error {
	local := b.fleet.localAddress()
	part := make(map[*node]int, len(b.fleet.nodes)) // of the plan
	for i, n := range b.fleet.nodes {
		part[n] = i
	}
	var refused []job.Failure
	refuse := func(n *node, e *StartError) { refused = append(refused, job.Failure{Node: n.def.Name, Err: e}) }
	for _, nodes := range groups {
		var taken *takenError
		err := b.ask(ctx, b.answerTime(), nodes,
			func(n *node) wire.Message { return b.fleet.preparation(b.req, part[n], local) },
			func(n *node, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.Prepared:
					b.notice(n, m.Notice)
					b.fleet.meet = cmp.Or(m.Meet, b.fleet.meet)
				case *wire.Taken:
					taken = &takenError{n.def.Name, m.Reason}
				case *wire.Refused:
					refuse(n, &StartError{m.Reason, m.Hint, m.Code})
				default:
					return false
				}
				return true
			})
		for _, n := range nodes {
			if n.lost != nil { // the next survey judges that
				taken = &takenError{n.def.Name, "lost contact before the start"}
			}
		}
		switch {
		case err != nil:
			return err
		case taken != nil && len(refused) == 0:
			return taken
		}
	}
	if len(refused) == 0 {
		return nil
	}
	// Equal reasons are told once; the code is that of the first node.
	slices.SortFunc(refused, func(a, b job.Failure) int { return strings.Compare(a.Node, b.Node) })
	return &HostsError{Failed: refused}
}

// sayOnce tells the user what is not worth telling twice.
func (b *booking) sayOnce(text string) {
	if !b.told[text] {
		b.told[text] = true
		b.env.Say(text)
	}
}
