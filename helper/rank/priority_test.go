//go:build linux

package rank

import (
	"math"
	"runtime"
	"testing"
)

func TestLowestNice(t *testing.T) {
	for limit, want := range map[uint64]int{0: 20, 1: 19, 20: 0, 25: -5, 40: -20, 41: -20, math.MaxUint64: -20} {
		if got := lowestNice(limit); got != want {
			t.Errorf("RLIMIT_NICE %d: %d, want %d", limit, got, want)
		}
	}
}

// Only the thread that forks ranks gets their niceness and I/O priority. The process gets its OOM score adjustment back.
func TestOnlyTheForkThreadHasThePriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := OwnPriority()
	if !own.Known || own.Nice == 19 || own.OOMScore == 1000 {
		t.Skipf("this process has %+v", own)
	}
	want := Priority{Known: true, Nice: own.Nice + 1, IO: 3 << ioClassShift, OOMScore: own.OOMScore + 1}
	fork := NewForkThread()
	defer fork.Close()
	fork.Do(func() {
		restore, denied, important := want.SetForForks()
		if got := OwnPriority(); got != want || denied != nil || important {
			t.Errorf("the fork thread has %+v, want %+v; denied %q %v", got, want, denied, important)
		}
		restore()
		if got := OwnPriority().OOMScore; got != own.OOMScore {
			t.Errorf("the OOM score adjustment is %d, want %d", got, own.OOMScore)
		}
		restore, denied, _ = Priority{}.SetForForks()
		restore()
		if got := OwnPriority().Nice; got != want.Nice || denied != nil {
			t.Errorf("without a priority it has %d, %q; want %d", got, denied, want.Nice)
		}
	})
	if got := OwnPriority(); got != own {
		t.Errorf("another thread has %+v, want %+v", got, own)
	}
}
