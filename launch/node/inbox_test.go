package node

import (
	"testing"
	"time"
)

// The inbox's two slices alternate: the events of one Take stay as they are until the next Take, no event
// comes twice, and a very long slice is not kept.
func TestAnInboxGivesEachEventOnce(t *testing.T) {
	b := NewInbox()
	next := 0
	for round, n := range []int{1, 3, 2, maxReusable + 1, 1, 5, 1} {
		for range n {
			b.Put(next)
			next++
		}
		events := b.Take(t.Context(), time.Time{})
		b.Put(next) // must not show in events
		next++
		want := n
		if round > 0 {
			want++ // the extra event of the round before
		}
		if len(events) != want {
			t.Fatalf("round %d: %d events, want %d", round, len(events), want)
		}
		for i, event := range events {
			if event != next-1-want+i {
				t.Fatalf("round %d: event %d is %v, want %d", round, i, event, next-1-want+i)
			}
			events[i] = nil
		}
	}
	b.Take(t.Context(), time.Time{})
	if cap(b.reusable) > maxReusable || cap(b.events) > maxReusable {
		t.Errorf("lists for %d and %d events were kept", cap(b.reusable), cap(b.events))
	}
}
