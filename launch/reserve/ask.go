package reserve

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"remshell/launch/node"
	"remshell/wire"
)

// One host's silence is one host's (TRUST-36): each question has a time of its own, and who
// does not answer in it is given up, with an error about him alone.

// lookTime is how long a host may take to answer who only wants to know something.
const lookTime = 5 * time.Second

// gateTime is how long the queue host may take to open the gate: as long as a helper lets
// another one hold it, and then some.
const gateTime = 40 * time.Second

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
	waiting := make(map[*host]wire.Message)
	for _, n := range nodes {
		if n.lost == nil {
			waiting[n] = question(n)
			n.Send(waiting[n])
		}
	}
	defer func() {
		for n, question := range waiting {
			n.GiveUp(question)
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
				continue
			}
			r.handle(event)
			if e, ok := event.(disconnected); ok {
				delete(waiting, e.from)
			}
		}
	}
	return nil, nil
}
