package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// An Exchanger exchanges the blobs of one node with the other nodes of a fence. In a helper it is rpc.Fences.
//
// Exchange returns when every node has called it with the same id. mine is the blob of this node; the Exchanger keeps
// it. all contains the blobs of all nodes, in the same order on every node, or is empty if no node contributed any
// bytes. The caller must not change the blobs, because other nodes may share them.
//
// A fence may be given up before all nodes have joined. Then Exchange returns ErrGivenUp. The nodes that have not
// called Exchange are notified, and must call GiveUp instead.
type Exchanger interface {
	Exchange(ctx context.Context, id ID, mine []byte) (all [][]byte, err error)

	// GiveUp reports that this node does not wait for a fence any more. exchanging says whether the node is in
	// Exchange for that fence. If it is not, it must not call Exchange for it later. GiveUp does not block.
	GiveUp(id ID, exchanging bool)
}

// ErrGivenUp is returned by Exchange when the fence was given up.
var ErrGivenUp = errors.New("the PMI fence was canceled")

// A Local carries out fences on one node, one fence after the other, for the members that run there. Its fields must be
// set before the first call of Enter. The methods may be called from any goroutine. Arguments named rank are indexes
// into Ranks.
type Local struct {
	Kind       Kind
	Members    Members
	Ranks      []int     // the members on this node
	Groups     []string  // the group of each of Ranks, for messages; nil: messages name no groups
	OtherNodes Exchanger // nil if all members are on this node

	// Decode reads the blobs of a completed fence. Calling publish makes their pairs visible.
	Decode func(all [][]byte) (publish func(), err error)

	// If GiveUpStuck is true, a fence that a member can no longer enter is given up. After a call of
	// Broken the waiting members are released with givenUp true, and may enter the next fence. Otherwise
	// they wait for ever.
	GiveUpStuck bool

	// Broken is called when a fence can never complete. err is a *StuckError, or the reason why the
	// exchange failed. Unless the fence is then given up (GiveUpStuck), no member is released afterwards,
	// and Broken is not called again.
	Broken func(err error)

	mu         sync.Mutex    // guards the fields below
	members    []memberState // by index in Ranks
	waiting    int           // number of members that wait
	number     int           // number of the next fence
	exchanging bool          // all members have entered, and the exchange is under way
	closed     bool          // no member is released any more
}

// A memberState is what a Local knows about one of its ranks in the current fence.
type memberState struct {
	left    bool               // it cannot enter any more, unless it returns
	release func(givenUp bool) // releases it; nil if it does not wait
	puts    []byte             // the blob that it brings
	missed  int                // fences that were given up before it entered them
}

// Enter enters a rank into the fence, with a blob of the pairs that the rank has put. The rank must not be waiting
// already. The last rank of the node starts the exchange. If there are other nodes, the exchange runs in a goroutine
// that pending.Go starts. The caller cancels ctx when this rank has ended. That ends the exchange.
//
// release is called to release the rank. Its argument givenUp says whether the fence was given up. If the fence was
// given up before Enter, Enter calls release(true) at once.
func (l *Local) Enter(ctx context.Context, pending *sync.WaitGroup, rank int, blob []byte, release func(givenUp bool)) {
	l.mu.Lock()
	e := l.member(rank)
	if e.missed > 0 {
		e.missed--
		l.mu.Unlock()
		release(true)
		return
	}
	e.release, e.puts = release, blob
	l.waiting++
	full := l.waiting == len(l.members)
	l.exchanging = full
	stuck := l.checkStuck()
	l.mu.Unlock()
	l.reportBroken(stuck)
	if full && stuck == nil {
		l.exchangeBlobs(ctx, pending)
	}
}

// member returns the state of a rank. The caller must hold l.mu.
func (l *Local) member(rank int) *memberState {
	if l.members == nil {
		l.members = make([]memberState, len(l.Ranks))
	}
	return &l.members[rank]
}

// WaitsIn returns the number, counted from 1, of the fence in which a rank waits. It returns 0 if the rank
// does not wait.
func (l *Local) WaitsIn(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.member(rank).release == nil {
		return 0
	}
	return l.number + 1
}

// NextNumber returns the number, counted from 0, of the fence that a rank enters next.
func (l *Local) NextNumber(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number - l.member(rank).missed
}

