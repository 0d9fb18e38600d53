//go:build linux

package rpc

import (
	"context"
	"errors"
	"sync"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

// Fences carry the fences of this node's PMI server to the hub in mpiexec and
// back: one Fence up, one Fenced down.
type Fences struct {
	send func(wire.Message) error

	mu               sync.Mutex // guards the rest
	waiting          map[string]chan *wire.Fenced
	givenUpElsewhere map[string]bool // of which mpiexec has said that they are given up, and we have not
	givenUpHere      map[string]bool // the other way round
	err              error           // no fence will ever be answered again
}

// NewFences returns fences that go to mpiexec by send.
func NewFences(send func(wire.Message) error) *Fences {
	return &Fences{send: send, waiting: make(map[string]chan *wire.Fenced), givenUpElsewhere: make(map[string]bool), givenUpHere: make(map[string]bool)}
}

// Exchange is that of fence.Exchanger.
func (f *Fences) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	answer, name := make(chan *wire.Fenced, 1), id.String()
	f.mu.Lock()
	err, late := f.err, f.givenUpElsewhere[name]
	delete(f.givenUpElsewhere, name)
	if !late {
		f.waiting[name] = answer
	}
	f.mu.Unlock()
	switch {
	case err != nil:
	case late:
		f.send(&wire.Fence{ID: name, Late: true})
		err = fence.ErrGivenUp
	default:
		err = f.send(&wire.Fence{ID: name, Blob: mine})
	}
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Late {
			return nil, fence.ErrGivenUp
		}
		if m.Err != "" {
			return nil, errors.New(m.Err)
		}
		err := m.Inflate()
		return m.Blobs, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// GiveUp is that of fence.Exchanger.
func (f *Fences) GiveUp(id fence.ID, exchanging bool) {
	name := id.String()
	f.mu.Lock()
	err := f.err
	if !exchanging {
		if !f.givenUpElsewhere[name] {
			f.givenUpHere[name] = true
		}
		delete(f.givenUpElsewhere, name)
	}
	f.mu.Unlock()
	if err == nil {
		f.send(&wire.Fence{ID: name, Late: true, Joined: exchanging})
	}
}

// Deliver hands an answer to the fence that waits for it. It is news if one was given up to which this node
// has not come: it wants to hear GiveUp, or Exchange will say it.
func (f *Fences) Deliver(m *wire.Fenced) (news bool) {
	f.mu.Lock()
	answer, left := f.waiting[m.ID], f.givenUpHere[m.ID]
	delete(f.waiting, m.ID)
	delete(f.givenUpHere, m.ID)
	if news = m.Late && answer == nil && !left; news {
		f.givenUpElsewhere[m.ID] = true
	}
	f.mu.Unlock()
	if answer != nil {
		answer <- m
	}
	return news
}

// Fail ends all fences, now and later.
func (f *Fences) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	for id, answer := range f.waiting {
		delete(f.waiting, id)
		answer <- &wire.Fenced{ID: id, Err: err.Error()}
	}
}
