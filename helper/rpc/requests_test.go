//go:build linux

package rpc

import (
	"context"
	"errors"
	"sync"
	"testing"

	"remshell/wire"
)

// A limited number of requests is in flight, in the order of their IDs.
func TestRequestsAreFewAndInOrder(t *testing.T) {
	asked := make(chan int, 1000)
	last := 0
	q := NewRequests(func(m wire.Message) error {
		id := m.(*wire.RankMapRequest).ID
		if id <= last {
			t.Errorf("question %d after %d", id, last)
		}
		last = id
		asked <- id
		return nil
	})
	var all sync.WaitGroup
	for range 2 * maxRequests {
		all.Go(func() { q.PeersOfGroup(t.Context(), "x") })
	}
	for range maxRequests {
		<-asked
	}
	if len(asked) > 0 {
		t.Errorf("%d questions more than may be are under way", len(asked))
	}
	for id := range 2 * maxRequests {
		if id >= maxRequests {
			<-asked
		}
		q.Deliver(id+1, &wire.RankMap{ID: id + 1})
	}
	all.Wait()
	if len(q.inFlight)+len(q.queue) > 0 {
		t.Errorf("%d and %d questions stay", len(q.inFlight), len(q.queue))
	}
	q.Fail()
	if _, err := q.PeersOfGroup(t.Context(), "x"); err == nil {
		t.Error("a question to nobody")
	}
	if len(q.inFlight)+len(q.queue) > 0 {
		t.Error("something stays")
	}
}

// A rank that leaves while its request is queued is not delayed: at the end of a job mpiexec does not reply any more.
func TestACanceledRequestDoesNotWait(t *testing.T) {
	asked := make(chan struct{}, maxRequests)
	q := NewRequests(func(wire.Message) error { asked <- struct{}{}; return nil })
	ctx, leave := context.WithCancelCause(t.Context())
	var all sync.WaitGroup
	late := errors.New("the job is at its end")
	for range 3 * maxRequests {
		all.Go(func() {
			if _, err := q.PeersOfGroup(ctx, "x"); err != late {
				t.Errorf("PeersOfGroup = %v", err)
			}
		})
	}
	for range maxRequests {
		<-asked
	}
	leave(late)
	all.Wait()
	for id := range maxRequests {
		q.Deliver(id+1, &wire.RankMap{ID: id + 1})
	}
	if len(asked) > 0 {
		t.Errorf("%d requests of ranks that have gone are sent", len(asked))
	}
}
