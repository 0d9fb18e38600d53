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

// All hosts run on this machine's kernel, which has one load average for all. With
// Options.LoadEvery, each host of kind Namespaces gets its own /proc/loadavg, computed by this
// package:
//
//	busy loop in the host --> state R in the host's /proc --count--> load --> hostDir/loadavg
//	                                                    (the kernel's formula)      | bind mount
//	                                                               reader <-- /proc/loadavg
//
// The count is real: threads of the host's PID namespace that are running, runnable or in
// uninterruptible sleep. Only the interval differs. The kernel counts every 5 seconds, so with
// LoadEvery of 50 ms the load average of a minute takes 0.6 s.

// loadFile is the name of the file that is mounted over /proc/loadavg on a host.
const loadFile = "loadavg"

// loadWidth is the length in bytes of the line in loadFile. The size of the file never changes, so no reader sees a
// partial line.
const loadWidth = 60

// fixedOne is the number 1 in the fixed-point format of the kernel's load averages (include/linux/sched/loadavg.h).
const fixedOne = 1 << 11

// decays are the factors by which the kernel multiplies the averages over 1, 5 and 15 minutes every 5 seconds, in
// units of 1/fixedOne.
var decays = [3]int{1884, 2014, 2037}

// averages are the load averages over 1, 5 and 15 minutes, in units of 1/fixedOne.
type averages [3]int

// next returns the averages after 5 more seconds with the given number of active threads, as the kernel's calc_load
// does.
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

// line returns the averages as a line of /proc/loadavg (loadavg_proc_show), padded to loadWidth. The last field is
// always 0. In the kernel's own file it is the most recent PID.
func (a averages) line(active, threads int) string {
	text := ""
	for _, load := range a {
		load += fixedOne / 200
		text += fmt.Sprintf("%d.%02d ", load/fixedOne, load%fixedOne*100/fixedOne)
	}
	text += fmt.Sprintf("%d/%d 0", active, threads)
	return fmt.Sprintf("%-*s\n", loadWidth, text)
}

// loadFiles returns the initial load file of each host, with averages of 0. It returns nil if LoadEvery is 0.
func (f *Cluster) loadFiles(o Options) (files []file) {
	if o.LoadEvery == 0 {
		return nil
	}
	for _, h := range f.Hosts {
		files = append(files, file{"hosts/" + h.Name + "/" + loadFile, 0o644, averages{}.line(0, 0)})
	}
	return files
}

// keepLoads updates the load files of all hosts at the given interval until Down is called. If the interval is 0,
// it does nothing.
func (f *Cluster) keepLoads(interval time.Duration) {
	if interval == 0 {
		return
	}
	var wg sync.WaitGroup
	end := make(chan struct{})
	for _, h := range f.Hosts {
		wg.Go(func() { f.keepLoad(h, interval, end) })
	}
	f.owner.stop = append(f.owner.stop, func() error {
		close(end)
		wg.Wait()
		return nil
	})
}

// keepLoad updates the load file of one host until the channel end is closed or the host is gone.
func (f *Cluster) keepLoad(h Host, interval time.Duration, end <-chan struct{}) {
	tick := time.NewTicker(interval)
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

// countThreads returns the number of all threads in the PID namespace to which a procfs belongs. active is the number
// of threads that count toward the kernel's load average (nr_running and nr_uninterruptible). proc is the path of the
// procfs.
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
