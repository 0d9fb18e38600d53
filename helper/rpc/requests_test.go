//go:build linux

package rpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// A limited number of requests is in flight, in the order of their IDs.
func TestRequestsAreFewAndInOrder(t *testing.T) {
	asked := make(chan int, 1000)
	last := 0
	q := NewRequests(func(m wire.Message) error {
		id := m.(*wire.NameRequest).ID
		if id <= last {
			t.Errorf("question %d after %d", id, last)
		}
		last = id
		asked <- id
		return nil
	})
	var all sync.WaitGroup
	for range 2 * maxRequests {
		all.Go(func() { Names{q}.Lookup(t.Context(), "x") })
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
		q.Deliver(id+1, &wire.NameReply{ID: id + 1})
	}
	all.Wait()
	q.Fail()
	if _, _, err := (Names{q}).Lookup(t.Context(), "x"); err == nil {
		t.Error("a question to nobody")
	}
}

// A rank that waits for a name goes on waiting if another rank has taken it, and gets it the next time. Its wait ends
// with its ctx.
func TestANameIsAwaited(t *testing.T) {
	asked := make(chan *wire.NameRequest)
	q := NewRequests(func(m wire.Message) error { asked <- m.(*wire.NameRequest); return nil })
	answer := func(yes bool) {
		m := <-asked
		if m.Op != wire.LookupWait || m.Service != "x" {
			t.Errorf("asked %+v", m)
		}
		q.Deliver(m.ID, &wire.NameReply{ID: m.ID, OK: yes, Port: "p"})
	}
	found := make(chan wire.NameReply)
	go func() {
		named, err := Names{q}.Await(t.Context(), "x")
		if err != nil {
			t.Error(err)
		}
		found <- named
	}()
	for range 2 {
		answer(false)
		q.NamePosted("x")
	}
	answer(true)
	if named := <-found; named.Port != "p" {
		t.Errorf("found %+v", named)
	}
	short, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	go func() {
		answer(false)
		cancel(late)
	}()
	if _, err := (Names{q}).Await(short, "x"); err != late || len(q.nameWaits.byName) > 0 {
		t.Errorf("%v, %d names are waited for", err, len(q.nameWaits.byName))
	}
}

// A request that is too large for mpiexec fails on the node, and the rank goes on.
func TestASpawnThatIsTooLargeIsRefused(t *testing.T) {
	q := NewRequests(func(wire.Message) error { t.Error("it was sent"); return nil })
	for _, large := range []spawn.Command{
		{Argv: []string{"a", strings.Repeat("x", 256<<10)}, Count: 1},
		{Argv: []string{"a"}, Count: 1, Info: make([]spawn.Pair, 5000)},
	} {
		if _, _, err := (Spawner{q, func(int) string { return "/" }}).Spawn(t.Context(), spawn.Request{Commands: []spawn.Command{large}}); err != errTooLarge {
			t.Errorf("got %v", err)
		}
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
			if _, _, err := (Names{q}).Lookup(ctx, "x"); err != late {
				t.Errorf("Lookup = %v", err)
			}
		})
	}
	for range maxRequests {
		<-asked
	}
	leave(late)
	all.Wait()
	for id := range maxRequests {
		q.Deliver(id+1, &wire.NameReply{ID: id + 1})
	}
	if len(asked) > 0 {
		t.Errorf("%d requests of ranks that have gone are sent", len(asked))
	}
}

// A name that a lookup removes from the table is published again if the rank has gone when the reply arrives
// (PMIX-41). Other names stay in the table.
func TestANameIsNotLostWithItsRank(t *testing.T) {
	asked := make(chan *wire.NameRequest, 2)
	q := NewRequests(func(m wire.Message) error { asked <- m.(*wire.NameRequest); return nil })
	for _, once := range []bool{false, true} {
		ctx, gone := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, _, err := Names{q}.Lookup(ctx, "x")
			done <- err
		}()
		m := <-asked
		gone()
		if err := <-done; err == nil {
			t.Error("he has found it all the same")
		}
		q.Deliver(m.ID, &wire.NameReply{ID: m.ID, OK: true, Port: "p", Value: []byte("v"), FirstReadOnly: once})
	}
	m := <-asked
	if m.Op != wire.Publish || m.Service != "x" || m.Port != "p" || string(m.Value) != "v" || !m.FirstReadOnly {
		t.Errorf("asked is %+v", m)
	}
	q.Deliver(m.ID, &wire.NameReply{ID: m.ID, OK: true})
	if len(q.inFlight)+len(q.queue) > 0 {
		t.Errorf("%d and %d questions stay", len(q.inFlight), len(q.queue))
	}
}
