package main

import (
	"os"
	"syscall"
	"time"
)

// repeatWindow is the time within which a second SIGTERM or SIGHUP counts as a repetition of the first.
const repeatWindow = 250 * time.Millisecond

/*
An endSignals recognizes repetitions of SIGTERM and SIGHUP. A second signal ends the ranks without grace (SIG-3), but
many senders send two and mean one. timeout(1) signals its child and then its own process group. When a terminal is
closed, the shell signals its jobs, and then the kernel the foreground. systemd ends a session with SIGTERM and SIGHUP.
*/
type endSignals struct{ last time.Time } // time of the last signal that was no repetition

// isRepeat reports whether a signal at a time repeats the one before it.
func (e *endSignals) isRepeat(s os.Signal, at time.Time) bool {
	if s != syscall.SIGTERM && s != syscall.SIGHUP {
		return false
	}
	if !e.last.IsZero() && at.Sub(e.last) < repeatWindow {
		return true
	}
	e.last = at
	return false
}
