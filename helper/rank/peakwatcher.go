//go:build linux

package rank

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

/*
The largest resident set that wait4(2) tells of a rank holds ours: a fork that shares memory
until exec counts it as the child's (setmax_mm_hiwater_rss in the kernel's exec). What is
larger than that was the rank's; what is not, is seen only while it runs, in /proc. So, if
somebody wants to know, we look at small ranks when they begin, and now and then.

	fork, exec --> look --0.25ms--> look --0.5ms--> look -- ... --1s--> look    until it is larger
*/
type PeakWatcher struct {
	mu    sync.Mutex    // guards of
	peaks map[int]*peak // by pid; nil: nobody wants to know
}

// A peak is the largest memory that was seen of a process, in bytes. Above floor the kernel
// tells the truth in the end.
type peak struct{ seen, floor int64 }

// ownPeak is the most memory that we have had.
func ownPeak() int64 {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used)
	return used.Maxrss << 10
}

// Start looks at what is watched until done is closed.
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

// Watch looks at a process from now on.
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

// StopWatching looks at a process no more, and returns what was seen of it; 0: nothing.
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
