package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// An Exchanger takes what a node brings to the other nodes of a fence, and returns what all
// have brought, in an order that is the same on every node; all is empty when nobody brought
// anything. It returns when every node has called it with the same id. Blobs are given away,
// mine to the Exchanger and all to the caller, who keeps them; other nodes may share them,
// and nobody changes them any more.
//
// A fence may be given up before all nodes are there. Then Exchange returns ErrLate, and the nodes that
// have not called it are told, and call GiveUp instead, so that each node has done one of the two.
type Exchanger interface {
	Exchange(ctx context.Context, id ID, mine []byte) (all [][]byte, err error)

	// GiveUp says that a fence is not waited for any more, by a node that is in Exchange for it or
	// will not be. It does not wait.
	GiveUp(id ID, exchanging bool)
}

// ErrGivenUp is the end of a fence that was given up.
var ErrGivenUp = errors.New("the time of a fence is over")

// A Local is where the members on one node meet, for one fence after the other. Its fields
// are set before the first Enter; its methods may be called from any goroutine. Ranks are
// counted as they stand in Ranks.
type Local struct {
	Kind       Kind
	Members    Members
	Ranks      []int     // of the members, on this node
	Groups     []string  // of Ranks, for messages; nil: they are not named
	OtherNodes Exchanger // nil: there is no other node

	// Decode reads what a fence has spread, and returns what makes it visible.
	Decode func(all [][]byte) (show func(), err error)

	// GiveUpStuck gives a fence up that a member has left for good, instead of holding the others for ever:
	// they are let out late, after a call of Broken, and the next fence can be entered.
	GiveUpStuck bool

	// Broken is called once, when a fence can never complete: err is a *StuckError, or says
	// why the exchange failed. Nobody is released after.
	Broken func(err error)

	mu         sync.Mutex    // guards what follows
	members    []memberState // by rank
	waiting    int           // of entries
	number     int           // of the next fence
	exchanging bool          // all are there, and the exchange is under way
	closed     bool          // nobody is released any more
}

// A memberState is what a rank has to do with the fence.
type memberState struct {
	left    bool            // it cannot enter any more, unless it comes back
	release func(late bool) // lets it out; nil: it is not in
	puts    []byte          // what it brings, a blob
	missed  int             // fences that were given up before it came to them
}

// Enter takes a rank into the fence with what it has put; release lets it out, late if the fence
// was given up, at once if that was before. The last one
// of the node sets off the exchange: under late, if there are other nodes, and until ctx ends,
// which is when that rank has gone. No rank enters that is in already.
func (l *Local) Enter(ctx context.Context, late *sync.WaitGroup, rank int, puts []byte, release func(late bool)) {
	l.mu.Lock()
	e := l.member(rank)
	if e.missed > 0 {
		e.missed--
		l.mu.Unlock()
		release(true)
		return
	}
	e.release, e.puts = release, puts
	l.waiting++
	full := l.waiting == len(l.members)
	l.exchanging = full
	stuck := l.checkStuck()
	l.mu.Unlock()
	l.reportBroken(stuck)
	if full && stuck == nil {
		l.exchangeBlobs(ctx, late)
	}
}

// member needs l.mu.
func (l *Local) member(rank int) *memberState {
	if l.members == nil {
		l.members = make([]memberState, len(l.Ranks))
	}
	return &l.members[rank]
}

// WaitsIn returns the number of the fence, from 1, in which a rank waits; 0: in none.
func (l *Local) WaitsIn(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.member(rank).release == nil {
		return 0
	}
	return l.number + 1
}

// NextNumber returns the number of the fence that a rank enters next, from 0.
func (l *Local) NextNumber(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number - l.member(rank).missed
}

// GiveUp ends a fence without all its members: those who wait are let out late, and who comes later is,
// too, at once. If all of this node are there, others decide whether it is too late for that. A fence
// that is over is not given up any more.
func (l *Local) GiveUp(number int) {
	l.mu.Lock()
	if l.closed || number != l.number {
		l.mu.Unlock()
		return
	}
	leaving := l.exchanging
	var released []func(late bool)
	if !leaving {
		released = l.emptyFence()
	}
	l.mu.Unlock()
	if l.OtherNodes != nil {
		l.OtherNodes.GiveUp(ID{l.Kind, l.Members, number}, leaving)
	}
	for _, release := range released {
		release(true)
	}
}

// SetMissed says that so many fences were given up before any rank of this node came to them. It is called
// before Enter.
func (l *Local) SetMissed(fences int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = fences
	for i := range l.Ranks {
		l.member(i).missed = fences
	}
}

