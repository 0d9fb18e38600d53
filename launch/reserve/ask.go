package reserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"remshell/launch/node"
	"remshell/timeline"
	"remshell/wire"
)

// One host's silence is one host's (TRUST-36): each question has a time of its own, and who
// does not answer in it is given up, with an error about him alone.

// lookTime is how long a host may take to answer who only wants to know something.
const lookTime = 5 * time.Second

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

// events takes what has come to the inbox. Of a node that the reservation does not have
// nothing is wanted.
func (r *reservation) events(ctx context.Context, deadline time.Time) []any {
	events := r.env.Inbox.Take(ctx, deadline)
	for i, event := range events {
		switch e := event.(type) {
		case node.Message:
			if n := r.byNode[e.From]; n != nil {
				events[i] = message{n, e.M}
			}
		case node.Disconnected:
			if n := r.byNode[e.From]; n != nil {
				events[i] = disconnected{n, e.Err}
			}
		}
	}
	return events
}

// answerTime is how long a node may take to answer what a start asks: the connect timeout.
func (r *reservation) answerTime() time.Duration { return cmp.Or(r.env.Greet, 10*time.Second) }

// ask puts a question to nodes, and waits until each has answered or is lost. heard takes
// what a node says and reports whether that was the answer. Who says nothing for as long as
// limit is lost.
func (r *reservation) ask(ctx context.Context, limit time.Duration, nodes []*host, question func(*host) wire.Message, heard func(*host, wire.Message) bool) error {
	patient, done := r.env.Pauses.Within(ctx, limit, node.Silence{Limit: limit})
	defer done()
	waiting, err := r.inquire(patient, nodes, question, heard)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for n := range waiting {
		if n.own { // the job's own nodes are not ours to give up
			return fmt.Errorf("%s: %w", n.def.Name, node.Silence{Limit: limit})
		}
		n.lost = node.Silence{Limit: limit}
		go n.Abandon()
	}
	return nil
}

// inquire is ask without a limit of its own. It returns those that have not answered when
// ctx ended, and why it did.
func (r *reservation) inquire(ctx context.Context, nodes []*host, question func(*host) wire.Message, heard func(*host, wire.Message) bool) (map[*host]wire.Message, error) {
	waiting, steps := make(map[*host]wire.Message), make(asking)
	for _, n := range nodes {
		if n.lost == nil {
			waiting[n] = question(n)
			steps.begin(r.env.Timeline, n, waiting[n])
			n.Send(waiting[n])
		}
	}
	defer func() {
		for n, question := range waiting {
			n.GiveUp(question)
			steps[n].End(context.Cause(ctx))
		}
	}()
	for len(waiting) > 0 {
		events := r.events(ctx, time.Time{})
		if len(events) == 0 {
			return waiting, context.Cause(ctx)
		}
		for _, event := range events {
			if e, ok := event.(message); ok && waiting[e.from] != nil && heard(e.from, e.m) {
				delete(waiting, e.from)
				steps[e.from].End(declined(e.m))
				continue
			}
			r.handle(event)
			if e, ok := event.(disconnected); ok {
				delete(waiting, e.from)
				steps[e.from].End(e.err)
			}
		}
	}
	return nil, nil
}

// Asking is the questions under way that a timeline has a word for.
type asking map[*host]timeline.Step

func (a asking) begin(r *timeline.Recorder, n *host, question wire.Message) {
	word := ""
	switch question.(type) {
	case *wire.Gate:
		word = timeline.Gate
	case *wire.Survey:
		word = timeline.Survey
	case *wire.Prepare:
		word = timeline.Claim
	}
	if r != nil && word != "" {
		a[n] = r.Begin(timeline.Row{Host: n.def.Name}, word)
	}
}

// declined is why a host does not do what it was asked for, as its answer says; nil: it does.
func declined(answer wire.Message) error {
	switch m := answer.(type) {
	case *wire.Refused:
		return errors.New(m.Reason)
	case *wire.Taken:
		return errors.New(m.Reason)
	}
	return nil
}

// timed does something that the timeline has as a step of mpiexec.
func (r *reservation) timed(step string, do func() error) error {
	return r.env.Timeline.Do(r.env.Row, step, do)
}
