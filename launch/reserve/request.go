package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"remshell/launch/node"
	"remshell/trace"
	"remshell/wire"
)

// A host that does not reply affects no other host (TRUST-36): each request has its own time limit, and
// a host that exceeds it is given up, with an error about that host alone.

// queryTimeout is how long a host may take to reply to a query that changes nothing.
const queryTimeout = 5 * time.Second

// A message is a message from a host.
type message struct {
	from *host
	m    wire.Message
}

// A disconnected event says that a host's connection has ended.
type disconnected struct {
	from *host
	err  error
}

// takeEvents returns the events from the inbox. Events of nodes that the reservation does not have are left
// as they are, and so ignored.
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
				events[i] = disconnected{n, e.Err}
			}
		}
	}
	return events
}

// replyTimeout returns how long a node may take to reply to a request of a start: the connect timeout.
func (r *reservation) replyTimeout() time.Duration { return cmp.Or(r.env.GreetTimeout, 10*time.Second) }

// requestEach sends a request to each node, and waits until each has replied or is lost. isReply handles a
// message and reports whether it was the reply. A node that does not reply within limit is lost.
func (r *reservation) requestEach(ctx context.Context, limit time.Duration, nodes []*host, request func(*host) wire.Message, isReply func(*host, wire.Message) bool) error {
	timed, done := r.env.StopTimes.Within(ctx, limit, node.NoAnswerError{Limit: limit})
	defer done()
	waiting, err := r.requestUntil(timed, nodes, request, isReply)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for n := range waiting {
		if n.ofJob { // the job's own nodes must not be closed here
			return fmt.Errorf("%s: %w", n.def.Name, node.NoAnswerError{Limit: limit})
		}
		n.lost = node.NoAnswerError{Limit: limit}
		go n.Abandon()
	}
	return nil
}

// requestUntil is requestEach without a limit of its own. If ctx ends first, it returns the nodes that have
// not replied, with their requests, and the cause.
func (r *reservation) requestUntil(ctx context.Context, nodes []*host, request func(*host) wire.Message, isReply func(*host, wire.Message) bool) (map[*host]wire.Message, error) {
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
			steps[n].End(context.Cause(ctx))
		}
	}()
	for len(waiting) > 0 {
		events := r.takeEvents(ctx, time.Time{})
		if len(events) == 0 {
			return waiting, context.Cause(ctx)
		}
		for _, event := range events {
			if e, ok := event.(message); ok && waiting[e.from] != nil && isReply(e.from, e.m) {
				delete(waiting, e.from)
				steps[e.from].End(refusalOf(e.m))
				continue
			}
			r.handleEvent(event)
			if e, ok := event.(disconnected); ok {
				delete(waiting, e.from)
				steps[e.from].End(e.err)
			}
		}
	}
	return nil, nil
}

// openRequests holds the trace steps of open requests. Only some kinds of requests have a trace step.
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

// refusalOf returns the reason in a reply that refuses a request, or nil if the reply does not refuse.
func refusalOf(answer wire.Message) error {
	switch m := answer.(type) {
	case *wire.Refused:
		return errors.New(m.Reason)
	case *wire.ClaimConflict:
		return errors.New(m.Reason)
	}
	return nil
}

// runStep calls do as a step of mpiexec in the trace.
func (r *reservation) runStep(step string, do func() error) error {
	return r.env.Trace.Do(r.env.TraceRow, step, do)
}
