package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

/*
A Gate is held while a request is decided upon, so that nobody decides at the same time. It
is no lock but a slip, an entry of our own, as only we can lock it (TRUST-17):

	show ours, then look for those of others
	     shown before ours       wait until it is gone
	     shown in the same tick  the second by name shows itself anew, and looks again; the
	                             first waits for that, or until the other is gone, as it
	                             may have been in before we came
	     shown after             it waits for us

When it was shown is the kernel's word: the time of the last change of the inode, which
nobody can set back. For one user we wait no longer than TurnWait, whatever he shows. Who has
been waited for in vain is noted on our shelf, and not waited for again for a while: so
nobody can cost us that time at every start.
*/
type DecisionLock struct {
	// Warning is a *BlockedError if we went on without the gate.
	Warning error

	lockFile *ownFile // nil: there is none
}

// LockDecision shuts the gate behind us: it waits until nobody else has it, but for no longer than
// GateWait. It fails only if ctx ends.
func (d *Dir) LockDecision(ctx context.Context) (*DecisionLock, error) {
	name := kindLock + randomName()
	s, err := d.newUnnamed()
	if err == nil {
		err = s.writeAndShow(name, append(fileStart(name), '}'))
	}
	if err != nil {
		return &DecisionLock{Warning: &LockTimeoutError{"", err}}, ctx.Err()
	}
	g := &DecisionLock{lockFile: s}
	for err = errSameTime; err == errSameTime; {
		var ahead []entry
		var mine int64
		if ahead, mine, err = d.locksBefore(ctx, s); err == nil {
			g.Warning, err = d.waitForLocks(ctx, ahead, mine)
		}
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return g, nil
}

// Unlock lets the next one in. It may be called again.
func (g *DecisionLock) Unlock() {
	if g.lockFile != nil {
		g.lockFile.remove()
	}
}

// errSameTime: one that we waited for has shown itself anew in the very tick in which we did.
var errSameTime = errors.New("shown at the same time")

// locksBefore are the slips for which we wait, the first one first, and when ours was shown.
func (d *Dir) locksBefore(ctx context.Context, s *ownFile) (ahead []entry, mine int64, err error) {
	for {
		if mine, err = s.shownAt(); err != nil {
			return nil, 0, err
		}
		second := false // of two that came at once
		ahead = ahead[:0]
		l := d.newReader(nil)
		err = l.readKind(kindLock, func(other entry) {
			if other.file != s.file && other.shownAt <= mine {
				second = second || other.shownAt == mine && other.path() < s.path()
				ahead = append(ahead, other)
			}
		})
		l.removeStale(time.Now())
		if err != nil || !second {
			slices.SortFunc(ahead, func(x, y entry) int { return cmp.Compare(x.shownAt, y.shownAt) })
			return ahead, mine, ctx.Err() // where nothing can be read, nobody is ahead
		}
		if err := cmp.Or(sleep(ctx, time.Millisecond), s.showAgain()); err != nil {
			return nil, 0, err
		}
	}
}

// waitForLocks waits for all that are ahead to go.
func (d *Dir) waitForLocks(ctx context.Context, ahead []entry, mine int64) (warning, err error) {
	if len(ahead) == 0 {
		return nil, nil
	}
	now := time.Now()
	vain, late, end := d.readNotes().unresponsiveUsers(now), make(map[int]time.Time), now.Add(d.LockWait)
	for _, r := range ahead {
		if _, known := late[r.uid]; !known {
			late[r.uid] = time.Now().Add(d.HolderWait)
		}
		until := late[r.uid]
		switch {
		case vain[r.uid]:
			until = now
		case end.Before(until):
			until = end
		}
		gone, err := d.waitForLock(ctx, r, mine, until)
		if err != nil {
			return nil, err
		}
		if !gone && warning == nil {
			warning = &LockTimeoutError{d.userName(r.uid), errHeldTooLong}
			d.writeNotes(func(n *rememberedUsers) { n.noteUnresponsive(r.uid, time.Now()) })
		}
	}
	return warning, nil
}

// waitForLock waits for one to go, or to show itself anew: then it has looked again, and has
// seen us.
func (d *Dir) waitForLock(ctx context.Context, s entry, mine int64, until time.Time) (gone bool, err error) {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		now, lives := d.recheck(s)
		if !lives || now.shownAt > mine {
			return true, nil
		}
		if now.shownAt == mine && s.shownAt < mine {
			return false, errSameTime
		}
		left := time.Until(until)
		if left <= 0 {
			return false, nil
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return false, err
		}
	}
}
