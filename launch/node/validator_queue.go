package node

import (
	"time"

	"remshell/wire"
)

// queueState is what the host of the queue may tell, without being asked each time.
type queueState struct {
	waiting       bool      // in the queue
	dequeued      time.Time // zero: never
	watchesClaims bool      // it is to tell of claims that go
	positionRate  rateLimit
	changeRate    rateLimit
}

func newQueueState() queueState {
	return queueState{positionRate: rateLimit{perSecond: 1}, changeRate: rateLimit{perSecond: 10}}
}

// checkPosition hears that the place in the queue has changed.
func (q *queueState) checkPosition(clock lateness, m *wire.QueuePosition) (wire.Message, error) {
	switch {
	case q.waiting:
		return q.positionRate.allow(clock.now(), m), nil
	case !q.dequeued.IsZero():
		return nil, clock.checkLate(m, q.dequeued)
	}
	return nil, errNotAsked
}

// checkChanged hears that a claim has gone.
func (q *queueState) checkChanged(now time.Time, m *wire.ClaimsChanged) (wire.Message, error) {
	if !q.watchesClaims {
		return nil, errNotAsked
	}
	return q.changeRate.allow(now, m), nil
}

// keepForLater reports whether something new is kept for the next second, and notes that its end
// is waited for.
func (q *queueState) keepForLater() bool {
	for _, p := range []*rateLimit{&q.positionRate, &q.changeRate} {
		if p.postponed != nil && !p.timerRunning {
			p.timerRunning = true
			return true
		}
	}
	return false
}

// takePostponed returns what was kept for a second that has come.
func (q *queueState) takePostponed() (all []wire.Message) {
	for _, p := range []*rateLimit{&q.positionRate, &q.changeRate} {
		if p.postponed != nil {
			all = append(all, p.postponed)
		}
		p.postponed, p.timerRunning = nil, false
	}
	return all
}

// A rateLimit lets so many messages of one kind through in a second. Of the others the last one
// is kept for the next second.
type rateLimit struct {
	perSecond    int
	began        time.Time
	count        int
	postponed    wire.Message
	timerRunning bool // somebody comes for it in a second
	dropped      int  // how many were not let through
}

// allow is the message, or nil if it is too early for it.
func (p *rateLimit) allow(now time.Time, m wire.Message) wire.Message {
	if now.Sub(p.began) >= time.Second {
		p.began, p.count = now, 0
	}
	if p.count++; p.count > p.perSecond {
		p.postponed = m
		p.dropped++
		return nil
	}
	p.postponed = nil
	return m
}
