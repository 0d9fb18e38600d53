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
		var one machine.RankSample
		active := tree.ActiveChild(r.pid)
		for _, p := range append([]proc.Info{{PID: r.pid}}, tree.Descendants(r.pid)...) {
			one.CPU += cpuTime(p.PID)
			add(uint64(p.PID))
			add(ioBytes(p.PID)...)
			s.User = s.User || waitsForUser(p.PID)
			wakeup, sleeps := activity(p.PID, r.slept)
			if p.PID == active {
				one.Wakeup = wakeup
			}
			one.Sleeps = one.Sleeps || sleeps
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

// maxThreads is the maximum number of threads of a process that the function activity examines.
const maxThreads = 1024

// longPoll is a time limit of poll(2). A thread with this limit or a longer one is assumed to wait for an event, and not
// for the time to pass. Threads of Open MPI that wait for an event use a limit of an hour.
const longPoll = 10 * time.Minute

// activity counts how often some threads of a process have gone to sleep in the kernel, and reports whether one of
// them sleeps for a limited time. The main thread is always one of them. If it waits for another thread, the other
// threads are included, except those that wait in an event loop, as threads of MPI libraries do. slept is as in
// sleepsForATime.
func activity(pid int, slept bool) (wakeup uint64, sleeps bool) {
	wakeup = wakeups(pid, pid)
	number, arguments := systemCall(pid, pid)
	if _, limited := limitOf(number, arguments); number != unix.SYS_FUTEX || limited {
		return wakeup, sleepsForATime(pid, slept)
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return wakeup, false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxThreads)
	for _, name := range names {
		thread, err := strconv.Atoi(name)
		if err != nil || thread == pid {
			continue
		}
		number, arguments := systemCall(pid, thread)
		limit, limited := limitOf(number, arguments)
		switch at := timeArguments[number]; {
		case at.epoll:
		case at.poll:
			sleeps = sleeps || 0 < limit && limit < longPoll
		default:
			wakeup += wakeups(pid, thread)
			sleeps = sleeps || limited
		}
	}
	return wakeup, sleeps
}

// wakeups returns how often a thread of a process has gone to sleep in the kernel.
func wakeups(pid, thread int) (n uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, thread))
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

// waitsForUser reports whether the main thread of a process waits for input on its standard input, or until its
// standard output or standard error can take more. If the stream is a file, it returns false, because the process
// then waits for a disk.
func waitsForUser(pid int) bool {
	number, arguments := systemCall(pid, pid)
	fd := arguments[0]
	switch number {
	case unix.SYS_READ, unix.SYS_READV:
		return fd == 0 && !isFile(pid, fd)
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		return (fd == 1 || fd == 2) && !isFile(pid, fd)
	}
	return false
}

// isFile reports whether a file descriptor of a process is open for a file outside of /dev. It does not access the file, because
// its file system may hang.
func isFile(pid int, fd uint64) bool {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	return strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/dev/")
}

// sleepsForATime reports whether the main thread of a process waits in a system call with a time limit. If a tracer
// has stopped the thread meanwhile, the kernel shows restart_syscall(2) instead of the call. For this case, slept is
// the previous result of sleepsForATime.
func sleepsForATime(pid int, slept bool) bool {
	number, arguments := systemCall(pid, pid)
	if number == unix.SYS_RESTART_SYSCALL { // of calls without a time limit, only those of poll are restarted in this way
		return slept || !strings.Contains(proc.WaitChannel(pid), "poll")
	}
	_, limited := limitOf(number, arguments)
	return limited
}

// A timeArgument says which argument of a system call limits how long the call waits.
type timeArgument struct {
	argument     int  // counted from 0
	milliseconds bool // the argument is a number of milliseconds; otherwise it is a pointer, which is 0 if there is no limit
	poll, epoll  bool // event loops wait in this call
}

// timeArguments lists the system calls that can wait for a limited time, by number.
var timeArguments = map[int]timeArgument{
	unix.SYS_NANOSLEEP:       {argument: 0},
	unix.SYS_CLOCK_NANOSLEEP: {argument: 2},
	unix.SYS_PSELECT6:        {argument: 4},
	unix.SYS_FUTEX:           {argument: 3},
	unix.SYS_PPOLL:           {argument: 2, poll: true},
	unix.SYS_EPOLL_PWAIT:     {argument: 3, milliseconds: true, epoll: true},
	unix.SYS_EPOLL_PWAIT2:    {argument: 3, epoll: true},
}

func init() {
	if runtime.GOARCH == "amd64" { // package unix does not have these for arm64
		timeArguments[7] = timeArgument{argument: 2, milliseconds: true, poll: true}    // poll
		timeArguments[23] = timeArgument{argument: 4}                                   // select
		timeArguments[232] = timeArgument{argument: 3, milliseconds: true, epoll: true} // epoll_wait
	}
}

// limitOf reports whether a system call waits for a limited time. limit is that time, or 0 if it is not known.
func limitOf(number int, arguments [6]uint64) (limit time.Duration, limited bool) {
	at, is := timeArguments[number]
	switch {
	case !is:
		return 0, false
	case at.milliseconds:
		limit = time.Duration(int32(arguments[at.argument])) * time.Millisecond
		return limit, limit > 0
	}
	return 0, arguments[at.argument] != 0
}

// systemCall returns the number of the system call in which a thread of a process waits, and its arguments. The number is
// -1 if the thread runs, or the kernel does not show it.
func systemCall(pid, thread int) (number int, arguments [6]uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, thread))
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
