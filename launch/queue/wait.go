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
A position is a request's position in the queue (placement.md 6). It lasts as long as the request's ticket: a file
that the helper on the queue host keeps locked. The helper exits when mpiexec exits, and the kernel then releases
the lock.

	in the middle   one connection, to the queue host; it sends QueuePosition at each change
	at the head     one to each node as well; any change there is worth another attempt

A request that finds tickets in the queue is refused, or goes to the end of the queue. It overtakes another request
only if that one blocks the queue (see headObserver). An mpiexec that a rank starts on the CPUs of its own job does
not wait behind the queue. It affects no other job, and the requests in the queue may be waiting for that job.
*/
type position struct {
	hasTicket    bool
	ahead, total int
	lostWhy      string    // why the ticket was lost; empty if it was not
	evictedBy    string    // user who removed the request from the queue; empty if none has
	changed      bool      // claims of some node have changed
	began        time.Time // when the request began to wait; zero if it has not
	lastReport   string    // last line about the position that was printed

	earlierRequests map[job.ID]bool // requests that were ahead when this one was enqueued, at any queue host; nil if it was not
	moved           *hostMove       // the move from a lost queue host; nil if there was none

	head         job.Ticket   // first ticket of the queue
	headObserver headObserver // observes head
}

// These durations determine when a waiting request reports its position, tries to start again and reconnects
// (placement.md 6.5, 6.7).
const (
	reportAfter = 2 * time.Second
	minRetry    = 100 * time.Millisecond // shortest time between attempts, however much changes
	maxRetry    = 10 * time.Second       // longest time between attempts, if nothing changes
	retryJitter = 2 * time.Second
	minRejoin   = time.Second // first delay between attempts to reach a queue host; it doubles
	maxRejoin   = 30 * time.Second
)

// ErrWaited is returned when a request has waited for the maximum time that its user allows.
var ErrWaited = errors.New("the request has waited as long as --wait allows")

// CodeUnreachable is the error code for a request that waits because hosts that the user has named cannot be
// reached.
const CodeUnreachable = "unreachable"

// IsWaiting reports whether the request has begun to wait.
func (q *Queue) IsWaiting() bool { return !q.position.began.IsZero() }

// Waited returns how long the request has waited.
func (q *Queue) Waited() time.Duration { return time.Since(q.position.began) }

// Position returns the last known position of the request in the queue. The first request has position 1.
func (q *Queue) Position() int { return q.position.ahead + 1 }

// BeginWait records that the request begins to wait. The returned context ends with ErrWaited after the maximum time
// that the user allows.
func (q *Queue) BeginWait(ctx context.Context) (context.Context, context.CancelFunc) {
	q.position.began = time.Now()
	if limit := q.req.TimeLimits.Wait; limit > 0 {
		return q.env.StopTimes.Within(ctx, limit, ErrWaited)
	}
	return context.WithCancel(ctx)
}

// WaitForChance waits until another attempt to start is worthwhile, and then returns nil. For the first request of the
// queue, this is the case whenever claims have changed. If it returns an error, the request ends.
func (q *Queue) WaitForChance(ctx context.Context, failed *plan.Error) error {
	p := &q.position
	now := time.Now()
	retry := now.Add(maxRetry + rand.N(retryJitter))
	if over := now.Add(failed.DelayLeft); failed.Code == plan.CodeDelayed && over.Before(retry) {
		retry = over // the next attempt then takes any node set
	}
	earliest := now.Add(minRetry)
	behind := false
	q.avoidedNodes = ""
	for ctx.Err() == nil {
		now = time.Now()
		q.reportPosition(failed, now)
		switch {
		case p.evictedBy != "":
			return &usererr.Error{Text: q.host.Name() + ": the request was removed from the queue by " + p.evictedBy, Code: job.ExitInternal}
		case !q.isBatchManaged() && (!p.hasTicket || q.host.Lost() != nil):
			if err := q.rejoin(ctx, failed); err != nil {
				return err
			}
		case p.moved != nil && !now.Before(p.moved.next):
			if err := q.recount(ctx); err != nil {
				return err
			}
		case p.ahead > 0 && !q.Bypass:
			if q.observeHeadIfDue(ctx, now); q.avoidedNodes != "" {
				return nil
			}
			if behind = true; p.headObserver.looks == 0 { // a request that is not at the head needs no other host (placement.md 6.5)
				q.helpers.DisconnectAllBut(q.host)
			}
		case behind || p.changed && !now.Before(earliest) || !now.Before(retry):
			p.changed = false
			return nil
		default:
			q.helpers.WatchClaims(ctx, now)
		}
		if p.changed {
			retry = earliest
		}
		q.helpers.ReceiveEvents(ctx, q.nextWake(now, retry))
	}
	return context.Cause(ctx)
}

