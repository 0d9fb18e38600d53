package fence

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// An Exchanger takes what a node brings to the other nodes of a fence, and returns what all
// have brought, in an order that is the same on every node; all is empty when nobody brought
// anything. It returns when every node has called it with the same id. Blobs are given away,
// mine to the Exchanger and all to the caller, who keeps them; other nodes may share them,
// and nobody changes them any more.
type Exchanger interface {
	Exchange(ctx context.Context, id ID, mine []byte) (all [][]byte, err error)
}

// A Local is where the members on one node meet, for one fence after the other. Its fields
// are set before the first Enter; its methods may be called from any goroutine. Ranks are
// counted as they stand in Ranks.
type Local struct {
	Kind    Kind
	Members Members
	Ranks   []int     // of the members, on this node
	Others  Exchanger // nil: there is no other node

	// Open reads what a fence has spread, and returns what makes it visible.
	Open func(all [][]byte) (show func(), err error)

	// Broken is called once, when a fence can never complete: err is a *StuckError, or says
	// why the exchange failed. Nobody is released after.
	Broken func(err error)

	mu      sync.Mutex // guards what follows
	entries []awaited  // by rank
	waiting int        // of entries
	number  int        // of the next fence
	over    bool       // nobody is released any more
}

// An awaited is what a rank has to do with the fence.
type awaited struct {
	gone    bool   // it cannot enter any more, unless it comes back
	release func() // lets it out; nil: it is not in
	puts    []byte // what it brings, a blob
}

// Enter takes a rank into the fence with what it has put; release lets it out. The last one
// of the node sets off the exchange: under late, if there are other nodes, and until ctx ends,
// which is when that rank has gone. No rank enters that is in already.
func (l *Local) Enter(ctx context.Context, late *sync.WaitGroup, rank int, puts []byte, release func()) {
	l.mu.Lock()
	e := l.entry(rank)
	e.release, e.puts = release, puts
	l.waiting++
	full := l.waiting == len(l.entries)
	stuck := l.stuck()
	l.mu.Unlock()
	l.report(stuck)
	if full && stuck == nil {
		l.exchange(ctx, late)
	}
}

// entry needs l.mu.
func (l *Local) entry(rank int) *awaited {
	if l.entries == nil {
		l.entries = make([]awaited, len(l.Ranks))
	}
	return &l.entries[rank]
}

// Waits returns the number of the fence, from 1, in which a rank waits; 0: in none.
func (l *Local) Waits(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entry(rank).release == nil {
		return 0
	}
	return l.number + 1
}

// Leave says that a rank cannot enter any more.
func (l *Local) Leave(rank int) {
	l.mu.Lock()
	l.entry(rank).gone = true
	stuck := l.stuck()
	l.mu.Unlock()
	l.report(stuck)
}

// Return says that it can again.
func (l *Local) Return(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entry(rank).gone = false
}

// Close releases nobody any more, and tells nothing.
func (l *Local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// exchange spreads what the ranks of this node have brought, and lets them go. It
// must not hold up the session, whose rank may ask or abort meanwhile.
func (l *Local) exchange(ctx context.Context, late *sync.WaitGroup) {
	id, mine := l.brought()
	if l.Others == nil {
		l.finish([][]byte{mine})
		return
	}
	late.Go(func() {
		all, err := l.Others.Exchange(ctx, id, mine)
		switch {
		case ctx.Err() != nil: // the rank has left the barrier: Leave reports it
		case err != nil:
			l.report(fmt.Errorf("barrier: %w", err))
		default:
			l.finish(all)
		}
	})
}

// brought joins the blobs of the ranks, in their order.
func (l *Local) brought() (id ID, blob []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	for i := range l.entries {
		size += len(l.entries[i].puts)
	}
	blob = make([]byte, 0, size)
	for i := range l.entries {
		blob = append(blob, l.entries[i].puts...)
		l.entries[i].puts = nil
	}
	return ID{l.Kind, l.Members, l.number}, blob
}

// finish ends a fence: first all can see what was put, then all are released
// (pmi-wire.md 6.1).
func (l *Local) finish(all [][]byte) {
	show, err := l.Open(all)
	if err != nil {
		l.report(err)
		return
	}
	for _, release := range l.empty(show) {
		release()
	}
}

// empty shows what was spread, empties the fence and returns what lets those out who were in
// it: nothing, if the job is at its end.
func (l *Local) empty(show func()) []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	show()
	released := make([]func(), len(l.entries))
	for i := range l.entries {
		released[i], l.entries[i].release = l.entries[i].release, nil
	}
	l.waiting = 0
	l.number++
	return released
}

// stuck returns an error if ranks wait for others that have gone, else nil. A
// rank of another node that has gone is the hub's affair. It needs l.mu.
func (l *Local) stuck() error {
	if l.waiting == 0 {
		return nil
	}
	var waiting, gone []int
	for i, e := range l.entries {
		switch {
		case e.gone:
			gone = append(gone, l.Ranks[i])
		case e.release != nil:
			waiting = append(waiting, l.Ranks[i])
		}
	}
	if len(waiting) == 0 || len(gone) == 0 {
		return nil
	}
	return &StuckError{Waiting: slices.Clip(waiting), Gone: slices.Clip(gone)}
}

// report tells once that nobody will be released any more.
func (l *Local) report(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	first := !l.over
	l.over = true
	l.mu.Unlock()
	if first {
		l.Broken(err)
	}
}
