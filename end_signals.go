package main

import (
	"os"
	"syscall"
	"time"
)

// repeatWindow is within how long of each other signals to end are one.
const repeatWindow = 250 * time.Millisecond

/*
An endings knows which of the signals to end are news. A second one skips the grace of the ranks (SIG-3), but many
senders mean one and send two: timeout(1) signals its child and then its own process group; a shell whose terminal
is closed signals its jobs, and then the kernel the foreground; systemd ends a session with SIGTERM and SIGHUP.
*/
type endSignals struct{ last time.Time } // of the last one that was news

// isRepeat reports whether a signal at a time says no more than the one before it.
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
