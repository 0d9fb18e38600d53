package ledger

import (
	"errors"
	"fmt"
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

// A BlockedError says that a lock could not be had and things went on without it. It is
// a warning: no claim is less safe for it, but two jobs may turn each other away.
type BlockedError struct {
	File string
	PID  int // of the holder; 0: unknown
	UID  int // of the holder or of the unusable file; -1: unknown
	Err  error
}

var errHeld = errors.New("held by others for too long")

func (e *BlockedError) Error() string {
	text := fmt.Sprintf("lock %s: %v", e.File, e.Err)
	if e.PID > 0 {
		text += fmt.Sprintf(", by process %d", e.PID)
	}
	if e.UID >= 0 {
		text += fmt.Sprintf(" (uid %d)", e.UID)
	}
	return text
}

func (e *BlockedError) Unwrap() error { return e.Err }

// Hint is whom to ask.
func (e *BlockedError) Hint() string {
	if errors.Is(e.Err, errHeld) {
		return "end that process, or ask its user to"
	}
	return "ask the owner or root to remove that file"
}
