//go:build linux

package rank

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

/*
A PeakWatcher records the peak memory of ranks that use less than the helper.

The largest resident set that wait4(2) reports for a rank is at least the helper's. The kernel adds memory that a child
shares with the helper until its exec to the child's peak (setmax_mm_hiwater_rss in exec). A smaller peak can only be
read in /proc while the rank runs. So, if usage is sampled, small ranks are read soon after their start and then less
and less often:

	fork, exec --> read --0.25ms--> read --0.5ms--> read -- ... --1s--> read    until it exceeds the helper's
*/
type PeakWatcher struct {
	mu    sync.Mutex    // guards peaks
	peaks map[int]*peak // by PID; nil: not started
}

// A peak is the largest memory that a process was seen to use, in bytes. If the process has used more than
// floor bytes, wait4(2) reports the exact value, which is used in place of seen.
type peak struct{ seen, floor int64 }

// ownPeak returns the largest resident set of this process so far, in bytes.
func ownPeak() int64 {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used)
	return used.Maxrss << 10
}

// Start starts a goroutine that reads the memory of the watched processes until done is closed.
func (p *PeakWatcher) Start(done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peaks != nil {
		return
	}
	p.peaks = make(map[int]*peak)
	go func() {
		for pause := 250 * time.Microsecond; ; pause = min(2*pause, time.Second) {
			select {
			case <-done:
				return
			case <-time.After(pause):
				p.updatePeaks()
			}
		}
	}()
}

// Watch begins to watch a process. If the process uses more than floor bytes, wait4 reports its peak correctly, and the
// PeakWatcher need not read it any more.
func (p *PeakWatcher) Watch(pid int, floor int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peaks != nil {
		p.peaks[pid] = &peak{proc.PeakMemory(pid), floor}
	}
}

func (p *PeakWatcher) updatePeaks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, one := range p.peaks {
		if one.seen <= one.floor {
			one.seen = max(one.seen, proc.PeakMemory(pid))
		}
	}
}

// StopWatching stops watching a process. It returns the largest memory that was seen, in bytes, or 0 if none
// was seen.
func (p *PeakWatcher) StopWatching(pid int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.peaks[pid]
	if one == nil {
		return 0
	}
	delete(p.peaks, pid)
	return one.seen
}
