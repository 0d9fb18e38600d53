package main

import (
	"os"
	"syscall"
	"time"
)

// repeatWindow is how soon after a SIGTERM or SIGHUP another one counts as a repetition of it.
const repeatWindow = 250 * time.Millisecond

/*
An endSignals recognizes repetitions of SIGTERM and SIGHUP. A second signal ends the ranks without a grace
period (rule SIG-3). But many senders send two and mean one. timeout(1) signals its child and then its own
process group. When a terminal is closed, the shell signals its jobs, and then the kernel the foreground.
systemd ends a session with SIGTERM and SIGHUP.
*/
type endSignals struct{ last time.Time } // time of the last signal that was no repetition

// isRepeat reports whether signal s, received at this time, repeats the signal before it.
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
