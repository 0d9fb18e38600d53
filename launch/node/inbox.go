package node

import (
	"context"
	"sync"
	"time"
)

// An Inbox is a queue of events that many goroutines fill and one goroutine empties. Put never blocks, so it
// can be called by goroutines that read from connections.
type Inbox struct {
	mu       sync.Mutex // guards events
	events   []any
	filled   chan struct{}
	reusable []any // the slice that Take returned last; Take's caller uses it until the next Take
}

// maxReusable is the largest capacity, in events, of a list that an Inbox keeps for reuse. The end of a large job
// causes half a million events at once, and the memory of a list of that size should be freed.
const maxReusable = 1 << 16

// NewInbox returns an empty Inbox.
func NewInbox() *Inbox { return &Inbox{filled: make(chan struct{}, 1)} }

// Put appends an event.
func (b *Inbox) Put(event any) {
	b.mu.Lock()
	b.events = append(b.events, event)
	b.mu.Unlock()
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// Take waits until there is at least one event, and returns all of them. It returns no events if the deadline
// passes or ctx ends. A zero deadline means no deadline. The slice is valid until the next call of Take. The
// caller should set handled events to nil, so that the garbage collector can free memory.
func (b *Inbox) Take(ctx context.Context, deadline time.Time) []any {
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		if events := b.takeAll(); len(events) > 0 {
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

// takeAll returns the collected events. The slice that the previous call returned is reused for later events.
func (b *Inbox) takeAll() []any {
	if cap(b.reusable) > maxReusable {
		b.reusable = nil
	}
	clear(b.reusable)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events, b.reusable = b.reusable[:0], b.events
	return b.reusable
}
