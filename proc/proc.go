//go:build linux

/*
Package proc reads and ends the tree of processes below this process.

	this process (child subreaper) --- rank --- child --- grandchild
	   |
	   '------ orphan: its parent died, this process is its new parent

A subreaper inherits every orphan among its descendants, including orphans that have called setsid. So this process
can find and end all processes that its children have left behind. The tree is read from /proc. The package knows
nothing about ranks.
*/
package proc

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process inherit the orphans among its descendants.
func BecomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// A Process describes a process that Descendants returns. Zombie is true if only the exit status of the process is
// left, or if its first thread has ended and other threads still run.
type Process struct {
	PID    int
	Zombie bool
}

// Descendants returns all descendants of pid. Parents come before their children.
func Descendants(pid int) []Process {
	children := make(map[int][]Process)
	for _, p := range ListNumbers("/proc", -1) {
		if parent, state, _ := ParentStateStart(p); state != 0 {
			children[parent] = append(children[parent], Process{p, state == 'Z'})
		}
	}
	var below []Process
	for next := children[pid]; len(next) > 0; next = next[1:] {
		below = append(below, next[0])
		next = append(next, children[next[0].PID]...)
	}
	return below
}

// SignalDescendants sends sig to all descendants of this process. It returns how many of them, without zombies,
// have received the signal.
func SignalDescendants(sig unix.Signal) int {
	reached := 0
	for _, p := range Descendants(os.Getpid()) {
		if unix.Kill(p.PID, sig) == nil && !p.Zombie {
			reached++
		}
	}
	return reached
}

// EndDescendants ends all descendants of this process. It sends SIGTERM and, after grace, SIGKILL until no descendant
// is left. It reaps the descendants, so no other goroutine may wait for children. It returns how many descendants were
// running. Processes in uninterruptible sleep cannot be killed, so EndDescendants gives up after grace and timeout have
// passed.
func EndDescendants(grace, timeout time.Duration) int {
	if reapUntil(time.Time{}) {
		return 0 // the usual case; reading /proc takes milliseconds
	}
	found := SignalDescendants(unix.SIGTERM)
	SignalDescendants(unix.SIGCONT) // a stopped process does not handle SIGTERM
	if reapUntil(time.Now().Add(grace)) {
		return found
	}
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		SignalDescendants(unix.SIGKILL)
		if reapUntil(time.Now().Add(20 * time.Millisecond)) {
			break
		}
	}
	return found
}

// reapUntil reaps children until no child is left or the deadline has passed. It returns true if no child is left.
func reapUntil(deadline time.Time) bool {
	pause := time.Millisecond
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return true
		case pid > 0 || err == unix.EINTR:
		case time.Now().After(deadline):
			return false
		default:
			time.Sleep(pause)
			pause = min(2*pause, 20*time.Millisecond)
		}
	}
}

// IsExiting reports whether a process is exiting or gone. Signals no longer change how such a process ends. Its files
// may already be closed although it cannot be reaped yet.
func IsExiting(pid int) bool {
	const pfExiting, pfDumpcore, pfSignaled = 0x4, 0x200, 0x400 // linux/sched.h
	fields := readStatFields(pid)
	if len(fields) < 7 {
		return true // reaped already
	}
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	return fields[0][0] == 'Z' || flags&(pfExiting|pfDumpcore|pfSignaled) != 0
}

// WithVariable returns the PIDs of the processes whose environment contained an assignment, such as "NAME=value", when
// they started. It leaves out this process, and processes whose environment it cannot read, such as processes of other
// users.
func WithVariable(assignment string) []int {
	var marked []int
	for _, pid := range ListNumbers("/proc", -1) {
		if pid != os.Getpid() && hasVariable(pid, assignment) {
			marked = append(marked, pid)
		}
	}
	return marked
}

func hasVariable(pid int, assignment string) bool {
	name, want, _ := strings.Cut(assignment, "=")
	value, set := readEnvironVariable(pid, name)
	return set && value == want
}

