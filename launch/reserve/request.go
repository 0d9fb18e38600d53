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

// One host's silence is one host's (TRUST-36): each question has a time of its own, and who
// does not answer in it is given up, with an error about him alone.

// queryTimeout is how long a host may take to answer who only wants to know something.
const queryTimeout = 5 * time.Second

// A message is what a host says.
type message struct {
	from *host
	m    wire.Message
}

// A disconnected host is one whose connection has ended.
type disconnected struct {
	from *host
	err  error
}

// takeEvents takes what has come to the inbox. Of a node that the reservation does not have
// nothing is wanted.
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

// replyTimeout is how long a node may take to answer what a start asks: the connect timeout.
func (r *reservation) replyTimeout() time.Duration { return cmp.Or(r.env.GreetTimeout, 10*time.Second) }

// requestEach puts a question to nodes, and waits until each has answered or is lost. heard takes
// what a node says and reports whether that was the answer. Who says nothing for as long as
// limit is lost.
func (r *reservation) requestEach(ctx context.Context, limit time.Duration, nodes []*host, question func(*host) wire.Message, heard func(*host, wire.Message) bool) error {
	patient, done := r.env.StopTimes.Within(ctx, limit, node.NoAnswerError{Limit: limit})
	defer done()
	waiting, err := r.requestUntil(patient, nodes, question, heard)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for n := range waiting {
		if n.ofJob { // the job's own nodes are not ours to give up
			return fmt.Errorf("%s: %w", n.def.Name, node.NoAnswerError{Limit: limit})
		}
		n.lost = node.NoAnswerError{Limit: limit}
		go n.Abandon()
	}
	return nil
}

// requestUntil is ask without a limit of its own. It returns those that have not answered when
// ctx ended, and why it did.
func (r *reservation) requestUntil(ctx context.Context, nodes []*host, question func(*host) wire.Message, heard func(*host, wire.Message) bool) (map[*host]wire.Message, error) {
	waiting, steps := make(map[*host]wire.Message), make(openRequests)
	for _, n := range nodes {
		if n.lost == nil {
			waiting[n] = question(n)
			steps.beginStep(r.env.Trace, n, waiting[n])
			n.Send(waiting[n])
		}
	}
	defer func() {
		for n, question := range waiting {
			n.StopWaitingFor(question)
			steps[n].End(context.Cause(ctx))
		}
	}()
	for len(waiting) > 0 {
		events := r.takeEvents(ctx, time.Time{})
		if len(events) == 0 {
			return waiting, context.Cause(ctx)
		}
		for _, event := range events {
			if e, ok := event.(message); ok && waiting[e.from] != nil && heard(e.from, e.m) {
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

// Asking is the questions under way that a timeline has a word for.
type openRequests map[*host]trace.Step

func (a openRequests) beginStep(r *trace.Recorder, n *host, question wire.Message) {
	word := ""
	switch question.(type) {
	case *wire.LockDecision:
		word = trace.DecisionLock
	case *wire.Survey:
		word = trace.Survey
	case *wire.Prepare:
		word = trace.Claim
	}
	if r != nil && word != "" {
		a[n] = r.Begin(trace.Row{Host: n.def.Name}, word)
	}
}

// refusalOf is why a host does not do what it was asked for, as its answer says; nil: it does.
func refusalOf(answer wire.Message) error {
	switch m := answer.(type) {
	case *wire.Refused:
		return errors.New(m.Reason)
	case *wire.ClaimConflict:
		return errors.New(m.Reason)
	}
	return nil
}

// runStep does something that the timeline has as a step of mpiexec.
func (r *reservation) runStep(step string, do func() error) error {
	return r.env.Trace.Do(r.env.TraceRow, step, do)
}
