//go:build linux

package testbed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// All hosts run on the one kernel of this machine, which has one load average for all.
// With Options.LoadEvery each host of kind Namespaces gets a /proc/loadavg of its own, the
// field's stand-in for a kernel of its own:
//
//	busy loop in the host --> state R in the host's /proc --count--> load --> hostDir/loadavg
//	                                                    (the kernel's formula)      | bind mount
//	                                                             who asks <-- /proc/loadavg
//
// What is counted is real: the threads of the host's PID namespace that run, want to run,
// or wait uninterruptibly. Only the clock is ours: the kernel counts every 5 seconds, so
// with LoadEvery of 50 ms a minute's load takes 0.6 s.

// loadFile is the file of a host that lies over its /proc/loadavg.
const loadFile = "loadavg"

// loadWidth keeps the file's size, so that no reader sees half of a line.
const loadWidth = 60

// The kernel's fixed point and its decay in 5 seconds, for averages over 1, 5 and 15
// minutes (include/linux/sched/loadavg.h).
const fixedOne = 1 << 11

var decays = [3]int{1884, 2014, 2037}

// averages are the loads of 1, 5 and 15 minutes in parts of fixedOne.
type averages [3]int

// next is calc_load of the kernel, for all three.
func (a averages) next(active int) averages {
	for i, decay := range decays {
		load := a[i]*decay + active*fixedOne*(fixedOne-decay)
		if active*fixedOne >= a[i] {
			load += fixedOne - 1
		}
		a[i] = load / fixedOne
	}
	return a
}

// line is what /proc/loadavg shows (loadavg_proc_show), always of the same width. The
// kernel's last word, the pid given out last, is 0.
func (a averages) line(active, threads int) string {
	text := ""
	for _, load := range a {
		load += fixedOne / 200
		text += fmt.Sprintf("%d.%02d ", load/fixedOne, load%fixedOne*100/fixedOne)
	}
	text += fmt.Sprintf("%d/%d 0", active, threads)
	return fmt.Sprintf("%-*s\n", loadWidth, text)
}

// loadFiles are the files to be mounted; the hosts start idle.
func (f *Cluster) loadFiles(o Options) (files []file) {
	if o.LoadEvery == 0 {
		return nil
	}
	for _, h := range f.Hosts {
		files = append(files, file{"hosts/" + h.Name + "/" + loadFile, 0o644, averages{}.line(0, 0)})
	}
	return files
}

// keepLoads renews the loads of all hosts until the field goes down.
func (f *Cluster) keepLoads(every time.Duration) {
	if every == 0 {
		return
	}
	var wg sync.WaitGroup
	end := make(chan struct{})
	for _, h := range f.Hosts {
		wg.Go(func() { f.keepLoad(h, every, end) })
	}
	f.owner.stop = append(f.owner.stop, func() error {
		close(end)
		wg.Wait()
		return nil
	})
}

// keepLoad renews one host's load. A host that is gone has none.
func (f *Cluster) keepLoad(h Host, every time.Duration, end <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var load averages
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		active, threads := countThreads(f.Root(h.Name) + "/proc")
		load = load.next(active)
		out, err := os.OpenFile(f.Root(h.Name)+hostDir+"/"+loadFile, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		_, err = out.WriteAt([]byte(load.line(active, threads)), 0)
		if out.Close() != nil || err != nil {
			return
		}
	}
}

// countThreads counts what the kernel counts for its load (nr_running and
// nr_uninterruptible), and all there is, in the PID namespace of a procfs.
func countThreads(proc string) (active, all int) {
	stats, _ := filepath.Glob(proc + "/[0-9]*/task/*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		all++
		// proc_pid_stat(5): the name is in brackets and may hold anything.
		after := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
		if len(after) > 0 && (after[0] == 'R' || after[0] == 'D') {
			active++
		}
	}
	return active, all
}