// GiveUp ends the fence with the given number before all members have entered it. It releases the waiting members, and
// tells them that the fence was given up; members that enter later are released at once in the same way. If all local
// members have already entered, it only notifies the other nodes. If the fence has completed, GiveUp does nothing.
func (l *Local) GiveUp(number int) {
	l.mu.Lock()
	if l.closed || number != l.number {
		l.mu.Unlock()
		return
	}
	leaving := l.exchanging
	var released []func(givenUp bool)
	if !leaving {
		released = l.releaseGivenUp()
	}
	l.mu.Unlock()
	if l.OtherNodes != nil {
		l.OtherNodes.GiveUp(ID{l.Kind, l.Members, number}, leaving)
	}
	for _, release := range released {
		release(true)
	}
}

// SetMissed sets how many fences were given up before any local rank entered them. It must be called
// before Enter.
func (l *Local) SetMissed(fences int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = fences
	for i := range l.Ranks {
		l.member(i).missed = fences
	}
}

// releaseGivenUp ends a fence that was given up. It returns the functions that release the waiting members.
// The caller must hold l.mu.
func (l *Local) releaseGivenUp() (released []func(givenUp bool)) {
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

// IsUnused reports whether no rank waits and no fence has ended or was given up. Then a new Local can replace this one.
func (l *Local) IsUnused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == 0 && l.number == 0
}

// RankLeft records that a rank can no longer enter fences.
func (l *Local) RankLeft(rank int) {
	l.mu.Lock()
	l.member(rank).left = true
	stuck := l.checkStuck()
	l.mu.Unlock()
	l.reportBroken(stuck)
}

// RankReturned records that a rank for which RankLeft was called can enter fences again.
func (l *Local) RankReturned(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member(rank).left = false
}

// Close stops the Local. From then on, it releases no ranks and reports nothing.
func (l *Local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// exchangeBlobs exchanges the blobs of the local ranks with other nodes, if there are any, and then releases the ranks.
// An exchange with other nodes runs in a goroutine that pending.Go starts, so that the ranks can meanwhile send
// requests or abort.
func (l *Local) exchangeBlobs(ctx context.Context, pending *sync.WaitGroup) {
	id, mine := l.takeBlobs()
	if l.OtherNodes == nil {
		l.finishFence([][]byte{mine})
		return
	}
	pending.Go(func() {
		all, err := l.OtherNodes.Exchange(ctx, id, mine)
		switch {
		case ctx.Err() != nil: // the rank has left the barrier: RankLeft reports it
		case errors.Is(err, ErrGivenUp):
			l.finishGivenUp()
		case err != nil:
			l.reportBroken(fmt.Errorf("barrier: %w", err))
		default:
			l.finishFence(all)
		}
	})
}

// takeBlobs concatenates the blobs of the local ranks in the order of the ranks. It also returns the ID of the fence.
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

// finishGivenUp ends a fence that was given up on another node.
func (l *Local) finishGivenUp() {
	l.mu.Lock()
	var released []func(givenUp bool)
	if !l.closed {
		released = l.releaseGivenUp()
	}
	l.mu.Unlock()
	for _, release := range released {
		release(true)
	}
}

// finishFence completes a fence. It first makes the exchanged pairs visible to all ranks of this node, and
// then releases the ranks (pmi-wire.md 6.1).
func (l *Local) finishFence(all [][]byte) {
	publish, err := l.Decode(all)
	if err != nil {
		l.reportBroken(err)
		return
	}
	for _, release := range l.publishAndReset(publish) {
		release(false)
	}
}

// publishAndReset calls the function publish, which makes the exchanged pairs visible, and prepares for the next fence.
// It returns the functions that release the members, or nil if l is closed.
func (l *Local) publishAndReset(publish func()) []func(givenUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	publish()
	released := make([]func(givenUp bool), len(l.members))
	for i := range l.members {
		released[i], l.members[i].release = l.members[i].release, nil
	}
	l.waiting, l.exchanging = 0, false
	if l.Kind == l.Kind.WithoutTag() { // fences with a tag are not counted
		l.number++
	}
	return released
}

// checkStuck returns a *StuckError if local members wait for a local member that has left, and nil otherwise.
// Members that have left on other nodes are handled by the Coordinator. The caller must hold l.mu.
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

// reportBroken calls Broken if err is not nil, because the fence can never complete. If GiveUpStuck is set and err is a
// *StuckError, it then gives up the fence. Otherwise it closes l, so that Broken is not called again.
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
