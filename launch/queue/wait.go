package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/plan"
	"remshell/text"
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
	held         bool
	ahead, total int
	lost         string    // why there is no place any more; empty: there is, or never was
	evicted      string    // the user who has taken the request out of the queue; empty: nobody has
	news         bool      // something changed at a node
	began        time.Time // of waiting; zero: it has not come to that
	told         string    // the last line the user saw

	elders map[job.ID]bool // those that waited when we came, at any queue host; nil: we did not come to wait
	moved  *move           // from a queue host that was lost; nil: it is the first one

	head  job.Ticket // the first of those ahead
	watch headWatch  // of it
}

// Times of waiting (placement.md 6.5, 6.7).
const (
	tellAfter   = 2 * time.Second
	tryAgain    = 100 * time.Millisecond // at the earliest, however much changes
	tryAnyway   = 10 * time.Second       // however quiet the nodes are
	tryJitter   = 2 * time.Second
	rejoinFirst = time.Second // at the queue host, doubling
	rejoinMost  = 30 * time.Second
)

// ErrWaited is why a request ends that has waited for as long as it may.
var ErrWaited = errors.New("the longest time to wait has passed")

// Unreachable is the code of a request that waits for hosts its user named.
const Unreachable = "unreachable"

// Waits reports whether the request has begun to wait.
func (q *Queue) Waits() bool { return !q.position.began.IsZero() }

// Waited is for how long it has waited.
func (q *Queue) Waited() time.Duration { return time.Since(q.position.began) }

// Turn is its position, from 1, as far as is known.
func (q *Queue) Turn() int { return q.position.ahead + 1 }

// Begin begins to wait: the context ends when that has been for as long as it may (ErrWaited).
func (q *Queue) Begin(ctx context.Context) (context.Context, context.CancelFunc) {
	q.position.began = time.Now()
	if limit := q.req.Limits.Wait; limit > 0 {
		return q.env.Pauses.Within(ctx, limit, ErrWaited)
	}
	return context.WithCancel(ctx)
}

// Wait returns when another attempt is worth while: when the request has come to the
// head, and then whenever something has changed. An error ends the request.
func (q *Queue) Wait(ctx context.Context, failed *plan.Error) error {
	at := &q.position
	now := time.Now()
	retry := now.Add(tryAnyway + rand.N(tryJitter))
	if over := now.Add(failed.Left); failed.Code == plan.Delayed && over.Before(retry) {
		retry = over // and then it takes what there is
	}
	calm := now.Add(tryAgain)
	behind := false
	q.aside = ""
	for ctx.Err() == nil {
		now = time.Now()
		q.tell(failed, now)
		switch {
		case at.evicted != "":
			return &fault.Error{Text: q.keeper.Name() + ": taken out of the queue by " + at.evicted, Code: job.ExitInternal}
		case !q.granted() && (!at.held || q.keeper.Lost() != nil):
			if err := q.rejoin(ctx, failed); err != nil {
				return err
			}
		case at.moved != nil && !now.Before(at.moved.next):
			if err := q.recount(ctx); err != nil {
				return err
			}
		case at.ahead > 0 && !q.Passes:
			if q.watchHead(ctx, now); q.aside != "" {
				return nil
			}
			if behind = true; at.watch.looks == 0 { // who waits in the middle needs no other host (placement.md 6.5)
				q.crew.Scatter(q.keeper)
			}
		case behind || at.news && !now.Before(calm) || !now.Before(retry):
			at.news = false
			return nil
		default:
			q.crew.Watch(ctx, now)
		}
		if at.news {
			retry = calm
		}
		q.crew.Hear(ctx, q.wake(now, retry))
	}
	return context.Cause(ctx)
}

// wake is when a waiting request has something to do though nothing happened.
func (q *Queue) wake(now, retry time.Time) time.Time {
	next := now.Add(tryAnyway)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if q.position.told == "" {
		earlier(q.position.began.Add(tellAfter))
	}
	if q.position.ahead > 0 && !q.Passes && q.judgesHead() {
		earlier(q.position.watch.next)
	}
	if q.position.moved != nil {
		earlier(q.position.moved.next)
	}
	if q.position.ahead == 0 || q.Passes {
		earlier(retry)
		for _, again := range q.crew.Redials() {
			earlier(again)
		}
	}
	return next
}

// tell says where we stand: after a while, and whenever it has changed.
func (q *Queue) tell(failed *plan.Error, now time.Time) {
	at := &q.position
	if now.Sub(at.began) < tellAfter || !at.held && !q.granted() {
		return
	}
	why := reason(failed, q.headSince.Add(q.req.Set.Delay))
	line := fmt.Sprintf("waiting for resources, position %d of %d (%s)", at.ahead+1, max(at.total, at.ahead+1), why)
	if q.granted() {
		line = fmt.Sprintf("waiting for other launches in %s (%s)", q.req.RM.ID(), why)
	}
	if line != at.told {
		at.told = line
		q.env.Say(line)
	}
}

// reason says in a few words why a request waits. A better node set is waited for until a time.
func reason(failed *plan.Error, until time.Time) string {
	fit := fmt.Sprintf("%d of %s", failed.Free, text.Count(failed.Wanted, "rank"))
	switch code := failed.Code; {
	case code == plan.Delayed:
		return "for a better node set until " + until.Format(time.TimeOnly)
	case code == plan.QueueBusy:
		return "other requests are first"
	case failed.Wanted == 0:
	case code == plan.NotEnough:
		return "free CPUs for " + fit
	case code == plan.Limits:
		return "limits let in " + fit
	case code == plan.NoGPU:
		return "free GPUs for " + fit
	case code == plan.NoSet:
		return "the largest node set has room for " + fit
	case code == plan.NotContiguous:
		return "neighbouring nodes have room for " + fit
	}
	return failed.Text
}

// rest waits, and hears meanwhile what is said.
func (q *Queue) rest(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		q.crew.Hear(ctx, until)
	}
	return context.Cause(ctx)
}

// News is that something has changed on a host: another attempt is worth while.
func (q *Queue) News() { q.position.news = true }

// Queued takes what the host that keeps the queue says of the position.
func (q *Queue) Queued(m *wire.Queued) {
	at := &q.position
	at.evicted = cmp.Or(at.evicted, m.Evicted)
	if at.held, at.lost = m.Err == "" && m.Evicted == "", m.Err; at.moved != nil {
		at.moved.next = time.Time{} // numbers do not count
		return
	}
	at.ahead, at.total, at.head = m.Ahead, m.Total, m.Head
}

// answered takes that for an answer.
func (q *Queue) answered(m wire.Message) bool {
	queued, ok := m.(*wire.Queued)
	if ok {
		q.Queued(queued)
	}
	return ok
}

// AwaitChange returns when a claim has come or gone on one of the hosts, which tell of it, or when it was quiet for long, and at until
// at the latest.
func (q *Queue) AwaitChange(ctx context.Context, until time.Time) error {
	if err := q.rest(ctx, min(tryAgain, time.Until(until))); err != nil {
		return err
	}
	if anyway := time.Now().Add(tryAnyway); anyway.Before(until) {
		until = anyway
	}
	for !q.position.news && time.Now().Before(until) && ctx.Err() == nil {
		q.crew.Hear(ctx, until)
	}
	q.position.news = false
	return context.Cause(ctx)
}
