//go:build linux

package hang

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
	"remshell/stack/trace"
)

// A waitingThread is a thread and the system call in which it waits.
type waitingThread struct {
	pid, tid  int
	number    int // of the system call; -1: the thread runs, or the kernel does not show the call
	arguments [6]uint64
	restarted bool // a tracer or a signal has interrupted the call, and the kernel continues it until its time limit
}

// readThread returns the system call in which a thread waits now.
func readThread(pid, tid int) waitingThread {
	w := waitingThread{pid: pid, tid: tid, number: -1}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
	fields := strings.Fields(string(text))
	if len(fields) < 1+len(w.arguments) {
		return w
	}
	number, err := strconv.Atoi(fields[0])
	if err != nil {
		return w
	}
	w.number = number
	for i := range w.arguments {
		w.arguments[i], _ = strconv.ParseUint(fields[1+i], 0, 64)
	}
	if number == unix.SYS_RESTART_SYSCALL { // the arguments are still those of the first call
		if strings.Contains(proc.WaitChannel(tid), "poll") {
			w.number = callPoll // of calls without a time limit, only poll is restarted in this way
		} else {
			w.restarted = true
		}
	}
	return w
}

// A timeLimit says which argument of a system call is its time limit.
type timeLimit struct {
	argument     int  // counted from 0
	milliseconds bool // the argument is a number of milliseconds; otherwise it is a pointer, which is 0 if there is no limit
}

// timeLimits lists the system calls that can have a time limit, by number.
var timeLimits = map[int]timeLimit{
	unix.SYS_NANOSLEEP:       {argument: 0},
	unix.SYS_CLOCK_NANOSLEEP: {argument: 2},
	unix.SYS_FUTEX:           {argument: 3},
	unix.SYS_FUTEX_WAITV:     {argument: 3},
	callPoll:                 {argument: 2, milliseconds: true},
	unix.SYS_PPOLL:           {argument: 2},
	callSelect:               {argument: 4},
	unix.SYS_PSELECT6:        {argument: 4},
	callEpollWait:            {argument: 3, milliseconds: true},
	unix.SYS_EPOLL_PWAIT:     {argument: 3, milliseconds: true},
	unix.SYS_EPOLL_PWAIT2:    {argument: 3},
	unix.SYS_RT_SIGTIMEDWAIT: {argument: 2},
	unix.SYS_SEMTIMEDOP:      {argument: 3},
	unix.SYS_MQ_TIMEDSEND:    {argument: 4},
	unix.SYS_MQ_TIMEDRECEIVE: {argument: 4},
	unix.SYS_IO_GETEVENTS:    {argument: 4},
	unix.SYS_IO_PGETEVENTS:   {argument: 4},
	unix.SYS_RECVMMSG:        {argument: 4},
}

// eventCalls lists the system calls in which event loops wait, by number.
var eventCalls = map[int]bool{callPoll: true, unix.SYS_PPOLL: true, callSelect: true, unix.SYS_PSELECT6: true,
	callEpollWait: true, unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true}

// isLimited reports whether the thread waits for a limited time. limit is that time, or 0 if it is not known.
func (w waitingThread) isLimited() (limit time.Duration, limited bool) {
	if w.restarted {
		return 0, true
	}
	at, is := timeLimits[w.number]
	switch {
	case !is:
		return 0, w.hasSocketTimeout()
	case at.milliseconds:
		limit = time.Duration(int32(w.arguments[at.argument])) * time.Millisecond
		return limit, limit > 0
	}
	return 0, w.arguments[at.argument] != 0
}

// hasSocketTimeout reports whether the thread waits for a socket that has a time limit of its own (SO_RCVTIMEO and
// SO_SNDTIMEO in socket(7)).
func (w waitingThread) hasSocketTimeout() bool {
	var option int
	switch w.number {
	case unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4:
		option = unix.SO_RCVTIMEO
	case unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_CONNECT:
		option = unix.SO_SNDTIMEO
	default:
		return false
	}
	if !strings.HasPrefix(proc.FileOf(w.pid, int(w.arguments[0])), "socket:") {
		return false
	}
	process, err := unix.PidfdOpen(w.pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, int(w.arguments[0]), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	limit, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, option)
	return err == nil && limit.Nano() > 0
}

// mayWaitForThread reports whether another thread of the process may end the wait.
func (w waitingThread) mayWaitForThread() bool {
	switch w.number {
	case unix.SYS_FUTEX, unix.SYS_WAIT4, unix.SYS_WAITID:
		return true
	case unix.SYS_READ:
		name := proc.FileOf(w.pid, int(w.arguments[0]))
		return strings.HasPrefix(name, "pipe:") || strings.HasPrefix(name, "anon_inode:[eventfd]")
	}
	return eventCalls[w.number]
}

// maxThreads is how many threads of a process are read.
const maxThreads = 1024

