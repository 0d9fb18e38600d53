package node

import (
	"context"
	"sync"
	"time"
)

// An Inbox is a queue of events that many goroutines fill and one goroutine empties. Put never blocks, so
// that goroutines that read connections can call it.
type Inbox struct {
	mu     sync.Mutex // guards events
	events []any
	filled chan struct{}
	spare  []any // the slice that Take returned last; Take's caller uses it until the next Take
}

// maxSpare is the largest capacity, in events, of a spare list that is kept for reuse. A large job ends
// with half a million events at once; the memory for these is freed.
const maxSpare = 1 << 16

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

// Take waits until there is at least one event, and returns all of them. It returns none at the deadline
// or when ctx ends. A zero deadline means none. The slice is valid until the next Take. The caller should
// set handled events to nil, so that the garbage collector can free what they refer to.
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

// takeAll returns the collected events. The slice of the call before is reused for later events.
func (b *Inbox) takeAll() []any {
	if cap(b.spare) > maxSpare {
		b.spare = nil
	}
	clear(b.spare)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events, b.spare = b.spare[:0], b.events
	return b.spare
}
