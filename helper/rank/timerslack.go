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

// TimerSlackFor returns the timer slack for ranks if perCPU of them share each CPU. 0 means the kernel's default. An
// Open MPI rank that waits for a fence in MPI_Init repeatedly sleeps for 100 µs and polls. If many such ranks share a
// CPU, their polling keeps the CPU from the ranks for which they wait. The slack grows with perCPU, so that all ranks
// of a CPU together poll about as rarely as a single rank (rule PMIX-70).
func TimerSlackFor(perCPU int) time.Duration {
	if perCPU <= 1 {
		return 0
	}
	return min(time.Duration(perCPU)*defaultSlack, maxSlack)
}

// withTimerSlack runs f while the calling thread has the given timer slack. A child process that f forks
// inherits the slack and keeps it after exec. If the thread already has a larger slack, it is not changed.
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
