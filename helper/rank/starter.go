//go:build linux

package rank

import (
	"runtime"
)

// A Starter starts processes on one thread that lives until Close and runs
// nothing else. A parent-death signal comes when the thread that forked ends, not when
// its process does, so the thread must not be one that Go may retire; and it takes on the
// CPUs and the memory policy of each rank, which nobody else should have. Go clones no
// thread from one that is locked.
type Starter chan func()

// NewStarter starts its thread.
func NewStarter() Starter {
	s := make(Starter)
	go func() {
		runtime.LockOSThread()
		for start := range s {
			start()
		}
	}()
	return s
}

// Do runs f on the starter's thread and waits for it.
func (s Starter) Do(f func()) {
	done := make(chan struct{})
	s <- func() { f(); close(done) }
	<-done
}

// Close ends the thread. No process may be left that would hear of that.
func (s Starter) Close() { close(s) }
