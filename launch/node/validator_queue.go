package node

import (
	"time"

	"remshell/wire"
)

// queueAnswers is what the host of the queue may tell, without being asked each time.
type queueAnswers struct {
	waiting   bool      // in the queue
	dequeued  time.Time // zero: never
	watched   bool      // it is to tell of claims that go
	positions pace
	changes   pace
}

func newQueueAnswers() queueAnswers {
	return queueAnswers{positions: pace{most: 1}, changes: pace{most: 10}}
}

// moved hears that the place in the queue has changed.
func (q *queueAnswers) moved(clock linkClock, m *wire.Queued) (wire.Message, error) {
	switch {
	case q.waiting:
		return q.positions.pass(clock.now(), m), nil
	case !q.dequeued.IsZero():
		return nil, clock.late(m, q.dequeued)
	}
	return nil, errUnasked
}

// changed hears that a claim has gone.
func (q *queueAnswers) changed(now time.Time, m *wire.Changed) (wire.Message, error) {
	if !q.watched {
		return nil, errUnasked
	}
	return q.changes.pass(now, m), nil
}

// postpones reports whether something new is kept for the next second, and notes that its end
// is waited for.
func (q *queueAnswers) postpones() bool {
	for _, p := range []*pace{&q.positions, &q.changes} {
		if p.kept != nil && !p.awaited {
			p.awaited = true
			return true
		}
	}
	return false
}

// postponed returns what was kept for a second that has come.
func (q *queueAnswers) postponed() (all []wire.Message) {
	for _, p := range []*pace{&q.positions, &q.changes} {
		if p.kept != nil {
			all = append(all, p.kept)
		}
		p.kept, p.awaited = nil, false
	}
	return all
}

// A pace lets so many messages of one kind through in a second. Of the others the last one
// is kept for the next second.
type pace struct {
	most    int
	began   time.Time
	count   int
	kept    wire.Message
	awaited bool // somebody comes for it in a second
	missed  int  // how many were not let through
}

// pass is the message, or nil if it is too early for it.
func (p *pace) pass(now time.Time, m wire.Message) wire.Message {
	if now.Sub(p.began) >= time.Second {
		p.began, p.count = now, 0
	}
	if p.count++; p.count > p.most {
		p.kept = m
		p.missed++
		return nil
	}
	p.kept = nil
	return m
}
