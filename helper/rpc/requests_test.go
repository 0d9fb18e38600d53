//go:build linux

package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// However many ranks ask, few questions are under way, in the order of their numbers.
func TestQuestionsAreFewAndInOrder(t *testing.T) {
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
	q.Fail(fmt.Errorf("gone"))
	if _, _, err := (Names{q}).Lookup(t.Context(), "x"); err == nil {
		t.Error("a question to nobody")
	}
}

// Who waits for a name waits on when another has taken it, and takes it the next time; who has
// waited long enough does not.
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

// What is too large for mpiexec is refused here, and the rank goes on.
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

// Who leaves while there is no room for his question is not held up: at the end of a job mpiexec
// answers nothing any more.
func TestWhoLeavesWaitsForNoRoom(t *testing.T) {
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
}

// What only one can find is published again if he has gone when the answer comes (PMIX-41); what stays in
// the table is not.
func TestANameIsNotLostWithWhoAsked(t *testing.T) {
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
	if len(q.waiting)+len(q.abandoned) > 0 {
		t.Errorf("%d and %d questions stay", len(q.waiting), len(q.abandoned))
	}
}
