package node

import (
	"context"
	"sync"
	"time"
)

// An Inbox gathers events from many goroutines for one. Put never waits: a reader of a
// connection must not.
type Inbox struct {
	mu     sync.Mutex // guards events
	events []any
	filled chan struct{}
}

// NewInbox makes an empty one.
func NewInbox() *Inbox { return &Inbox{filled: make(chan struct{}, 1)} }

// Put adds an event.
func (b *Inbox) Put(event any) {
	b.mu.Lock()
	b.events = append(b.events, event)
	b.mu.Unlock()
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// Take returns all events that have gathered, at least one, or none at the
// deadline (zero: never) or when ctx ends.
func (b *Inbox) Take(ctx context.Context, deadline time.Time) []any {
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		b.mu.Lock()
		events := b.events
		b.events = nil
		b.mu.Unlock()
		if len(events) > 0 {
			return events
		}
		select {
		case <-b.filled:
		case <-timeout:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
