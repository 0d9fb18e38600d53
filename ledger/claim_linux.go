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

// These are the maximum numbers of claims in a listing, in total and per user (rule TRUST-4: LedgerListed).
const (
	maxListedTotal   = 4096
	maxListedPerUser = 1000
)

// Claims returns the claims of running jobs of all users on this node, oldest first. If the error is a
// *LimitError, some claims are missing.
func (d *Dir) Claims() (claims []Claim, err error) {
	each := make(map[int]int)
	l := d.newReader(nil)
	err = l.readClaims(func(c Claim) {
		if each[c.UID]++; len(claims) < maxListedTotal && each[c.UID] <= maxListedPerUser {
			claims = append(claims, c)
		} else {
			l.noteError(&LimitError{d.path, d.userName(c.UID), "there are more claims than mpiexec lists"})
		}
	})
	slices.SortStableFunc(claims, compareAge)
	return claims, cmp.Or(err, l.readError)
}

// HasClaim reports whether a job has a claim in the ledger. It reads only the entries of the user to whom the
// job belongs.
func (d *Dir) HasClaim(key job.Key) (claimed bool) {
	l := d.newReader(nil)
	l.onlyUser = key.UID
	l.readClaims(func(c Claim) { claimed = claimed || c.Key() == key })
	return claimed
}

// readClaims calls use for every valid claim of a running job.
func (l *reader) readClaims(use func(Claim)) error {
	return l.readKind(kindClaim, func(s entry) {
		c, err := decodeClaim(s.base, s.uid, s.text)
		if err == nil && s.uid != os.Geteuid() {
			err = checkPlausible(c, len(s.text), l.d.cpus(), l.d.maxForeignRanks())
			c.User = l.d.accountName(s.uid)
		}
		if err == nil {
			c.Suspended = s.suspended
			use(c)
		}
	})
}

// ReadOthers summarizes the claims of running jobs. It leaves out claims for which isIgnored returns true. If
// isIgnored is nil, it leaves out no claim. If the error is a *LimitError, some claims are missing.
func (d *Dir) ReadOthers(isIgnored func(Claim) bool) (OtherClaims, error) {
	l := d.newReader(nil)
	o, _, err := l.readOthers(isIgnored)
	return o, cmp.Or(err, l.readError)
}

