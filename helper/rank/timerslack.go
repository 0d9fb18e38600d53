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

// TimerSlackFor returns the timer slack for ranks when perCPU of them share a CPU. 0 means the kernel's
// default. An Open MPI rank that waits for a fence in MPI_Init sleeps for 100 µs, polls, and sleeps again.
// If many such ranks share a CPU, their polls keep it from the ranks that they wait for. The slack grows
// with perCPU, so that a CPU with many ranks wakes them about as rarely as a CPU with one rank (rule
// PMIX-70).
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
