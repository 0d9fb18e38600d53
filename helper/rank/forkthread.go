//go:build linux

package rank

import (
	"runtime"
)

// A ForkThread runs functions on one thread, which exists until Close and does nothing else. It is needed because the
// kernel sends a rank the parent-death signal when the forking thread ends, even if the helper continues. The thread
// also takes on the CPUs and memory policy of each rank, which no other thread may have. Go never creates new threads
// from a locked thread, so no other thread inherits them.
type ForkThread chan func()

// NewForkThread starts a ForkThread, a thread that starts all ranks of a session.
func NewForkThread() ForkThread {
	s := make(ForkThread)
	go func() {
		runtime.LockOSThread()
		for start := range s {
			start()
		}
	}()
	return s
}

// Do runs f on the thread and waits until f returns.
func (s ForkThread) Do(f func()) {
	done := make(chan struct{})
	s <- func() { f(); close(done) }
	<-done
}

// Close ends the thread. All processes that it has forked must have ended before, because the kernel sends
// them their parent-death signal.
func (s ForkThread) Close() { close(s) }
