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
	mostListed     = 4096
	mostListedEach = 1000
)

// Claims lists what living jobs of all users hold of this node, oldest first. With a
// *LimitError it is not all there is.
func (d *Dir) Claims() (claims []Claim, err error) {
	each := make(map[int]int)
	l := d.look(nil)
	err = l.claims(func(c Claim) {
		if each[c.UID]++; len(claims) < mostListed && each[c.UID] <= mostListedEach {
			claims = append(claims, c)
		} else {
			l.fail(&LimitError{d.path, d.userName(c.UID), "more claims than can be listed"})
		}
	})
	slices.SortStableFunc(claims, oldest)
	return claims, cmp.Or(err, l.fault)
}

// Claimed reports whether a user's job has a claim. It reads that user's entries alone.
func (d *Dir) Claimed(of job.Whose) (claimed bool) {
	l := d.look(nil)
	l.only = of.UID
	l.claims(func(c Claim) { claimed = claimed || c.Whose() == of })
	return claimed
}

// claims hands all believable claims to use.
func (l *look) claims(use func(Claim)) error {
	return l.read(kindClaim, func(s entry) {
		c, err := decodeClaim(s.base, s.uid, s.text)
		if err == nil && s.uid != os.Geteuid() {
			err = checkSense(c, len(s.text), l.d.cpus(), l.d.mostRanks())
			c.User = l.d.accountName(s.uid)
		}
		if err == nil {
			use(c)
		}
	})
}

// Others tells what living claims hold, but for those that without is true of; nil: of
// none. With a *LimitError it is not all there is.
func (d *Dir) Others(without func(Claim) bool) (Others, error) {
	l := d.look(nil)
	o, _, err := l.others(without)
	return o, cmp.Or(err, l.fault)
}

// others also counts how many claims that are.
func (l *look) others(without func(Claim) bool) (o Others, count int, err error) {
	var t tally
	me := os.Geteuid()
	err = l.claims(func(c Claim) {
		switch {
		case without != nil && without(c):
			return
		case c.UID == me:
			o.Mine = append(o.Mine, c)
		default:
			t.add(c)
			o.One = cmp.Or(o.One, c.Job)
			o.Jobs++
		}
		count++
	})
	o.Rest = t.use()
	slices.SortStableFunc(o.Mine, oldest)
	return o, count, err
}

// and is what both hold.
func (o Others) and(p Others) Others {
	mine := slices.Concat(o.Mine, p.Mine)
	slices.SortStableFunc(mine, oldest)
	return Others{mine, o.Rest.And(p.Rest), o.Jobs + p.Jobs, cmp.Or(o.One, p.One)}
}

// A Held claim stands until Release or the death of this process.
type Held struct {
	// Warning is a *LimitError if not all claims of others could be read.
	Warning error

	claim Claim
	file  *ownFile
}

// tieTime is how long the first of two claims that were shown at the same time waits for
// the other to go.
const tieTime = 100 * time.Millisecond

// Take claims a part of this node. fits is asked whether the claim fits with those of
// others: before the claim is shown and, if any have come meanwhile, again after, since
// only a claim that others can see keeps them off. Its error is returned as it is, and
// nothing is left behind. *UnusableError says that there can be no claims here.
func (d *Dir) Take(ctx context.Context, c Claim, fits func(Others) error) (*Held, error) {
	if err := errors.Join(checkClaim(c), checkOwner(c.UID)); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	first := d.look(make(map[string]bool))
	others, _, err := first.noting().others(nil)
	if err != nil {
		return nil, err
	}
	first.sweep(time.Now())
	if err := fits(others); err != nil {
		return nil, err
	}
	s, err := d.showClaim(c)
	if err != nil {
		return nil, err
	}
	if err := d.again(ctx, others, first.known, s.path(), fits); err != nil {
		s.drop()
		return nil, err
	}
	return &Held{first.fault, c, s}, nil
}

// noting makes a look note what it reads.
func (l *look) noting() *look { l.notes = true; return l }

// again looks for claims that have come under other names than those seen: a file has all
// its text when it gets its name, so those seen need not be read again. If there are some
// in conflict that were shown when ours was, they see ours too, and only the first stays. It
// waits for the others to go, since one that was there before we looked does not.
func (d *Dir) again(ctx context.Context, others Others, seen map[string]bool, mine string, fits func(Others) error) error {
	deadline := time.Now().Add(tieTime)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		known := maps.Clone(seen)
		known[mine] = true
		l := d.look(known).noting()
		fresh, count, err := l.others(nil)
		if err != nil || count == 0 {
			return err
		}
		err = fits(others.and(fresh))
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
	name := fmt.Sprintf("%s%s-%s", kindClaim, random(), c.Job)
	text, err := encode(claimText{name, c})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s, err := d.blank()
	if err != nil {
		return nil, err
	}
	return s, s.present(name, text)
}

// Rest shows the claim once more, with the reason why none of its ranks lives, and gives up the old
// one then: at no moment it is free for others. What it returns is held in any case; with an error
// it is what was held before.
func (h *Held) Rest(why job.Resting) (*Held, error) {
	c := h.claim
	c.Resting = why
	s, err := h.file.d.showClaim(c)
	if err != nil {
		return h, err
	}
	h.Release() // a file that cannot be removed counts no more than one whose holder is dead
	return &Held{h.Warning, c, s}, nil
}

// Resting is why none of the claim's ranks is meant to live; empty: they are.
func (h *Held) Resting() job.Resting { return h.claim.Resting }

// Release gives the claim up. It may be called again.
func (h *Held) Release() error {
	if err := h.file.drop(); err != nil {
		return fmt.Errorf("release of a claim in %s: %w", h.file.d.path, err)
	}
	return nil
}

// Dup returns one more descriptor of the claim. It lets the claim outlive this process: who
// has one keeps it, until Release.
func (h *Held) Dup() (fd int, err error) {
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