// emptyFence empties a fence that is given up. It needs l.mu.
func (l *Local) emptyFence() (released []func(late bool)) {
	for i := range l.Ranks {
		if e := l.member(i); e.release == nil {
			e.missed++
		} else {
			released = append(released, e.release)
			e.release, e.puts = nil, nil
		}
	}
	l.waiting, l.exchanging = 0, false
	l.number++
	return released
}

// IsUnused reports whether nothing would be lost with what is known of the fences so far: nobody is in one,
// and none has a number.
func (l *Local) IsUnused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == 0 && l.number == 0
}

// RankLeft says that a rank cannot enter any more.
func (l *Local) RankLeft(rank int) {
	l.mu.Lock()
	l.member(rank).left = true
	stuck := l.checkStuck()
	l.mu.Unlock()
	l.reportBroken(stuck)
}

// RankReturned says that it can again.
func (l *Local) RankReturned(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member(rank).left = false
}

// Close releases nobody any more, and tells nothing.
func (l *Local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// exchangeBlobs spreads what the ranks of this node have brought, and lets them go. It
// must not hold up the session, whose rank may ask or abort meanwhile.
func (l *Local) exchangeBlobs(ctx context.Context, late *sync.WaitGroup) {
	id, mine := l.takeBlobs()
	if l.OtherNodes == nil {
		l.finishFence([][]byte{mine})
		return
	}
	late.Go(func() {
		all, err := l.OtherNodes.Exchange(ctx, id, mine)
		switch {
		case ctx.Err() != nil: // the rank has left the barrier: Leave reports it
		case errors.Is(err, ErrGivenUp):
			l.finishGivenUp()
		case err != nil:
			l.reportBroken(fmt.Errorf("barrier: %w", err))
		default:
			l.finishFence(all)
		}
	})
}

// takeBlobs joins the blobs of the ranks, in their order.
func (l *Local) takeBlobs() (id ID, blob []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	for i := range l.members {
		size += len(l.members[i].puts)
	}
	blob = make([]byte, 0, size)
	for i := range l.members {
		blob = append(blob, l.members[i].puts...)
		l.members[i].puts = nil
	}
	return ID{l.Kind, l.Members, l.number}, blob
}

// finishGivenUp ends a fence that others have given up.
func (l *Local) finishGivenUp() {
	l.mu.Lock()
	var released []func(late bool)
	if !l.closed {
		released = l.emptyFence()
	}
	l.mu.Unlock()
	for _, release := range released {
		release(true)
	}
}

// finishFence ends a fence: first all can see what was put, then all are released
// (pmi-wire.md 6.1).
func (l *Local) finishFence(all [][]byte) {
	show, err := l.Decode(all)
	if err != nil {
		l.reportBroken(err)
		return
	}
	for _, release := range l.showAndEmpty(show) {
		release(false)
	}
}

// showAndEmpty shows what was spread, empties the fence and returns what lets those out who were in
// it: nothing, if the job is at its end.
func (l *Local) showAndEmpty(show func()) []func(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	show()
	released := make([]func(late bool), len(l.members))
	for i := range l.members {
		released[i], l.members[i].release = l.members[i].release, nil
	}
	l.waiting, l.exchanging = 0, false
	if l.Kind == l.Kind.WithoutTag() { // those with a tag are not counted
		l.number++
	}
	return released
}

// checkStuck returns an error if ranks wait for others that have gone, else nil. A
// rank of another node that has gone is the hub's affair. It needs l.mu.
func (l *Local) checkStuck() error {
	if l.waiting == 0 {
		return nil
	}
	var waiting, gone []Rank
	for i, e := range l.members {
		rank := Rank{Number: l.Ranks[i]}
		if l.Groups != nil {
			rank.Group = l.Groups[i]
		}
		switch {
		case e.left && (!l.GiveUpStuck || e.release == nil):
			gone = append(gone, rank)
		case e.release != nil:
			waiting = append(waiting, rank)
		}
	}
	if len(waiting) == 0 || len(gone) == 0 {
		return nil
	}
	return &StuckError{Waiting: slices.Clip(waiting), Gone: slices.Clip(gone), Released: l.GiveUpStuck}
}

// reportBroken tells once that nobody will be released any more, or gives the fence up.
func (l *Local) reportBroken(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	if number := l.number; l.GiveUpStuck && errors.As(err, new(*StuckError)) {
		l.mu.Unlock()
		l.Broken(err)
		l.GiveUp(number)
		return
	}
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		l.Broken(err)
	}
}
