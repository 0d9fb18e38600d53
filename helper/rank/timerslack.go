//go:build linux

package rank

import (
	"time"

	"golang.org/x/sys/unix"
)

// defaultSlack is the kernel's default timer slack (PR_SET_TIMERSLACK of prctl(2)): how late it may wake a sleeping
// thread. maxSlack is the largest timer slack that ranks get.
const (
	defaultSlack = 50 * time.Microsecond
	maxSlack     = 10 * time.Millisecond
)

// TimerSlackFor returns the timer slack for ranks when perCPU of them share a CPU. 0 means the kernel's default. An
// Open MPI rank that waits for a fence in MPI_Init polls every 100 µs. 64 such ranks poll 200,000 times a second, and
// keep the CPU from the ranks that they wait for. With this slack, the CPU wakes them as rarely as if it had one rank
// (PMIX-70).
func TimerSlackFor(perCPU int) time.Duration {
	if perCPU <= 1 {
		return 0
	}
	return min(time.Duration(perCPU)*defaultSlack, maxSlack)
}

// withTimerSlack sets the timer slack of the calling thread while f runs. A child that f forks inherits it and keeps
// it after exec. If the thread has a larger slack, that stays.
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