// decidingThreads returns the threads that decide whether a process continues: the main thread, and if this may wait for
// another thread, also the others. If the process uses an MPI library, threads in event loops are left out, because such
// libraries have threads that wait there all the time.
func decidingThreads(pid int, usesMPI bool) []waitingThread {
	main := readThread(pid, pid)
	threads := []waitingThread{main}
	if !main.mayWaitForThread() {
		return threads
	}
	if _, limited := main.isLimited(); limited {
		return threads
	}
	for _, tid := range proc.ListNumbers(fmt.Sprintf("/proc/%d/task", pid), maxThreads) {
		if tid == pid {
			continue
		}
		if w := readThread(pid, tid); !usesMPI || !w.isLibraryLoop() {
			threads = append(threads, w)
		}
	}
	return threads
}

// longPoll is the shortest time limit of poll(2) that means "until an event comes". Open MPI's threads wait for an hour.
const longPoll = 10 * time.Minute

// isLibraryLoop reports whether the thread waits as the threads of MPI libraries do: with epoll, or with poll and no
// limit or a long one.
func (w waitingThread) isLibraryLoop() bool {
	switch w.number {
	case callPoll:
		limit, limited := w.isLimited()
		return !limited || limit >= longPoll
	case unix.SYS_PPOLL, callEpollWait, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2:
		return true
	}
	return false
}

// maxFiles is how many open files of a process are read.
const maxFiles = 1024

// hasTimer reports whether a timer will interrupt a process: a POSIX timer, a file of timerfd_create(2), or perhaps
// alarm(2), if the process handles or blocks SIGALRM.
func hasTimer(pid int) bool {
	if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", pid)); len(text) > 0 {
		return true
	}
	if proc.Catches(pid, unix.SIGALRM) || proc.Blocks(pid, unix.SIGALRM) {
		return true
	}
	for _, fd := range proc.ListNumbers(fmt.Sprintf("/proc/%d/fd", pid), maxFiles) {
		if proc.FileOf(pid, fd) == "anon_inode:[timerfd]" && !strings.Contains(descriptorInfo(pid, fd), "it_value: (0, 0)") {
			return true
		}
	}
	return false
}

// waitsForUser reports whether the thread waits for the standard input of its rank, or for a reader of the rank's output.
// standard are the names of the rank's standard files, from standardFiles.
func (w waitingThread) waitsForUser(standard [3]string) bool {
	for _, e := range w.awaited() {
		name := proc.FileOf(w.pid, e.fd)
		if name == "" || isFile(name) {
			continue
		}
		if !e.output && name == standard[0] || e.output && (name == standard[1] || name == standard[2]) {
			return true
		}
	}
	return false
}

// standardFiles returns what the standard input, output and error of a process are open for, as proc.FileOf does.
func standardFiles(pid int) [3]string {
	return [3]string{proc.FileOf(pid, 0), proc.FileOf(pid, 1), proc.FileOf(pid, 2)}
}

// An awaited is a file descriptor that is to become readable, or writable if output is true.
type awaited struct {
	fd     int
	output bool
}

// maxPolled is how many file descriptors of one call are read.
const maxPolled = 256

// awaited returns the file descriptors for which the thread waits.
func (w waitingThread) awaited() (all []awaited) {
	memory := trace.MemoryOf(w.pid)
	switch first := int(w.arguments[0]); {
	case w.number == unix.SYS_READ || w.number == unix.SYS_READV:
		return []awaited{{first, false}}
	case w.number == unix.SYS_WRITE || w.number == unix.SYS_WRITEV:
		return []awaited{{first, true}}
	case w.number == callPoll || w.number == unix.SYS_PPOLL:
		polled := make([]byte, 8*min(w.arguments[1], maxPolled))
		if !memory(w.arguments[0], polled) {
			return nil
		}
		for ; len(polled) > 0; polled = polled[8:] { // struct pollfd
			events := binary.NativeEndian.Uint16(polled[4:])
			fd := int(int32(binary.NativeEndian.Uint32(polled)))
			all = append(all, eventsOf(fd, uint32(events))...)
		}
	case w.number == callSelect || w.number == unix.SYS_PSELECT6:
		for i, output := range []bool{false, true} {
			var set [1]byte // the first 8 descriptors, which include the standard streams
			if !memory(w.arguments[1+i], set[:]) {
				continue
			}
			for fd := range int(min(w.arguments[0], 8)) {
				if set[0]&(1<<fd) != 0 {
					all = append(all, awaited{fd, output})
				}
			}
		}
	case eventCalls[w.number]:
		for line := range strings.Lines(descriptorInfo(w.pid, first)) {
			var fd int
			var events uint32
			if n, _ := fmt.Sscanf(line, "tfd: %d events: %x", &fd, &events); n == 2 && len(all) < maxPolled {
				all = append(all, eventsOf(fd, events)...)
			}
		}
	}
	return all
}

// eventsOf returns what poll(2) and epoll(7) wait for on a file descriptor.
func eventsOf(fd int, events uint32) (all []awaited) {
	if events&unix.POLLIN != 0 {
		all = append(all, awaited{fd, false})
	}
	if events&unix.POLLOUT != 0 {
		all = append(all, awaited{fd, true})
	}
	return all
}

// isFile reports whether a name from proc.FileOf is the path of a file outside of /dev. A process that waits for such a
// file waits for a disk, not for a person.
func isFile(name string) bool {
	return strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/dev/")
}

// descriptorInfo returns what proc_pid_fdinfo(5) says about a file descriptor.
func descriptorInfo(pid, fd int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	return string(text)
}
