//go:build linux

package rank

import (
	"time"

	"golang.org/x/sys/unix"
)

// How late the kernel may wake who sleeps for a while (PR_SET_TIMERSLACK of prctl(2)): by itself, and
// at most as we have it.
const (
	defaultSlack = 50 * time.Microsecond
	maxSlack     = 10 * time.Millisecond
)

// TimerSlackFor is the timer slack of ranks of which so many share a CPU; 0: as the kernel has it. A rank of
// Open MPI that waits in MPI_Init for a fence sleeps for 100 µs, looks, and sleeps again. 64 such ranks look
// 200,000 times a second at what only the others can bring, and these do not get the CPU. With a slack that
// grows as they do, a CPU has to wake as many of them as if it had one rank (PMIX-70).
func TimerSlackFor(perCPU int) time.Duration {
	if perCPU <= 1 {
		return 0
	}
	return min(time.Duration(perCPU)*defaultSlack, maxSlack)
}

// withTimerSlack runs f with a timer slack of the calling thread, which a child inherits, and keeps beyond
// its exec. One that is larger already stays.
func withTimerSlack(slack time.Duration, f func()) {
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(own) >= slack {
		f()
		return
	}
	unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	f()
	unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(own), 0, 0, 0)
}
