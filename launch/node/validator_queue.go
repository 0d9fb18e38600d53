package node

import (
	"time"

	"remshell/wire"
)

// A queueState records which messages about the queue and about changed claims a helper may send without a request.
type queueState struct {
	waiting       bool      // the request is in the queue
	dequeued      time.Time // when Dequeue was sent; zero if it was not
	watchesClaims bool      // WatchClaims was sent
	positionRate  RateLimit
	changeRate    RateLimit
}

const (
	maxPositionRate = 1
	maxChangeRate   = 10
)

// checkPosition checks a message with a position in the queue. The message is a reply, or a report that the position
// has changed.
func (v *Validator) checkPosition(m *wire.QueuePosition) (wire.Message, error) {
	switch {
	case v.requestsSent.expects(m):
		return v.requestsSent.takeReply(m)
	case v.queue.waiting:
		return v.queue.positionRate.allow(v.now(), maxPositionRate, m), nil
	case !v.queue.dequeued.IsZero():
		return nil, v.checkLate(m, v.queue.dequeued)
	}
	return nil, ErrNotAsked
}

// checkChanged checks a node's report of changed claims.
func (q *queueState) checkChanged(now time.Time, m *wire.ClaimsChanged) (wire.Message, error) {
	if !q.watchesClaims {
		return nil, ErrNotAsked
	}
	return q.changeRate.allow(now, maxChangeRate, m), nil
}

// mustStartTimer reports whether the caller must start a timer for a postponed message. It returns true
// once for each postponed message that has no timer.
func (q *queueState) mustStartTimer() bool {
	for _, p := range []*RateLimit{&q.positionRate, &q.changeRate} {
		if p.postponed != nil && !p.timerRunning {
			p.timerRunning = true
			return true
		}
	}
	return false
}

// takePostponed removes and returns the postponed messages. It is called a second after they were postponed.
func (q *queueState) takePostponed() (all []wire.Message) {
	for _, p := range []*RateLimit{&q.positionRate, &q.changeRate} {
		if p.postponed != nil {
			all = append(all, p.postponed)
		}
		p.postponed, p.timerRunning = nil, false
	}
	return all
}

// A RateLimit limits how many messages of one kind are accepted each second. The last message above the
// limit is postponed to the next second. Earlier ones are dropped.
type RateLimit struct {
	began        time.Time
	count        int
	postponed    wire.Message
	timerRunning bool // a timer will deliver postponed
	dropped      int  // how many messages were not let through
}

// allow returns m. If m comes after perSecond others in this second, allow postpones m and returns nil.
func (p *RateLimit) allow(now time.Time, perSecond int, m wire.Message) wire.Message {
	if now.Sub(p.began) >= time.Second {
		p.began, p.count = now, 0
	}
	if p.count++; p.count > perSecond {
		p.postponed = m
		p.dropped++
		return nil
	}
	p.postponed = nil
	return m
}
