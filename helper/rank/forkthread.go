//go:build linux

package rank

import (
	"runtime"
)

// A ForkThread runs functions on one thread, which lives until Close and does nothing else. The kernel sends the
// parent-death signal when the forking thread ends, not when its process ends, so Go must not retire the thread. The
// thread also takes on the CPUs and memory policy of each rank, which no other thread may have. Go does not create
// threads from a locked one.
type ForkThread chan func()

// NewForkThread starts the thread.
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

// Do runs f on the thread and waits for it.
func (s ForkThread) Do(f func()) {
	done := make(chan struct{})
	s <- func() { f(); close(done) }
	<-done
}

// Close ends the thread. All processes that it forked must have ended before, since each would get its parent-death
// signal.
func (s ForkThread) Close() { close(s) }
