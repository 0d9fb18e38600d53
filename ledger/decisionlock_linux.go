package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

/*
A DecisionLock is held while a request decides where its ranks go, so that no two requests decide at the same time.
It is not the lock of a common file, because any user could keep that lock forever. It is an entry in the ledger, whose
file only the current user can lock (rule TRUST-17):

	this process publishes its entry, then looks for entries of others
	     published before ours       we wait until it is gone
	     published in the same tick  of the two, the one whose path sorts last publishes its entry
	                                 again, and looks again; the first waits for that or for the
	                                 other's end, because the other may have taken the lock before
	                                 the first was published
	     published after ours        its owner waits for us

The kernel sets the time of publication, which is the last change of the inode. No user can set that time back. A
request waits for each user no longer than HolderWait, even if that user publishes many entries. A file of the current
user records the users who did not release the lock in time. For a while, the current user's requests do not wait for
them again. So no user can delay every start.
*/
type DecisionLock struct {
	// Warning is a *LockTimeoutError if we go on without the lock.
	Warning error

	lockFile *ownFile // nil: the lock could not be published
}

// LockDecision takes the decision lock. It waits until no other request holds the lock. If that takes too long, or if
// it cannot publish an entry, it continues without waiting and sets Warning in the result. It fails only if ctx is
// done.
func (d *Dir) LockDecision(ctx context.Context) (*DecisionLock, error) {
	name := kindLock + randomName()
	s, err := d.newUnnamed()
	if err == nil {
		err = s.writeAndPublish(name, append(fileStart(name), '}'))
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

// Unlock releases the decision lock. It may be called more than once.
func (g *DecisionLock) Unlock() {
	if g.lockFile != nil {
		g.lockFile.remove()
	}
}

// errSameTime is returned if another process has published its entry for the decision lock again, in the same clock
// tick as this process.
var errSameTime = errors.New("another process took it at the same time")

// locksBefore returns other requests' entries for the decision lock that were published before s, the oldest
// first. s is the entry of this process, and mine is its time of publication.
func (d *Dir) locksBefore(ctx context.Context, s *ownFile) (earlier []entry, mine int64, err error) {
	for {
		if mine, err = s.publishedAt(); err != nil {
			return nil, 0, err
		}
		second := false // another entry was published in the same tick, and is first by name
		earlier = earlier[:0]
		l := d.newReader(nil)
		err = l.readKind(kindLock, func(other entry) {
			if other.file != s.file && other.publishedAt <= mine {
				second = second || other.publishedAt == mine && other.path() < s.path()
				earlier = append(earlier, other)
			}
		})
		l.removeStale(time.Now())
		if err != nil || !second {
			slices.SortFunc(earlier, func(x, y entry) int { return cmp.Compare(x.publishedAt, y.publishedAt) })
			return earlier, mine, ctx.Err() // if the directory cannot be read, do not wait
		}
		if err := cmp.Or(sleep(ctx, time.Millisecond), s.publishAgain()); err != nil {
			return nil, 0, err
		}
	}
}

// waitForLocks waits until the entries in earlier are gone, or until the time limit for each of them has passed.
// warning names the holder of the first entry that exceeds its time limit, and is nil if there is none.
func (d *Dir) waitForLocks(ctx context.Context, earlier []entry, mine int64) (warning, err error) {
	if len(earlier) == 0 {
		return nil, nil
	}
	now := time.Now()
	unresponsive, late, end := d.readNotes().unresponsiveUsers(now), make(map[int]time.Time), now.Add(d.LockWait)
	for _, r := range earlier {
		if _, known := late[r.uid]; !known {
			late[r.uid] = time.Now().Add(d.HolderWait)
		}
		until := late[r.uid]
		switch {
		case unresponsive[r.uid]:
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

// waitForLock waits until the entry s is gone or is published again. If it is published again, its holder has seen the
// entry of this process. If the deadline passes first, waitForLock returns false.
func (d *Dir) waitForLock(ctx context.Context, s entry, mine int64, deadline time.Time) (gone bool, err error) {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		now, lives := d.recheck(s)
		if !lives || now.publishedAt > mine {
			return true, nil
		}
		if now.publishedAt == mine && s.publishedAt < mine {
			return false, errSameTime
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return false, err
		}
	}
}
