//go:build linux

package names

import (
	"context"
	"errors"
	"testing"

	"remshell/helper/rpc"
	"remshell/wire"
)

// A rank that waits for a name goes on waiting if another rank has taken it, and gets it the next time. Its wait ends
// with its ctx.
func TestANameIsAwaited(t *testing.T) {
	asked := make(chan *NameRequest)
	q := &requests{Requests: rpc.NewRequests(func(m wire.Message) error { asked <- m.(*NameRequest); return nil })}
	answer := func(yes bool) {
		m := <-asked
		if m.Op != LookupWait || m.Service != "x" {
			t.Errorf("asked %+v", m)
		}
		q.Deliver(m.ID, &NameReply{ID: m.ID, OK: yes, Port: "p"})
	}
	found := make(chan NameReply)
	go func() {
		named, err := q.await(t.Context(), "x")
		if err != nil {
			t.Error(err)
		}
		found <- named
	}()
	for range 2 {
		answer(false)
		q.waits.namePublished("x")
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
	if _, err := q.await(short, "x"); err != late || len(q.waits.byName) > 0 {
		t.Errorf("%v, %d names are waited for", err, len(q.waits.byName))
	}
}

// A name that a lookup removes from the table is published again if the rank has gone when the reply arrives
// (PMIX-41). Other names stay in the table.
func TestANameIsNotLostWithItsRank(t *testing.T) {
	asked := make(chan *NameRequest, 2)
	q := &requests{Requests: rpc.NewRequests(func(m wire.Message) error { asked <- m.(*NameRequest); return nil })}
	for _, once := range []bool{false, true} {
		ctx, gone := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, _, err := pmiNames{q}.Lookup(ctx, "x")
			done <- err
		}()
		m := <-asked
		gone()
		if err := <-done; err == nil {
			t.Error("he has found it all the same")
		}
		q.Deliver(m.ID, &NameReply{ID: m.ID, OK: true, Port: "p", Value: []byte("v"), FirstReadOnly: once})
	}
	m := <-asked
	if m.Op != Publish || m.Service != "x" || m.Port != "p" || string(m.Value) != "v" || !m.FirstReadOnly {
		t.Errorf("asked is %+v", m)
	}
	q.Deliver(m.ID, &NameReply{ID: m.ID, OK: true})
	const most = 64 // requests that may be open at once (TRUST-4)
	for range most {
		go pmiNames{q}.Lookup(t.Context(), "x")
	}
	for range most { // hangs if one of the requests above is still open
		<-asked
	}
}
