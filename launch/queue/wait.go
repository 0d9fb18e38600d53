package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/text"
	"remshell/usererr"
	"remshell/wire"
)

/*
A position is that of a request in the queue (placement.md 6). A file on the queue host,
locked by the helper there, is the position; it is gone when the helper is, and the helper
when we are.

	in the middle   one connection, to the queue host; Queued tells of each step ahead
	at the head     one to each node as well; any change there is worth another attempt

Nobody passes: who has no ticket and finds one is refused, or goes to the end. But a launch
from inside a rank, on CPUs that its own job has, concerns nobody else; and those ahead may
wait for the very job that waits for it.
*/
type position struct {
	hasPlace     bool
	ahead, total int
	lostWhy      string    // why there is no place any more; empty: there is, or never was
	evictedBy    string    // the user who has taken the request out of the queue; empty: nobody has
	changed      bool      // something changed at a node
	began        time.Time // of waiting; zero: it has not come to that
	lastReport   string    // the last line the user saw

	elders map[job.ID]bool // those that waited when we came, at any queue host; nil: we did not come to wait
	moved  *hostMove       // from a queue host that was lost; nil: it is the first one

	head         job.Ticket   // the first of those ahead
	headObserver headObserver // of it
}

// Times of waiting (placement.md 6.5, 6.7).
const (
	reportAfter = 2 * time.Second
	minRetry    = 100 * time.Millisecond // at the earliest, however much changes
	maxRetry    = 10 * time.Second       // however quiet the nodes are
	retryJitter = 2 * time.Second
	minRejoin   = time.Second // at the queue host, doubling
	maxRejoin   = 30 * time.Second
)

// ErrWaited is why a request ends that has waited for as long as it may.
var ErrWaited = errors.New("the longest time to wait has passed")

// CodeUnreachable is the code of a request that waits for hosts its user named.
const CodeUnreachable = "unreachable"

// IsWaiting reports whether the request has begun to wait.
func (q *Queue) IsWaiting() bool { return !q.position.began.IsZero() }

// Waited is for how long it has waited.
func (q *Queue) Waited() time.Duration { return time.Since(q.position.began) }

// Position is its position, from 1, as far as is known.
func (q *Queue) Position() int { return q.position.ahead + 1 }

// BeginWait begins to wait: the context ends when that has been for as long as it may (ErrWaited).
func (q *Queue) BeginWait(ctx context.Context) (context.Context, context.CancelFunc) {
	q.position.began = time.Now()
	if limit := q.req.TimeLimits.Wait; limit > 0 {
		return q.env.StopTimes.Within(ctx, limit, ErrWaited)
	}
	return context.WithCancel(ctx)
}

// WaitForChance returns when another attempt is worth while: when the request has come to the
// head, and then whenever something has changed. An error ends the request.
func (q *Queue) WaitForChance(ctx context.Context, failed *plan.Error) error {
	at := &q.position
	now := time.Now()
	retry := now.Add(maxRetry + rand.N(retryJitter))
	if over := now.Add(failed.DelayLeft); failed.Code == plan.CodeDelayed && over.Before(retry) {
		retry = over // and then it takes what there is
	}
	calm := now.Add(minRetry)
	behind := false
	q.avoidedNodes = ""
	for ctx.Err() == nil {
		now = time.Now()
		q.reportPosition(failed, now)
		switch {
		case at.evictedBy != "":
			return &usererr.Error{Text: q.host.Name() + ": taken out of the queue by " + at.evictedBy, Code: job.ExitInternal}
		case !q.isBatchManaged() && (!at.hasPlace || q.host.Lost() != nil):
			if err := q.rejoin(ctx, failed); err != nil {
				return err
			}
		case at.moved != nil && !now.Before(at.moved.next):
			if err := q.recount(ctx); err != nil {
				return err
			}
		case at.ahead > 0 && !q.Bypass:
			if q.observeHeadIfDue(ctx, now); q.avoidedNodes != "" {
				return nil
			}
			if behind = true; at.headObserver.looks == 0 { // who waits in the middle needs no other host (placement.md 6.5)
				q.helpers.DisconnectAllBut(q.host)
			}
		case behind || at.changed && !now.Before(calm) || !now.Before(retry):
			at.changed = false
			return nil
		default:
			q.helpers.WatchClaims(ctx, now)
		}
		if at.changed {
			retry = calm
		}
		q.helpers.ReceiveEvents(ctx, q.nextWake(now, retry))
	}
	return context.Cause(ctx)
}

