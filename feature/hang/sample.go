//go:build linux

package hang

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
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
	slept  bool   // it slept for a time at the last sample
}

// readSample takes a sample of the given ranks from /proc, without stopping any process.
func readSample(ranks []watchedRank) machine.Sample {
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
		one := machine.RankSample{Wakeup: wakeups(tree.ActiveChild(r.pid))}
		for _, p := range append([]proc.Info{{PID: r.pid}}, tree.Descendants(r.pid)...) {
			one.CPU += cpuTime(p.PID)
			add(uint64(p.PID))
			add(ioBytes(p.PID)...)
			s.User = s.User || waitsForUser(p.PID)
			one.Sleeps = one.Sleeps || sleepsForATime(p.PID, r.slept)
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

// wakeups returns how often the first thread of a process has gone to sleep in the kernel.
func wakeups(pid int) (n uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, pid))
	_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	return n
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

// waitsForUser reports whether the first thread of a process waits for its standard input, or for a reader of its output.
func waitsForUser(pid int) bool {
	number, arguments := systemCall(pid)
	switch number {
	case unix.SYS_READ, unix.SYS_READV:
		return arguments[0] == 0
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		return arguments[0] == 1 || arguments[0] == 2
	}
	return false
}

// sleepsForATime reports whether the first thread of a process waits in a system call with a time limit. If a tracer
// has stopped the thread meanwhile, the kernel shows restart_syscall(2) instead of the call. For this case, slept is
// the previous result of sleepsForATime.
func sleepsForATime(pid int, slept bool) bool {
	number, arguments := systemCall(pid)
	if number < 0 {
		return false
	}
	if number == unix.SYS_RESTART_SYSCALL { // of calls without a time, only those of poll are restarted in this way
		return slept || !strings.Contains(proc.WaitChannel(pid), "poll")
	}
	at, sets := timeArguments[number]
	switch {
	case !sets:
		return false
	case at.milliseconds:
		return int32(arguments[at.argument]) > 0
	}
	return arguments[at.argument] != 0
}

// A timeArgument says which argument of a system call limits how long the call waits.
type timeArgument struct {
	argument     int  // from 0; if it is 0, the call waits without a limit
	milliseconds bool // it is a number of milliseconds. If it is 0 or less, the call does not wait, or waits without a limit
}

// timeArguments lists the system calls that can wait for a limited time, by number.
var timeArguments = map[int]timeArgument{
	unix.SYS_NANOSLEEP:       {0, false},
	unix.SYS_CLOCK_NANOSLEEP: {2, false},
	unix.SYS_PPOLL:           {2, false},
	unix.SYS_PSELECT6:        {4, false},
	unix.SYS_EPOLL_PWAIT:     {3, true},
	unix.SYS_EPOLL_PWAIT2:    {3, false},
	unix.SYS_FUTEX:           {3, false},
}

func init() {
	if runtime.GOARCH == "amd64" { // package unix does not have these for arm64
		timeArguments[7] = timeArgument{2, true}   // poll
		timeArguments[23] = timeArgument{4, false} // select
		timeArguments[232] = timeArgument{3, true} // epoll_wait
	}
}

// systemCall returns the number of the system call in which the first thread of a process waits, and its arguments.
// The number is -1 if the thread runs, or the kernel does not show it.
func systemCall(pid int) (number int, arguments [6]uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	fields := strings.Fields(string(text))
	if len(fields) < 1+len(arguments) {
		return -1, arguments
	}
	number, err := strconv.Atoi(fields[0])
	if err != nil {
		return -1, arguments
	}
	for i := range arguments {
		arguments[i], _ = strconv.ParseUint(fields[1+i], 0, 64)
	}
	return number, arguments
}
