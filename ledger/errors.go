package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// An UnusableError says that the directory cannot serve: it does not exist, is not safe,
// is full, or on a file system without the locks or links needed. The job may run all
// the same, without claims.
type UnusableError struct {
	Dir string
	Err error
}

func (e *UnusableError) Error() string { return fmt.Sprintf("claims in %s: %v", e.Dir, e.Err) }

func (e *UnusableError) Unwrap() error { return e.Err }

// Hint is what an administrator can do.
func (e *UnusableError) Hint() string {
	return "needs a local directory of root's with mode 1777; name one in the cluster file"
}

// A LimitError says that not all could be read, since somebody has put too much there
// (TRUST-13, TRUST-14). What was read counts.
type LimitError struct {
	Dir  string
	User string // whose entries these are; empty: nobody's alone
	Many string // how much there is, or what took too long
}

func (e *LimitError) Error() string {
	if e.User == "" {
		return fmt.Sprintf("%s has %s; an administrator can remove what is too much", e.Dir, e.Many)
	}
	return fmt.Sprintf("%s has too much of %s (%s); an administrator can remove it", e.Dir, theUser(e.User), e.Many)
}

// A LockTimeoutError says that the gate could not be had and things went on without it. It is
// a warning: no claim is less safe for it, but two jobs may turn each other away.
type LockTimeoutError struct {
	User string // who has it; empty: nobody, Err says what is wrong
	Err  error
}

var errHeldTooLong = errors.New("kept for too long")

func (e *LockTimeoutError) Error() string {
	if e.User == "" {
		return fmt.Sprintf("the gate of the queue: %v", e.Err)
	}
	return fmt.Sprintf("the gate of the queue: %v by %s", e.Err, theUser(e.User))
}

func (e *LockTimeoutError) Unwrap() error { return e.Err }

// Hint is whom to ask.
func (e *LockTimeoutError) Hint() string {
	if e.User != "" {
		return "end that process, or ask its user to"
	}
	return "ask an administrator"
}

// theUser is "user ann", or "uid 5" for one without a name.
func theUser(name string) string {
	if strings.HasPrefix(name, "uid ") {
		return name
	}
	return "user " + name
}