// nextWake returns the time at which a waiting request has to act even if no message arrives. retry is the time of its
// next attempt.
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

// reportPosition prints the request's position when it has waited for reportAfter, and again whenever the
// position changes.
func (q *Queue) reportPosition(failed *plan.Error, now time.Time) {
	p := &q.position
	if now.Sub(p.began) < reportAfter || !p.hasTicket && !q.isBatchManaged() {
		return
	}
	why := waitReason(failed, q.firstAttempt.Add(q.req.NodeSet.Delay))
	line := fmt.Sprintf("waiting in the queue, position %d of %d (%s)", p.ahead+1, max(p.total, p.ahead+1), why)
	if q.isBatchManaged() {
		line = fmt.Sprintf("waiting until other runs of mpiexec in %s end (%s)", q.req.RM.ID(), why)
	}
	if line != p.lastReport {
		p.lastReport = line
		q.env.Say(line)
	}
}

// waitReason returns a short phrase that says why the request waits. If it waits for a better node set, until is the
// end of that wait.
func waitReason(failed *plan.Error, until time.Time) string {
	ranks := fmt.Sprintf("%d of %s", failed.FreeRanks, text.Count(failed.WantedRanks, "rank"))
	switch code := failed.Code; {
	case code == plan.CodeDelayed:
		return fmt.Sprintf("mpiexec waits until %s for a better node set", until.Format(time.TimeOnly))
	case code == plan.CodeQueueBusy:
		return "other requests are ahead"
	case failed.WantedRanks == 0:
	case code == plan.CodeNotEnough:
		return "there are free CPUs for only " + ranks
	case code == plan.CodeLimits:
		return "limits allow only " + ranks
	case code == plan.CodeNoGPU:
		return "there are free GPUs for only " + ranks
	case code == plan.CodeNoSet:
		return "the largest node set has room for only " + ranks
	case code == plan.CodeNotContiguous:
		return "neighbouring nodes have room for only " + ranks
	}
	return failed.Text
}

// waitAndReceive handles events for the duration d.
func (q *Queue) waitAndReceive(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		q.helpers.ReceiveEvents(ctx, until)
	}
	return context.Cause(ctx)
}

// ClaimsChanged records that claims on a host have changed, so that another attempt is worthwhile.
func (q *Queue) ClaimsChanged() { q.position.changed = true }

// PositionReceived handles a message from the queue host about this request's position.
func (q *Queue) PositionReceived(m *wire.QueuePosition) {
	p := &q.position
	p.evictedBy = cmp.Or(p.evictedBy, m.EvictedBy)
	if p.hasTicket, p.lostWhy = m.Err == "" && m.EvictedBy == "", m.Err; p.moved != nil {
		p.moved.next = time.Time{} // after a move, ticket numbers do not tell the order: count again
		return
	}
	p.ahead, p.total, p.head = m.Ahead, m.Total, m.Head
}

// AwaitChange waits until claims on a host have changed, until the given time, or for maxRetry, whichever comes first.
// The caller must have sent WatchClaims to the hosts.
func (q *Queue) AwaitChange(ctx context.Context, until time.Time) error {
	if err := q.waitAndReceive(ctx, min(minRetry, time.Until(until))); err != nil {
		return err
	}
	if latest := time.Now().Add(maxRetry); latest.Before(until) {
		until = latest
	}
	for !q.position.changed && time.Now().Before(until) && ctx.Err() == nil {
		q.helpers.ReceiveEvents(ctx, until)
	}
	q.position.changed = false
	return context.Cause(ctx)
}
