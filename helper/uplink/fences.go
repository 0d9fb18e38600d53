//go:build linux

package uplink

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

	mu   sync.Mutex // guards the rest
	open map[string]chan *wire.Fenced
	late map[string]bool // of which mpiexec has said that they are given up, and we have not
	left map[string]bool // the other way round
	err  error           // no fence will ever be answered again
}

// NewFences returns fences that go to mpiexec by send.
func NewFences(send func(wire.Message) error) *Fences {
	return &Fences{send: send, open: make(map[string]chan *wire.Fenced), late: make(map[string]bool), left: make(map[string]bool)}
}

// Exchange is that of fence.Exchanger.
func (f *Fences) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	answer, name := make(chan *wire.Fenced, 1), id.String()
	f.mu.Lock()
	err, late := f.err, f.late[name]
	delete(f.late, name)
	if !late {
		f.open[name] = answer
	}
	f.mu.Unlock()
	switch {
	case err != nil:
	case late:
		f.send(&wire.Fence{ID: name, Late: true})
		err = fence.ErrLate
	default:
		err = f.send(&wire.Fence{ID: name, Blob: mine})
	}
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Late {
			return nil, fence.ErrLate
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
		if !f.late[name] {
			f.left[name] = true
		}
		delete(f.late, name)
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
	answer, left := f.open[m.ID], f.left[m.ID]
	delete(f.open, m.ID)
	delete(f.left, m.ID)
	if news = m.Late && answer == nil && !left; news {
		f.late[m.ID] = true
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
	for id, answer := range f.open {
		delete(f.open, id)
		answer <- &wire.Fenced{ID: id, Err: err.Error()}
	}
}