// readOthers is like Dir.ReadOthers, but also returns the number of claims that it has summarized.
func (l *reader) readOthers(isIgnored func(Claim) bool) (o OtherClaims, count int, err error) {
	var t claimSum
	me := os.Geteuid()
	err = l.readClaims(func(c Claim) {
		if terms := l.d.Terms; c.Gang != nil && (c.Gang.Parties != terms.Parties || terms.Slice != 0 && c.Gang.Slice != terms.Slice) {
			c.Gang = nil
		}
		switch {
		case isIgnored != nil && isIgnored(c):
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

// union returns a summary of all claims that o and p summarize.
func (o OtherClaims) union(p OtherClaims) OtherClaims {
	mine := slices.Concat(o.Mine, p.Mine)
	slices.SortStableFunc(mine, compareAge)
	return OtherClaims{mine, o.OtherUsers.Union(p.OtherUsers), o.OtherUsersClaims + p.OtherUsersClaims, cmp.Or(o.OtherJob, p.OtherJob)}
}

// A HeldClaim is a claim that this process has made. It lasts until Release is called or this process dies.
type HeldClaim struct {
	// Warning is a *LimitError if not all claims of others could be read.
	Warning error

	claim Claim
	file  *ownFile
}

// tieWait is how long a job waits for another job to withdraw its claim, if both have published conflicting
// claims at the same time.
const tieWait = 100 * time.Millisecond

// TakeClaim claims CPUs and GPUs of this node for a job. It calls check to find out whether the claim is compatible
// with the claims of other jobs, first before it publishes the claim. Until then, other jobs cannot see the claim and
// may claim the same CPUs. So TakeClaim calls check again afterwards if new claims have appeared. If check returns an
// error, TakeClaim withdraws the claim and returns that error. It returns *UnusableError if the ledger cannot be used.
func (d *Dir) TakeClaim(ctx context.Context, c Claim, check func(OtherClaims) error) (*HeldClaim, error) {
	if err := errors.Join(checkClaim(c), checkOwner(c.UID)); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	first := d.newReader(make(map[string]bool))
	others, _, err := first.withNotes().readOthers(nil)
	if err != nil {
		return nil, err
	}
	first.removeStale(time.Now())
	if err := check(others); err != nil {
		return nil, err
	}
	s, err := d.publishClaim(c)
	if err != nil {
		return nil, err
	}
	if err := d.recheckClaims(ctx, others, first.skip, s.path(), check); err != nil {
		s.remove()
		return nil, err
	}
	return &HeldClaim{first.readError, c, s}, nil
}

// withNotes makes the reader remember the paths of the files that it reads.
func (l *reader) withNotes() *reader { l.noteRead = true; return l }

// recheckClaims looks for claims under paths that are not in readFiles. A file gets its name only when its text is
// complete, so the files in readFiles need not be read again. If several jobs have published conflicting claims at the
// same time, the job whose claim has the alphabetically first path waits up to tieWait for the others to withdraw
// theirs. It gets an error if a conflicting claim remains. The others get an error at once.
func (d *Dir) recheckClaims(ctx context.Context, others OtherClaims, readFiles map[string]bool, mine string, check func(OtherClaims) error) error {
	deadline := time.Now().Add(tieWait)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		known := maps.Clone(readFiles)
		known[mine] = true
		l := d.newReader(known).withNotes()
		fresh, count, err := l.readOthers(nil)
		if err != nil || count == 0 {
			return err
		}
		err = check(others.union(fresh))
		if err == nil || l.lowest < mine || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// publishClaim writes a claim to a file with a random name. No other user can predict the name and use it first.
func (d *Dir) publishClaim(c Claim) (*ownFile, error) {
	name := fmt.Sprintf("%s%s-%s", kindClaim, randomName(), c.Job)
	text, err := encode(claimText{name, c})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s, err := d.newUnnamed()
	if err != nil {
		return nil, err
	}
	return s, s.writeAndPublish(name, text)
}

// SetIdle replaces the claim with a claim that has the given idle reason. It publishes the new claim before it removes
// the old one, so that no other job can claim the CPUs in between. The result is never nil; if there is an error, it is
// the old claim.
func (h *HeldClaim) SetIdle(reason job.IdleReason) (*HeldClaim, error) {
	c := h.claim
	c.IdleReason = reason
	s, err := h.file.d.publishClaim(c)
	if err != nil {
		return h, err
	}
	h.Release() // if the file cannot be removed, it counts as stale, because it is unlocked
	return &HeldClaim{h.Warning, c, s}, nil
}

// SetSuspended shows readers of the ledger whether the job is suspended.
func (h *HeldClaim) SetSuspended(suspended bool) error {
	if err := h.file.setSuspended(suspended); err != nil {
		return fmt.Errorf("cannot note in %s whether the job is suspended: %w", h.file.d.path, err)
	}
	return nil
}

// IdleReason returns why the job keeps the claim although it runs no ranks on this node, or "" if ranks should be
// running.
func (h *HeldClaim) IdleReason() job.IdleReason { return h.claim.IdleReason }

// Release gives up the claim. It may be called more than once.
func (h *HeldClaim) Release() error {
	if err := h.file.remove(); err != nil {
		return fmt.Errorf("cannot release a claim in %s: %w", h.file.d.path, err)
	}
	return nil
}

// DupFile returns another descriptor of the claim's file. If another process has this descriptor, the claim
// remains valid when this process dies. Release ends the claim in any case.
func (h *HeldClaim) DupFile() (fd int, err error) {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return unix.FcntlInt(uintptr(h.file.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// checkOwner returns an error unless uid is the current user. Readers ignore a claim whose user is not the owner of its
// file.
func checkOwner(uid int) error {
	if uid != os.Geteuid() {
		return fmt.Errorf("a process of uid %d cannot make a claim for uid %d: %w", os.Geteuid(), uid, unix.EPERM)
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