// These constants limit how much of a process's environment is read. The kernel lets a program start with 6 MiB of
// arguments and environment (MAX_ARG_STRLEN and _STK_LIM in fs/exec.c). But a process may later declare an
// environment that is as large as its memory (PR_SET_MM_MAP in prctl(2)).
const (
	maxEnviron  = 6 << 20
	maxVariable = 4 << 10 // bytes of the variable that is searched for
)

// readEnvironVariable returns the value of a variable in the environment of a process. It uses a limited amount of
// memory. set is false if the variable is not set.
func readEnvironVariable(pid int, name string) (value string, set bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, maxEnviron), maxVariable)
	for err == nil {
		var text []byte
		text, err = r.ReadSlice(0)
		for tooLong := err == bufio.ErrBufferFull; tooLong; tooLong = err == bufio.ErrBufferFull {
			text = nil
			_, err = r.ReadSlice(0)
		}
		if rest, is := bytes.CutPrefix(text, []byte(name)); is && len(rest) > 0 && rest[0] == '=' {
			return string(bytes.TrimSuffix(rest[1:], []byte{0})), true
		}
	}
	return "", false
}

// IsOwnedBy reports whether the real user ID of a process is uid.
func IsOwnedBy(pid, uid int) bool {
	var buf [1 << 10]byte
	text, _ := readSmall("/proc/"+strconv.Itoa(pid)+"/status", buf[:])
	_, rest, _ := bytes.Cut(text, []byte("\nUid:"))
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if len(fields) == 0 {
		return false
	}
	owner, err := strconv.Atoi(string(fields[0]))
	return err == nil && owner == uid
}

// ListNumbers returns the numbers in a directory of /proc, such as the PIDs in /proc or the descriptors in /proc/PID/fd,
// in no particular order. If limit is not negative, it reads at most limit names. It returns nil if the directory cannot
// be read.
func ListNumbers(directory string, limit int) (numbers []int) {
	dir, err := os.Open(directory)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(limit)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// readSmall reads a file in /proc into buf, and truncates a file that is longer than buf. It makes four system calls.
// os.ReadFile makes ten, since it registers the file for polling. The difference matters because readSmall is called
// for every rank that ends.
func readSmall(name string, buf []byte) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for size := 0; ; {
		n, err := retryEINTR(func() (int, error) { return unix.Read(fd, buf[size:]) })
		if err != nil {
			return nil, err
		}
		if size += n; n == 0 || size == len(buf) {
			return buf[:size], nil
		}
	}
}

// retryEINTR repeats a system call for as long as signals interrupt it.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// readStatFields returns the fields of /proc/PID/stat, beginning with the state. It returns nil if the process is
// gone. The name in parentheses may contain any characters, so the fields are read after the last parenthesis
// (proc_pid_stat(5)).
func readStatFields(pid int) [][]byte {
	var buf [1 << 10]byte // numbers, and a name of at most 64 bytes
	text, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// StartTicks is the start time of a process, in clock ticks since the machine was booted.
type StartTicks uint64

// Time returns the time of the system clock at which b was or will be reached. It is accurate to a hundredth of a
// second. If b is 0, which means unknown, Time returns the zero Time.
func (b StartTicks) Time() time.Time {
	var now, up unix.Timespec
	if b == 0 || unix.ClockGettime(unix.CLOCK_REALTIME, &now) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Unix(now.Unix()).Add(time.Duration(b)*clockTick - time.Duration(up.Nano()))
}

// CurrentTicks returns the current time as StartTicks.
func CurrentTicks() StartTicks {
	var up unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return StartTicks(time.Duration(up.Nano()) / clockTick)
}

// ParentStateStart returns the parent, the state and the start time of a process. If the process is gone, the state
// is 0 (proc_pid_stat(5), fields 3, 4 and 22).
func ParentStateStart(pid int) (parent int, state byte, start StartTicks) {
	fields := readStatFields(pid)
	if len(fields) < 20 {
		return 0, 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	ticks, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return parent, fields[0][0], StartTicks(ticks)
}
