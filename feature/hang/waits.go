//go:build linux

package hang

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
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
			w.number = pollCall // of calls without a time limit, only poll is restarted in this way
		} else {
			w.restarted = true
		}
	}
	return w
}

// pollCall and selectCall are the numbers of poll(2) and select(2) on AMD64. Other architectures do not have them.
const (
	pollCall   = 7
	selectCall = 23
)

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
	unix.SYS_PPOLL:           {argument: 2},
	unix.SYS_PSELECT6:        {argument: 4},
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
var eventCalls = map[int]bool{unix.SYS_PPOLL: true, unix.SYS_PSELECT6: true, unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true}

func init() {
	if runtime.GOARCH == "amd64" { // package unix does not have these for arm64
		const epollWait = 232
		timeLimits[pollCall] = timeLimit{argument: 2, milliseconds: true}
		timeLimits[selectCall] = timeLimit{argument: 4}
		timeLimits[epollWait] = timeLimit{argument: 3, milliseconds: true}
		eventCalls[pollCall], eventCalls[selectCall], eventCalls[epollWait] = true, true, true
	}
}

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
	if !strings.HasPrefix(linkOf(w.pid, int(w.arguments[0])), "socket:") {
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
		name := linkOf(w.pid, int(w.arguments[0]))
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
	if _, limited := main.isLimited(); limited || !main.mayWaitForThread() {
		return threads
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return threads
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxThreads)
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil || tid == pid {
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
	if w.number != pollCall {
		return eventCalls[w.number] && w.number != unix.SYS_PSELECT6 && w.number != selectCall
	}
	limit, limited := w.isLimited()
	return !limited || limit >= longPoll
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
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxFiles)
	for _, name := range names {
		fd, _ := strconv.Atoi(name)
		if linkOf(pid, fd) == "anon_inode:[timerfd]" && !strings.Contains(descriptorInfo(pid, fd), "it_value: (0, 0)") {
			return true
		}
	}
	return false
}

// waitsForUser reports whether the thread waits for the standard input of its rank, or for a reader of the rank's output.
// standard are the names of the rank's standard files, from standardFiles.
func (w waitingThread) waitsForUser(standard [3]string) bool {
	for _, e := range w.awaited() {
		name := linkOf(w.pid, e.fd)
		if name == "" || isFile(name) {
			continue
		}
		if !e.output && name == standard[0] || e.output && (name == standard[1] || name == standard[2]) {
			return true
		}
	}
	return false
}

// standardFiles returns what the standard input, output and error of a process are, as names that are equal for equal files.
func standardFiles(pid int) [3]string {
	return [3]string{linkOf(pid, 0), linkOf(pid, 1), linkOf(pid, 2)}
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
	switch first := int(w.arguments[0]); {
	case w.number == unix.SYS_READ || w.number == unix.SYS_READV:
		return []awaited{{first, false}}
	case w.number == unix.SYS_WRITE || w.number == unix.SYS_WRITEV:
		return []awaited{{first, true}}
	case w.number == pollCall || w.number == unix.SYS_PPOLL:
		polled := readMemory(w.pid, w.arguments[0], 8*int(min(w.arguments[1], maxPolled)))
		for ; len(polled) >= 8; polled = polled[8:] { // struct pollfd
			events := binary.NativeEndian.Uint16(polled[4:])
			fd := int(int32(binary.NativeEndian.Uint32(polled)))
			all = append(all, eventsOf(fd, uint32(events))...)
		}
	case w.number == selectCall || w.number == unix.SYS_PSELECT6:
		for i, output := range []bool{false, true} {
			set := readMemory(w.pid, w.arguments[1+i], 8)
			for fd := 0; len(set) > 0 && fd < int(min(w.arguments[0], 8)); fd++ {
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

// readMemory returns n bytes of the memory of a process, or nil if they cannot be read.
func readMemory(pid int, address uint64, n int) []byte {
	if n == 0 || address == 0 {
		return nil
	}
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(n)
	if got, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: n}}, 0); err != nil || got < n {
		return nil
	}
	return buf
}

// linkOf returns what a file descriptor of a process is open for, such as "pipe:[123]" or the path of a file, or "". It does
// not access the file, because its file system may hang.
func linkOf(pid, fd int) string {
	name, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", strconv.Itoa(fd)))
	return name
}

// isFile reports whether a name from linkOf is that of a file outside of /dev. A process that waits for such a file waits for
// a disk, not for a person.
func isFile(name string) bool {
	return strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/dev/")
}

// descriptorInfo returns what proc_pid_fdinfo(5) says about a file descriptor.
func descriptorInfo(pid, fd int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	return string(text)
}
