//go:build linux

package hang

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/feature/hang/machine"
	"remshell/proc"
)

// A watchedRank is a rank whose processes are sampled.
type watchedRank struct {
	number int
	state  uint64 // its PMI state and barrier
	pid    int    // 0: it does not run
	mpi    bool   // it has called PMI, so it has the threads of an MPI library
}

// readSample takes a sample of the given ranks from /proc, without stopping any process. Only if thorough is true, it
// looks for ranks that sleep for a limited time.
func readSample(ranks []watchedRank, thorough bool) machine.Sample {
	s := machine.Sample{At: time.Now(), Ranks: make(map[int]machine.RankSample, len(ranks))}
	slices.SortFunc(ranks, func(a, b watchedRank) int { return a.number - b.number })
	tree, sum := proc.ReadTree(), fnv.New64a()
	var buf []byte
	add := func(values ...uint64) {
		buf = buf[:0]
		for _, v := range values {
			buf = binary.LittleEndian.AppendUint64(buf, v)
		}
		sum.Write(buf)
	}
	for _, r := range ranks {
		add(uint64(r.number), r.state, uint64(r.pid))
		if r.pid == 0 {
			continue
		}
		var one machine.RankSample
		standard := standardFiles(r.pid)
		for _, p := range append([]proc.Info{{PID: r.pid}}, tree.Descendants(r.pid)...) {
			one.CPU += cpuTime(p.PID)
			add(uint64(p.PID))
			add(ioBytes(p.PID)...)
			for _, w := range decidingThreads(p.PID, r.mpi) {
				one.Wakeup += proc.Wakeups(w.tid)
				s.User = s.User || w.waitsForUser(standard)
				if thorough {
					_, limited := w.isLimited()
					one.Sleeps = one.Sleeps || limited
				}
			}
			one.Sleeps = one.Sleeps || thorough && (hasTimer(p.PID) || proc.IsTraced(p.PID))
		}
		s.Ranks[r.number] = one
	}
	s.Signature = sum.Sum64()
	return s
}

// cpuTime returns the CPU time of a process without that of its children. It returns 0 if the process has
// ended.
func cpuTime(pid int) time.Duration {
	var t unix.Timespec
	const scheduled = 2 // CPUCLOCK_SCHED, include/linux/posix-timers.h
	if unix.ClockGettime(int32(^pid<<3|scheduled), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// ioBytes returns the counters of bytes in proc_pid_io(5): the numbers of bytes that the process and the
// children that it has waited for have read and written. It returns nil if this is not permitted.
func ioBytes(pid int) (counters []uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "syscr" || name == "syscw" { // polling counts there
			continue
		}
		n, _ := strconv.ParseUint(value, 10, 64)
		counters = append(counters, n)
	}
	return counters
}
