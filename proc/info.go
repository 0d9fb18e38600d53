//go:build linux

package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every Linux we run on.
const clockTick = time.Second / 100

// An Info is what the kernel tells of one process at one moment.
type Info struct {
	PID, Parent    int
	Group, Session int
	State          byte          // a letter of proc_pid_stat(5)
	CPU            time.Duration // its own and that of the children it waited for
	StartTime      StartTicks
}

// ReadInfo looks at one process; false: it is gone.
func ReadInfo(pid int) (Info, bool) {
	fields := readStatFields(pid)
	if len(fields) < 20 {
		return Info{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	ticks := number(11) + number(12) + number(13) + number(14)
	born, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return Info{PID: pid, Parent: number(1), Group: number(2), Session: number(3), State: fields[0][0],
		CPU: time.Duration(ticks) * clockTick, StartTime: StartTicks(born)}, true
}

// A Tree is all processes at one moment, by parent.
type Tree map[int][]Info

// ReadAll looks at all processes.
func ReadAll() (looks []Info) {
	for _, pid := range allPIDs() {
		if look, there := ReadInfo(pid); there {
			looks = append(looks, look)
		}
	}
	return looks
}

// ReadTree looks at all processes.
func ReadTree() Tree {
	tree := make(Tree)
	for _, look := range ReadAll() {
		tree[look.Parent] = append(tree[look.Parent], look)
	}
	return tree
}

// CPU is what the processes below pid have consumed.
func (t Tree) CPU(pid int) (sum time.Duration) {
	for _, child := range t[pid] {
		sum += child.CPU + t.CPU(child.PID)
	}
	return sum
}

// ActiveChild is the process that does the work of pid: of a shell that waits for its only
// child, that child.
func (t Tree) ActiveChild(pid int) int {
	for WaitChannel(pid) == "do_wait" && len(t[pid]) == 1 {
		pid = t[pid][0].PID
	}
	return pid
}

// WaitChannel is where in the kernel a process sleeps; empty: it does not, or the kernel does
// not tell.
func WaitChannel(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if string(text) == "0" {
		return ""
	}
	name, _, _ := strings.Cut(string(text), ".") // what follows is the compiler's
	return name
}

// CatchesOrIgnores reports whether a process has a handler for a signal, or ignores it. If the process cannot be
// looked at, it does not.
func CatchesOrIgnores(pid int, signal unix.Signal) bool {
	caught, ignored := signalMask(pid, "SigCgt"), signalMask(pid, "SigIgn")
	return (caught|ignored)&(1<<(signal-1)) != 0
}

// Catches reports whether a process has a handler for a signal.
func Catches(pid int, signal unix.Signal) bool {
	return signalMask(pid, "SigCgt")&(1<<(signal-1)) != 0
}

// signalMask reads a set of signals from /proc/PID/status: signal N is bit N-1.
func signalMask(pid int, name string) uint64 {
	mask, _ := strconv.ParseUint(string(statusField(pid, name)), 16, 64)
	return mask
}

// PeakMemory is the largest resident set that a process has had, in bytes; 0: it is gone, or
// the kernel does not tell.
func PeakMemory(pid int) int64 {
	number, _, _ := bytes.Cut(statusField(pid, "VmHWM"), []byte(" "))
	kib, _ := strconv.ParseInt(string(number), 10, 53)
	return kib << 10
}

// statusField returns the value of a line of /proc/PID/status; nil: there is no such line, or no such process.
func statusField(pid int, name string) []byte {
	var room [4 << 10]byte // enough for all of it, unless the process is in hundreds of groups
	file := "/proc/" + strconv.Itoa(pid) + "/status"
	text, _ := readSmall(file, room[:])
	if len(text) == len(room) {
		text, _ = os.ReadFile(file)
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// AwaitChildEnd waits until a child has ended, and returns its number without reaping it, so
// that /proc still tells of it. A child that another thread traces for the moment of its exec is
// shown to every thread that waits, whatever it waits for; that is none of an end.
func AwaitChildEnd() (pid int, err error) {
	// si_pid stands behind three ints and, where pointers have eight bytes, padding
	// (siginfo_t, include/uapi/asm-generic/siginfo.h).
	const offset = 12 + 4*(unsafe.Sizeof(uintptr(0))/8)
	const trapped = 4 // CLD_TRAPPED, in si_code of sigaction(2)
	var info unix.Siginfo
	for {
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			return 0, err
		}
		if info.Code != trapped {
			break
		}
		time.Sleep(time.Millisecond) // its tracer lets it go in some 20 µs
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil
}

// Children lists the children of this process; none if the kernel does not tell
// (CONFIG_PROC_CHILDREN).
func Children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pids = append(pids, parsePIDs(text)...)
	}
	return pids
}

// Orphans lists what our descendants have left to us: the children of our first thread, to which the kernel gives them
// (find_new_reaper in kernel/exit.c, Linux 3.19), with those that this thread has started. It takes a tenth of the
// time of Children. None if the kernel does not tell (CONFIG_PROC_CHILDREN).
func Orphans() []int {
	var room [1 << 10]byte
	text, _ := readSmall("/proc/self/task/"+strconv.Itoa(os.Getpid())+"/children", room[:])
	return parsePIDs(text)
}

// parsePIDs reads the words of a file of /proc that are numbers.
func parsePIDs(text []byte) (list []int) {
	for word := range bytes.FieldsSeq(text) {
		if number, err := strconv.Atoi(string(word)); err == nil {
			list = append(list, number)
		}
	}
	return list
}

// EnvironVariable is the value that a variable had when the program of a process began; empty
// if it was not set or cannot be seen.
func EnvironVariable(pid int, name string) string {
	value, _ := readEnvironVariable(pid, name)
	return value
}
