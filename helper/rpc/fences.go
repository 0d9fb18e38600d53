//go:build linux

package rpc

import (
	"context"
	"errors"
	"sync"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

// Fences sends the fences of this node's PMI servers to mpiexec, which coordinates them, and waits for the
// results. For each fence it sends one wire.Fence and receives one wire.Fenced.
type Fences struct {
	send func(wire.Message) error

	mu               sync.Mutex // guards the fields below
	waiting          map[string]chan *wire.Fenced
	givenUpByMpiexec map[string]bool // by ID: mpiexec has reported them given up, this node has not given them up
	givenUpHere      map[string]bool // by ID: this node has given them up, mpiexec has not reported it yet
	err              error           // set by Fail; no fence gets a result any more
}

// NewFences returns a Fences. send sends a message to mpiexec.
func NewFences(send func(wire.Message) error) *Fences {
	return &Fences{send: send, waiting: make(map[string]chan *wire.Fenced), givenUpByMpiexec: make(map[string]bool), givenUpHere: make(map[string]bool)}
}

// Exchange implements fence.Exchanger: it sends this node's data of a fence to mpiexec and returns the data
// of all nodes. It is called by fence.Local on a separate goroutine, and returns when Deliver is called with
// the result of the fence.
func (f *Fences) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	answer, name := make(chan *wire.Fenced, 1), id.String()
	f.mu.Lock()
	err, givenUp := f.err, f.givenUpByMpiexec[name]
	delete(f.givenUpByMpiexec, name)
	if !givenUp {
		f.waiting[name] = answer
	}
	f.mu.Unlock()
	switch {
	case err != nil:
	case givenUp:
		f.send(&wire.Fence{ID: name, GivenUp: true})
		err = fence.ErrGivenUp
	default:
		err = f.send(&wire.Fence{ID: name, Blob: mine})
	}
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.GivenUp {
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

// GiveUp implements fence.Exchanger: it reports to mpiexec that this node no longer waits for a fence. exchanging says
// whether Exchange is running for it.
func (f *Fences) GiveUp(id fence.ID, exchanging bool) {
	name := id.String()
	f.mu.Lock()
	err := f.err
	if !exchanging {
		if !f.givenUpByMpiexec[name] {
			f.givenUpHere[name] = true
		}
		delete(f.givenUpByMpiexec, name)
	}
	f.mu.Unlock()
	if err == nil {
		f.send(&wire.Fence{ID: name, GivenUp: true, Joined: exchanging})
	}
}

// Deliver passes the result of a fence to Exchange. The session calls it for each Fenced. If mpiexec has
// given up the fence before this node has entered it, Deliver returns true, and the caller has to give it up,
// too.
func (f *Fences) Deliver(m *wire.Fenced) (needsGiveUp bool) {
	f.mu.Lock()
	answer, left := f.waiting[m.ID], f.givenUpHere[m.ID]
	delete(f.waiting, m.ID)
	delete(f.givenUpHere, m.ID)
	if needsGiveUp = m.GivenUp && answer == nil && !left; needsGiveUp {
		f.givenUpByMpiexec[m.ID] = true
	}
	f.mu.Unlock()
	if answer != nil {
		answer <- m
	}
	return needsGiveUp
}

// Fail makes all fences fail with err, both those in progress and all later ones.
func (f *Fences) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	for id, answer := range f.waiting {
		delete(f.waiting, id)
		answer <- &wire.Fenced{ID: id, Err: err.Error()}
	}
}
