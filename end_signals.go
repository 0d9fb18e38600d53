package main

import (
	"os"
	"syscall"
	"time"
)

// repeatWindow is the maximum time between two SIGTERM or SIGHUP signals for which the second signal is treated as a
// repetition of the first.
const repeatWindow = 250 * time.Millisecond

/*
An endSignals recognizes repetitions of SIGTERM and SIGHUP. A second signal ends the ranks without a grace
period (rule SIG-3). But many senders send two signals for a single request. timeout(1) signals its child and then
its own process group. When a terminal is closed, the shell signals its jobs, and then the kernel signals the
foreground process group. systemd ends a session with SIGTERM and SIGHUP.
*/
type endSignals struct{ last time.Time } // time of the last signal that was not a repetition

// isRepeat reports whether s repeats the previous signal. at is the time at which s was received.
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
