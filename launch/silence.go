package launch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"remshell/wire"
)

// One host's silence is one host's (TRUST-36): each question has a time of its own, and who
// does not answer in it is given up, with an error about him alone.

// lookTime is how long a host may take to answer who only wants to know something.
const lookTime = 5 * time.Second

// gateTime is how long the queue host may take to open the gate: as long as a helper lets
// another one hold it, and then some.
const gateTime = 40 * time.Second

// silence is the error of a host that was asked something and did not answer.
type silence struct{ limit time.Duration }

func (s silence) Error() string {
	return fmt.Sprintf("connected, and then silent for %g s", s.limit.Seconds())
}

// Code is what went wrong, for programs.
func (s silence) Code() string { return "silent" }

// answerTime is how long a node may take to answer what a start asks: the connect timeout.
func (b *booking) answerTime() time.Duration { return cmp.Or(b.env.Greet, 10*time.Second) }

// ask puts a question to nodes, and waits until each has answered or is lost. heard takes
// what a node says and reports whether that was the answer. Who says nothing for as long as
// limit is lost.
func (b *booking) ask(ctx context.Context, limit time.Duration, nodes []*node, question func(*node) wire.Message, heard func(*node, wire.Message) bool) error {
	patient, done := b.env.pauses.within(ctx, limit, silence{limit})
	defer done()
	waiting, err := b.inquire(patient, nodes, question, heard)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for n := range waiting {
		if _, own := b.own[n]; own { // the job's own nodes are not ours to give up
			return fmt.Errorf("%s: %w", n.def.Name, silence{limit})
		}
		n.lost = silence{limit}
		go n.conn.Abandon()
	}
	return nil
}

// inquire is ask without a limit of its own. It returns those that have not answered when
// ctx ended, and why it did.
func (b *booking) inquire(ctx context.Context, nodes []*node, question func(*node) wire.Message, heard func(*node, wire.Message) bool) (map[*node]wire.Message, error) {
	waiting := make(map[*node]wire.Message)
	for _, n := range nodes {
		if n.lost == nil {
			waiting[n] = question(n)
			n.send(waiting[n])
		}
	}
	defer func() {
		for n, question := range waiting {
			n.gate.giveUp(question)
		}
	}()
	for len(waiting) > 0 {
		events := b.events.take(ctx, time.Time{})
		if len(events) == 0 {
			return waiting, context.Cause(ctx)
		}
		for _, event := range events {
			if e, ok := event.(said); ok && waiting[e.from] != nil && heard(e.from, e.m) {
				delete(waiting, e.from)
				continue
			}
			b.hear(event)
			if e, ok := event.(ended); ok {
				delete(waiting, e.from)
			}
		}
	}
	return nil, nil
}
