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
	err  error // no fence will ever be answered again
}

// NewFences returns fences that go to mpiexec by send.
func NewFences(send func(wire.Message) error) *Fences {
	return &Fences{send: send, open: make(map[string]chan *wire.Fenced)}
}

// Exchange is that of fence.Exchanger.
func (f *Fences) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	answer, name := make(chan *wire.Fenced, 1), id.String()
	f.mu.Lock()
	err := f.err
	f.open[name] = answer
	f.mu.Unlock()
	if err == nil {
		err = f.send(&wire.Fence{ID: name, Blob: mine})
	}
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Err != "" {
			return nil, errors.New(m.Err)
		}
		err := m.Inflate()
		return m.Blobs, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Deliver hands an answer to the fence that waits for it.
func (f *Fences) Deliver(m *wire.Fenced) {
	f.mu.Lock()
	answer := f.open[m.ID]
	delete(f.open, m.ID)
	f.mu.Unlock()
	if answer != nil {
		answer <- m
	}
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
