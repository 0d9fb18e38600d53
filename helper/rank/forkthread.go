//go:build linux

package rank

import (
	"runtime"
)

// A ForkThread starts processes on one thread that lives until Close and runs
// nothing else. A parent-death signal comes when the thread that forked ends, not when
// its process does, so the thread must not be one that Go may retire; and it takes on the
// CPUs and the memory policy of each rank, which nobody else should have. Go clones no
// thread from one that is locked.
type ForkThread chan func()

// NewForkThread starts its thread.
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

// Do runs f on the starter's thread and waits for it.
func (s ForkThread) Do(f func()) {
	done := make(chan struct{})
	s <- func() { f(); close(done) }
	<-done
}

// Close ends the thread. No process may be left that would hear of that.
func (s ForkThread) Close() { close(s) }
