package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// An UnusableError is returned if the ledger directory cannot be used. The directory may be missing, unsafe or
// full, or its file system may lack locks or links. The job may still run, without claims.
type UnusableError struct {
	Dir string
	Err error
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("cannot use the claims in %s: %v", e.Dir, e.Err)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Hint returns what an administrator can do to make the ledger usable.
func (e *UnusableError) Hint() string {
	return "in the cluster file, set ledger to a local directory that belongs to root and has mode 1777"
}

// A LimitError is returned if some entries were not read because there are too many (rules TRUST-13, TRUST-14). The
// entries that were read are valid.
type LimitError struct {
	Dir  string
	User string // the user with too many entries; empty: not a single user
	Why  string // a clause that says which limit was exceeded
}

func (e *LimitError) Error() string {
	if e.User == "" {
		return fmt.Sprintf("%s has too many entries (%s); an administrator can remove some", e.Dir, e.Why)
	}
	return fmt.Sprintf("%s has too many files of %s (%s); an administrator can remove them", e.Dir, theUser(e.User), e.Why)
}

// A LockTimeoutError says that a request continues without the decision lock, because it has waited too long or could
// not publish its entry. This is only a warning. Two jobs still cannot claim the same CPUs, but both may be refused
// because of each other's claims.
type LockTimeoutError struct {
	User string // the user who holds the lock; empty: no user, see Err
	Err  error
}

var errHeldTooLong = errors.New("another request has held the lock for too long")

func (e *LockTimeoutError) Error() string {
	if e.User == "" {
		return fmt.Sprintf("cannot get the decision lock of the queue: %v", e.Err)
	}
	return fmt.Sprintf("%s has held the decision lock of the queue for too long", theUser(e.User))
}

func (e *LockTimeoutError) Unwrap() error { return e.Err }

// Hint returns what the user can do about a decision lock that another process does not release.
func (e *LockTimeoutError) Hint() string {
	if e.User != "" {
		return "end that process, or ask its user to do so"
	}
	return "ask an administrator"
}

// theUser returns "user ann", or "uid 5" for a user without a name.
func theUser(name string) string {
	if strings.HasPrefix(name, "uid ") {
		return name
	}
	return "user " + name
}