// nextWake is when a waiting request has something to do though nothing happened.
func (q *Queue) nextWake(now, retry time.Time) time.Time {
	next := now.Add(maxRetry)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if q.position.lastReport == "" {
		earlier(q.position.began.Add(reportAfter))
	}
	if q.position.ahead > 0 && !q.Bypass && q.hasForeignHead() {
		earlier(q.position.headObserver.next)
	}
	if q.position.moved != nil {
		earlier(q.position.moved.next)
	}
	if q.position.ahead == 0 || q.Bypass {
		earlier(retry)
		for _, again := range q.helpers.RetryTimes() {
			earlier(again)
		}
	}
	return next
}

// reportPosition says where we stand: after a while, and whenever it has changed.
func (q *Queue) reportPosition(failed *plan.Error, now time.Time) {
	at := &q.position
	if now.Sub(at.began) < reportAfter || !at.hasPlace && !q.isBatchManaged() {
		return
	}
	why := waitReason(failed, q.firstAttempt.Add(q.req.NodeSet.Delay))
	line := fmt.Sprintf("waiting for resources, position %d of %d (%s)", at.ahead+1, max(at.total, at.ahead+1), why)
	if q.isBatchManaged() {
		line = fmt.Sprintf("waiting for other launches in %s (%s)", q.req.RM.ID(), why)
	}
	if line != at.lastReport {
		at.lastReport = line
		q.env.Say(line)
	}
}

// waitReason says in a few words why a request waits. A better node set is waited for until a time.
func waitReason(failed *plan.Error, until time.Time) string {
	fit := fmt.Sprintf("%d of %s", failed.FreeRanks, text.Count(failed.WantedRanks, "rank"))
	switch code := failed.Code; {
	case code == plan.CodeDelayed:
		return "for a better node set until " + until.Format(time.TimeOnly)
	case code == plan.CodeQueueBusy:
		return "other requests are first"
	case failed.WantedRanks == 0:
	case code == plan.CodeNotEnough:
		return "free CPUs for " + fit
	case code == plan.CodeLimits:
		return "limits let in " + fit
	case code == plan.CodeNoGPU:
		return "free GPUs for " + fit
	case code == plan.CodeNoSet:
		return "the largest node set has room for " + fit
	case code == plan.CodeNotContiguous:
		return "neighbouring nodes have room for " + fit
	}
	return failed.Text
}

// waitAndReceive waits, and hears meanwhile what is said.
func (q *Queue) waitAndReceive(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		q.helpers.ReceiveEvents(ctx, until)
	}
	return context.Cause(ctx)
}

// ClaimsChanged is that something has changed on a host: another attempt is worth while.
func (q *Queue) ClaimsChanged() { q.position.changed = true }

// PositionReceived takes what the host that keeps the queue says of the position.
func (q *Queue) PositionReceived(m *wire.QueuePosition) {
	at := &q.position
	at.evictedBy = cmp.Or(at.evictedBy, m.EvictedBy)
	if at.hasPlace, at.lostWhy = m.Err == "" && m.EvictedBy == "", m.Err; at.moved != nil {
		at.moved.next = time.Time{} // numbers do not count
		return
	}
	at.ahead, at.total, at.head = m.Ahead, m.Total, m.Head
}

// isReply takes that for an answer.
func (q *Queue) isReply(m wire.Message) bool {
	queued, ok := m.(*wire.QueuePosition)
	if ok {
		q.PositionReceived(queued)
	}
	return ok
}

// AwaitChange returns when a claim has come or gone on one of the hosts, which tell of it, or when it was quiet for long, and at until
// at the latest.
func (q *Queue) AwaitChange(ctx context.Context, until time.Time) error {
	if err := q.waitAndReceive(ctx, min(minRetry, time.Until(until))); err != nil {
		return err
	}
	if anyway := time.Now().Add(maxRetry); anyway.Before(until) {
		until = anyway
	}
	for !q.position.changed && time.Now().Before(until) && ctx.Err() == nil {
		q.helpers.ReceiveEvents(ctx, until)
	}
	q.position.changed = false
	return context.Cause(ctx)
}
