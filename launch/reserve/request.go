package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"remshell/launch/node"
	"remshell/trace"
	"remshell/wire"
)

// A host that does not reply affects no other host (rule TRUST-36): each request has its own time limit,
// and a host that exceeds it is given up, with an error about that host alone.

// queryTimeout is how long a host may take to reply to a query that changes nothing.
const queryTimeout = 5 * time.Second

// A message is an event: a host has sent the message m.
type message struct {
	from *host
	m    wire.Message
}

// A disconnection is an event: the connection to a host has ended.
type disconnection struct {
	from *host
	err  error
}

// takeEvents takes the events out of the inbox. It converts events about the reservation's nodes to the types message
// and disconnection, and returns all others unchanged.
func (r *reservation) takeEvents(ctx context.Context, deadline time.Time) []any {
	events := r.env.Inbox.Take(ctx, deadline)
	for i, event := range events {
		switch e := event.(type) {
		case node.NodeMessage:
			if n := r.byNode[e.From]; n != nil {
				events[i] = message{n, e.Message}
			}
		case node.Disconnected:
			if n := r.byNode[e.From]; n != nil {
				events[i] = disconnection{n, e.Err}
			}
		}
	}
	return events
}

// replyTimeout returns how long a node may take to reply to a request during a start. It is the connect
// timeout.
func (r *reservation) replyTimeout() time.Duration { return cmp.Or(r.env.GreetTimeout, 10*time.Second) }

// call sends a request to each node and calls handle with each reply. It returns when each node has replied or is lost.
// It disconnects nodes that do not reply within limit. call returns an error if ctx has ended, or if a node on which
// the job is already running does not reply.
func call[Req wire.Request[Rep], Rep any](ctx context.Context, r *reservation, limit time.Duration, nodes []*host, request func(*host) Req, handle func(*host, Rep)) error {
	silent, err := callWithin(ctx, r, limit, nodes, request, handle)
	if err != nil {
		return err
	}
	return giveUp(silent, limit)
}

// callOne sends a request to one node and waits for its reply. It returns the zero Rep if the connection to the node is
// lost, or if the node does not reply within limit.
func callOne[Req wire.Request[Rep], Rep any](ctx context.Context, r *reservation, limit time.Duration, n *host, request Req) (reply Rep, err error) {
	err = call(ctx, r, limit, []*host{n}, func(*host) Req { return request }, func(_ *host, m Rep) { reply = m })
	return reply, err
}

// callWithin sends requests as call does. It returns the nodes that have not replied within limit, and does not
// disconnect them.
func callWithin[Req wire.Request[Rep], Rep any](ctx context.Context, r *reservation, limit time.Duration, nodes []*host, request func(*host) Req, handle func(*host, Rep)) (silent []*host, err error) {
	return r.awaitReplies(ctx, limit, nodes, func(n *host) wire.Message { return request(n) },
		func(n *host, reply wire.Message) { handle(n, reply.(Rep)) })
}

// giveUp disconnects nodes that have not replied within limit. It returns an error if the job is already running on one
// of them.
func giveUp(silent []*host, limit time.Duration) error {
	for _, n := range silent {
		if n.ofJob { // the job's own nodes must not be closed here
			return fmt.Errorf("%s: %w", n.def.Name, node.NoAnswerError{Limit: limit})
		}
		n.lost = node.NoAnswerError{Limit: limit}
		go n.Abandon()
	}
	return nil
}

// awaitReplies implements callWithin without type parameters. It calls handle for each reply before it processes any
// later event.
func (r *reservation) awaitReplies(ctx context.Context, limit time.Duration, nodes []*host, request func(*host) wire.Message, handle func(*host, wire.Message)) (silent []*host, err error) {
	timed, done := r.env.StopTimes.Within(ctx, limit, node.NoAnswerError{Limit: limit})
	defer done()
	waiting, steps := make(map[*host]wire.Message), make(openRequests)
	for _, n := range nodes {
		if n.lost == nil {
			waiting[n] = request(n)
			steps.beginStep(r.env.Trace, n, waiting[n])
			n.Send(waiting[n])
		}
	}
	defer func() {
		for n, request := range waiting {
			n.StopWaitingFor(request)
			steps[n].End(context.Cause(timed))
		}
	}()
	for len(waiting) > 0 {
		events := r.takeEvents(timed, time.Time{})
		switch {
		case len(events) > 0:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			return slices.DeleteFunc(slices.Clone(nodes), func(n *host) bool { return waiting[n] == nil }), nil
		}
		for _, event := range events {
			if e, ok := event.(message); ok && waiting[e.from] != nil && wire.IsReplyTo(waiting[e.from], e.m) {
				handle(e.from, e.m)
				delete(waiting, e.from)
				steps[e.from].End(refusalOf(e.m))
				continue
			}
			r.handleEvent(event)
			if e, ok := event.(disconnection); ok {
				delete(waiting, e.from)
				steps[e.from].End(e.err)
			}
		}
	}
	return nil, nil
}

// openRequests contains the current trace step of each node that has not replied yet. It has no step for requests that
// are not traced.
type openRequests map[*host]trace.Step

func (a openRequests) beginStep(r *trace.Recorder, n *host, request wire.Message) {
	step := ""
	switch request.(type) {
	case *wire.LockDecision:
		step = trace.DecisionLock
	case *wire.Survey:
		step = trace.Survey
	case *wire.Prepare:
		step = trace.Claim
	}
	if r != nil && step != "" {
		a[n] = r.Begin(trace.Row{Host: n.def.Name}, step)
	}
}

// refusalOf returns the node's reason for refusing a request, or nil if it has not refused.
func refusalOf(answer wire.Message) error {
	switch m := answer.(type) {
	case *wire.Refused:
		return errors.New(m.Reason)
	case *wire.ClaimConflict:
		return errors.New(m.Reason)
	}
	return nil
}

// runStep calls f and records in the trace how long it took.
func (r *reservation) runStep(step string, f func() error) error {
	return r.env.Trace.Do(r.env.TraceRow, step, f)
}
