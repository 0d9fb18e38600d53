package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// What a listing shows at most, of all users and of each (TRUST-4: Listed).
const (
	maxListedTotal   = 4096
	maxListedPerUser = 1000
)

// Claims lists what living jobs of all users hold of this node, oldest first. With a
// *LimitError it is not all there is.
func (d *Dir) Claims() (claims []Claim, err error) {
	each := make(map[int]int)
	l := d.newReader(nil)
	err = l.readClaims(func(c Claim) {
		if each[c.UID]++; len(claims) < maxListedTotal && each[c.UID] <= maxListedPerUser {
			claims = append(claims, c)
		} else {
			l.noteError(&LimitError{d.path, d.userName(c.UID), "more claims than can be listed"})
		}
	})
	slices.SortStableFunc(claims, compareAge)
	return claims, cmp.Or(err, l.readError)
}

// HasClaim reports whether a user's job has a claim. It reads that user's entries alone.
func (d *Dir) HasClaim(of job.Key) (claimed bool) {
	l := d.newReader(nil)
	l.onlyUser = of.UID
	l.readClaims(func(c Claim) { claimed = claimed || c.Key() == of })
	return claimed
}

// readClaims hands all believable claims to use.
func (l *reader) readClaims(use func(Claim)) error {
	return l.readKind(kindClaim, func(s entry) {
		c, err := decodeClaim(s.base, s.uid, s.text)
		if err == nil && s.uid != os.Geteuid() {
			err = checkPlausible(c, len(s.text), l.d.cpus(), l.d.maxForeignRanks())
			c.User = l.d.accountName(s.uid)
		}
		if err == nil {
			use(c)
		}
	})
}

// ReadOthers tells what living claims hold, but for those that without is true of; nil: of
// none. With a *LimitError it is not all there is.
func (d *Dir) ReadOthers(without func(Claim) bool) (OtherClaims, error) {
	l := d.newReader(nil)
	o, _, err := l.readOthers(without)
	return o, cmp.Or(err, l.readError)
}

// readOthers also counts how many claims that are.
func (l *reader) readOthers(without func(Claim) bool) (o OtherClaims, count int, err error) {
	var t claimSum
	me := os.Geteuid()
	err = l.readClaims(func(c Claim) {
		switch {
		case without != nil && without(c):
			return
		case c.UID == me:
			o.Mine = append(o.Mine, c)
		default:
			t.addClaim(c)
			o.OtherJob = cmp.Or(o.OtherJob, c.Job)
			o.OtherUsersClaims++
		}
		count++
	})
	o.OtherUsers = t.occupancy()
	slices.SortStableFunc(o.Mine, compareAge)
	return o, count, err
}

// union is what both hold.
func (o OtherClaims) union(p OtherClaims) OtherClaims {
	mine := slices.Concat(o.Mine, p.Mine)
	slices.SortStableFunc(mine, compareAge)
	return OtherClaims{mine, o.OtherUsers.Union(p.OtherUsers), o.OtherUsersClaims + p.OtherUsersClaims, cmp.Or(o.OtherJob, p.OtherJob)}
}

// A HeldClaim claim stands until Release or the death of this process.
type HeldClaim struct {
	// Warning is a *LimitError if not all claims of others could be read.
	Warning error

	claim Claim
	file  *ownFile
}

// tieWait is how long the first of two claims that were shown at the same time waits for
// the other to go.
const tieWait = 100 * time.Millisecond

// TakeClaim claims a part of this node. fits is asked whether the claim fits with those of
// others: before the claim is shown and, if any have come meanwhile, again after, since
// only a claim that others can see keeps them off. Its error is returned as it is, and
// nothing is left behind. *UnusableError says that there can be no claims here.
func (d *Dir) TakeClaim(ctx context.Context, c Claim, fits func(OtherClaims) error) (*HeldClaim, error) {
	if err := errors.Join(checkClaim(c), checkOwner(c.UID)); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	first := d.newReader(make(map[string]bool))
	others, _, err := first.withNotes().readOthers(nil)
	if err != nil {
		return nil, err
	}
	first.removeStale(time.Now())
	if err := fits(others); err != nil {
		return nil, err
	}
	s, err := d.showClaim(c)
	if err != nil {
		return nil, err
	}
	if err := d.recheckClaims(ctx, others, first.skip, s.path(), fits); err != nil {
		s.remove()
		return nil, err
	}
	return &HeldClaim{first.readError, c, s}, nil
}

// withNotes makes a look note what it reads.
func (l *reader) withNotes() *reader { l.noteRead = true; return l }

// recheckClaims looks for claims that have come under other names than those seen: a file has all
// its text when it gets its name, so those seen need not be read again. If there are some
// in conflict that were shown when ours was, they see ours too, and only the first stays. It
// waits for the others to go, since one that was there before we looked does not.
func (d *Dir) recheckClaims(ctx context.Context, others OtherClaims, seen map[string]bool, mine string, fits func(OtherClaims) error) error {
	deadline := time.Now().Add(tieWait)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		known := maps.Clone(seen)
		known[mine] = true
		l := d.newReader(known).withNotes()
		fresh, count, err := l.readOthers(nil)
		if err != nil || count == 0 {
			return err
		}
		err = fits(others.union(fresh))
		if err == nil || l.lowest < mine || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// showClaim writes a claim under a name that nobody can have taken on purpose.
func (d *Dir) showClaim(c Claim) (*ownFile, error) {
	name := fmt.Sprintf("%s%s-%s", kindClaim, randomName(), c.Job)
	text, err := encode(claimText{name, c})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s, err := d.newUnnamed()
	if err != nil {
		return nil, err
	}
	return s, s.writeAndShow(name, text)
}

// SetIdle shows the claim once more, with the reason why none of its ranks lives, and gives up the old
// one then: at no moment it is free for others. What it returns is held in any case; with an error
// it is what was held before.
func (h *HeldClaim) SetIdle(why job.IdleReason) (*HeldClaim, error) {
	c := h.claim
	c.IdleReason = why
	s, err := h.file.d.showClaim(c)
	if err != nil {
		return h, err
	}
	h.Release() // a file that cannot be removed counts no more than one whose holder is dead
	return &HeldClaim{h.Warning, c, s}, nil
}

// IdleReason is why none of the claim's ranks is meant to live; empty: they are.
func (h *HeldClaim) IdleReason() job.IdleReason { return h.claim.IdleReason }

// Release gives the claim up. It may be called again.
func (h *HeldClaim) Release() error {
	if err := h.file.remove(); err != nil {
		return fmt.Errorf("release of a claim in %s: %w", h.file.d.path, err)
	}
	return nil
}

// DupFile returns one more descriptor of the claim. It lets the claim outlive this process: who
// has one keeps it, until Release.
func (h *HeldClaim) DupFile() (fd int, err error) {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return unix.FcntlInt(uintptr(h.file.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// checkOwner: a file that names anybody else than its owner is not believed.
func checkOwner(uid int) error {
	if uid != os.Geteuid() {
		return fmt.Errorf("for uid %d, made by uid %d: %w", uid, os.Geteuid(), unix.EPERM)
	}
	return nil
}

func sleep(ctx context.Context, pause time.Duration) error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
