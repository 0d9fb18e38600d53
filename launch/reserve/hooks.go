package reserve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

/*
A Feature prepares the nodes of a job before its ranks start. Its Prepare is called when every node has claimed its part
of the plan. Nodes without ranks are not prepared. When Prepare is called, the decision lock is already released:

	findPlace --> each node has claimed --> Prepare of each feature --> the Reservation

The new nodes of a spawn are prepared in the same way. Nodes that the job already uses are not prepared again.
*/
type Feature struct {
	IsWanted func(job.Request) bool   // the request needs the feature
	Prepare  func(*Preparation) error // if it fails, no rank is started
}

var features []Feature

// Register adds a feature to all reservations. It is called during program initialization.
func Register(f Feature) { features = append(features, f) }

// A Preparation is one call of a feature's Prepare. Only the reservation's goroutine may use it, except where
// a method says otherwise.
type Preparation struct {
	Request job.Request
	Env     Env
	Nodes   []*node.Node // the nodes to prepare, in the order of the plan

	r        *reservation
	ctx      context.Context
	timed    context.Context // ctx with the time limit r.limit
	handlers map[byte]func(*node.Node, wire.Message)
	failed   []job.Failure
}

// Handle sets the function that Wait calls for messages of type M. The feature must have declared this type
// with Own.
func Handle[M wire.Message](p *Preparation, handle func(*node.Node, M)) {
	p.handlers[wire.NumberFor[M]()] = func(n *node.Node, m wire.Message) { handle(n, m.(M)) }
}

// ErrTooSlow is returned by Preparation.Wait when the time limit has passed.
var ErrTooSlow = errors.New("mpiexec did not finish preparing the hosts in time")

// prepareNodes calls Prepare of each feature that the request needs. If the user has set --start-timeout, all features
// together must have finished by startBy. Otherwise the start timeout applies to each feature separately. prepareNodes
// returns the deadline by which all ranks must have started.
func (r *reservation) prepareNodes(ctx context.Context, startBy node.Deadline) (node.Deadline, error) {
	var nodes []*node.Node
	for _, n := range r.planHosts {
		if !n.ofJob {
			nodes = append(nodes, n.Node)
		}
	}
	for _, f := range features {
		if len(nodes) == 0 || !f.IsWanted(r.req) {
			continue
		}
		if err := r.prepareFor(ctx, f, nodes, startBy); err != nil {
			return startBy, err
		}
		if r.req.TimeLimits.Start == 0 {
			startBy = r.env.StopTimes.Deadline(StartTimeout(r.req))
		}
	}
	return startBy, nil
}

// prepareFor calls f.Prepare with a time limit.
func (r *reservation) prepareFor(ctx context.Context, f Feature, nodes []*node.Node, startBy node.Deadline) error {
	timed, done := r.withinLimit(ctx, ErrTooSlow)
	defer done()
	if r.req.TimeLimits.Start > 0 {
		r.limit.BeginStep(time.Until(startBy.Time()))
	}
	return f.Prepare(&Preparation{Request: r.req, Env: r.env, Nodes: nodes, r: r, ctx: ctx, timed: timed, handlers: make(map[byte]func(*node.Node, wire.Message))})
}

// A postedFunc is an event that contains a function. Preparation.Wait calls the function when it takes the event out of
// the inbox.
type postedFunc struct {
	to *Preparation
	do func()
}

// Post makes Wait call f. Any goroutine may call Post. If the Preparation ends first, f is not called.
func (p *Preparation) Post(f func()) { p.Env.Inbox.Put(postedFunc{p, f}) }

// Wait handles the events in the inbox until done returns true. It returns an error if Fail was called, if the time
// limit has passed (ErrTooSlow), or if the start was cancelled (the context's cause). It calls handleLost when the
// connection to a node of the plan ends.
func (p *Preparation) Wait(done func() bool, handleLost func(*node.Node, error)) error {
	for !done() && len(p.failed) == 0 {
		events := p.r.takeEvents(p.timed, time.Time{})
		if len(events) == 0 {
			return cmp.Or(context.Cause(p.ctx), ErrTooSlow)
		}
		for _, event := range events {
			switch e := event.(type) {
			case postedFunc:
				if e.to == p {
					e.do()
				}
				continue
			case message:
				if handle := p.handlers[wire.NumberOf(e.m)]; handle != nil {
					handle(e.from.Node, e.m)
					continue
				}
			case disconnection:
				if slices.Contains(p.r.planHosts, e.from) {
					handleLost(e.from.Node, e.err)
				}
			}
			p.r.handleEvent(event)
		}
	}
	if len(p.failed) > 0 {
		return &HostsError{Failed: p.failed}
	}
	return nil
}

// Fail records that a node of the plan cannot be prepared. As a result, no rank is started on any node.
func (p *Preparation) Fail(n *node.Node, err error) {
	p.failed = append(p.failed, job.Failure{Node: n.Name(), Origin: n.Def.Origin, Err: err})
}

// RestartLimit restarts the time limit. A feature calls RestartLimit whenever it has prepared one of the nodes. The
// call has no effect if the user has set --start-timeout.
func (p *Preparation) RestartLimit() {
	if p.Request.TimeLimits.Start == 0 {
		p.r.limit.BeginStep(StartTimeout(p.Request))
	}
}

// ExtendForBytes extends the time limit, because a node has accepted the given number of bytes. It does nothing if the
// user has set --start-timeout.
func (p *Preparation) ExtendForBytes(bytes int) {
	if p.Request.TimeLimits.Start == 0 {
		p.r.limit.ExtendForBytes(bytes)
	}
}

// PauseLimit pauses the time limit until resume is called. It does nothing if the user has set
// --start-timeout.
func (p *Preparation) PauseLimit() (resume func()) { return p.r.pauseStartLimit() }

// ShowProgress shows a line on the user's terminal if the Preparation takes long. It calls line on another goroutine to
// get the current text. The returned function stop removes the text from the terminal.
func (p *Preparation) ShowProgress(line func() string) (stop func()) {
	return showProgress(p.Env, line)
}
