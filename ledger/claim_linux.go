package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Claims lists what living jobs of all users hold of this node, oldest first.
func (b *Book) Claims() ([]Claim, error) {
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	claims, _ := b.claims(names)
	return claims, nil
}

// claims are those among the names, and the leftovers.
func (b *Book) claims(names []string) (claims []Claim, dead []sheet) {
	dead = b.sheets(names, kindClaim, func(s sheet) {
		if c, err := decodeClaim(s.name, s.owner, s.text); err == nil {
			claims = append(claims, c)
		}
	})
	slices.SortStableFunc(claims, oldest)
	return claims, dead
}

// A Held claim stands until Release or the death of this process.
type Held struct {
	// Warning is a *BlockedError if the claim was made without the registry lock.
	Warning error

	slip *slip
}

// Take claims a part of this node. fits is asked whether the claim fits with those of
// others: before the claim is shown and, if any have come meanwhile, again after, since
// only a claim that others can see keeps them off. Its error is returned as it is, and
// nothing is left behind. *UnusableError says that there can be no claims here.
func (b *Book) Take(ctx context.Context, c Claim, fits func(others []Claim) error) (*Held, error) {
	if err := errors.Join(checkClaim(c), checkOwner(c.UID)); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	registry, err := b.registry(ctx)
	if err != nil {
		return nil, err
	}
	defer registry.open()
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	others, dead := b.claims(names)
	if registry.warning == nil {
		b.sweep(names, dead, time.Now())
	}
	if err := fits(others); err != nil {
		return nil, err
	}
	s, err := b.showClaim(c)
	if err != nil {
		return nil, err
	}
	if err := b.secondLook(others, append(names, s.name), fits); err != nil {
		s.drop()
		return nil, err
	}
	return &Held{registry.warning, s}, nil
}

// secondLook looks for claims that have come under other names than those seen. A file
// has all its text when it gets its name, so those seen need not be read again.
func (b *Book) secondLook(others []Claim, seen []string, fits func([]Claim) error) error {
	names, err := b.names()
	if err != nil {
		return err
	}
	slices.Sort(seen)
	fresh, _ := b.claims(slices.DeleteFunc(names, func(name string) bool {
		_, known := slices.BinarySearch(seen, name)
		return known
	}))
	if len(fresh) == 0 {
		return nil
	}
	others = slices.Concat(others, fresh)
	slices.SortStableFunc(others, oldest)
	return fits(others)
}

// showClaim writes a claim under a name that nobody can have taken on purpose.
func (b *Book) showClaim(c Claim) (*slip, error) {
	name := fmt.Sprintf("%s%s%s-%s", b.prefix, kindClaim, c.Job, random())
	text, err := encode(claimText{name, c})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s, err := b.blank()
	if err != nil {
		return nil, err
	}
	if err = s.write(text); err == nil {
		err = s.lock()
	}
	if err == nil {
		err = s.show(name)
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// Release gives the claim up. It may be called again.
func (h *Held) Release() error {
	if err := h.slip.drop(); err != nil {
		return fmt.Errorf("release of a claim in %s: %w", h.slip.b.path, err)
	}
	return nil
}

// Dup returns one more descriptor of the claim. It lets the claim outlive this process: who
// has one keeps it, until Release.
func (h *Held) Dup() (fd int, err error) {
	h.slip.mu.Lock()
	defer h.slip.mu.Unlock()
	return unix.FcntlInt(uintptr(h.slip.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// checkOwner: a file that names anybody else than its owner is not believed.
func checkOwner(uid int) error {
	if uid != os.Geteuid() {
		return fmt.Errorf("for uid %d, made by uid %d: %w", uid, os.Geteuid(), unix.EPERM)
	}
	return nil
}
