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
	spare  []any // what Take gave last; its caller's
}

// maxSpare is how many events the spare list may have room for: a large job ends with half a million
// of them at once, and shall not keep that.
const maxSpare = 1 << 16

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
// deadline (zero: never) or when ctx ends. They are the caller's until the next Take, who sets those
// to nil that are done with: what a batch has brought need not live as long as the batch.
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

// takeAll takes what has gathered, and leaves the list of before for what comes.
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
