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

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every supported Linux.
const clockTick = time.Second / 100

// An Info is the state of one process at one moment.
type Info struct {
	PID, Parent    int
	Group, Session int
	State          byte          // a letter of proc_pid_stat(5)
	CPU            time.Duration // of the process and of the children that it waited for
	StartTime      StartTicks
	Thread         bool // not the first thread of its process; PID is its thread ID
}

// ReadInfo reads one process. It returns false if the process is gone.
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
		CPU: time.Duration(ticks) * clockTick, StartTime: StartTicks(born), Thread: len(fields) > 35 && string(fields[35]) == "-1"}, true // exit_signal
}

// A Tree has all processes at one moment. The key is the PID of the parent.
type Tree map[int][]Info

// ReadAll reads all processes.
func ReadAll() (all []Info) {
	for _, pid := range allPIDs() {
		if info, ok := ReadInfo(pid); ok {
			all = append(all, info)
		}
	}
	return all
}

// ReadTree reads all processes into a Tree.
func ReadTree() Tree {
	tree := make(Tree)
	for _, p := range ReadAll() {
		tree[p.Parent] = append(tree[p.Parent], p)
	}
	return tree
}

// CPU returns the total CPU time of the descendants of pid, without pid itself.
func (t Tree) CPU(pid int) (sum time.Duration) {
	for _, child := range t[pid] {
		sum += child.CPU + t.CPU(child.PID)
	}
	return sum
}

// ActiveChild returns the process that works for pid. If pid is a shell that waits for its only child, it
// is that child. Otherwise it is pid itself.
func (t Tree) ActiveChild(pid int) int {
	for WaitChannel(pid) == "do_wait" && len(t[pid]) == 1 {
		pid = t[pid][0].PID
	}
	return pid
}

// WaitChannel returns the kernel function in which a process sleeps. It is empty if the process runs, or the kernel
// does not show it.
func WaitChannel(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if string(text) == "0" {
		return ""
	}
	name, _, _ := strings.Cut(string(text), ".") // the compiler adds a suffix after the dot
	return name
}

// CatchesOrIgnores reports whether a process has a handler for a signal or ignores it. It is false if the process
// cannot be read.
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

// PeakMemory returns the largest resident set of a process so far, in bytes. It is 0 if the process is gone or the
// kernel does not show it.
func PeakMemory(pid int) int64 {
	number, _, _ := bytes.Cut(statusField(pid, "VmHWM"), []byte(" "))
	kib, _ := strconv.ParseInt(string(number), 10, 53)
	return kib << 10
}

// statusField returns the value of a line of /proc/PID/status. It is nil if there is no such line or process.
func statusField(pid int, name string) []byte {
	var buf [4 << 10]byte // enough for all of it, unless the process is in hundreds of groups
	file := "/proc/" + strconv.Itoa(pid) + "/status"
	text, _ := readSmall(file, buf[:])
	if len(text) == len(buf) {
		text, _ = os.ReadFile(file)
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// AwaitChildEnd waits until a child has ended, and returns its PID without reaping it, so that /proc still shows it.
// It skips stops of a traced child, which the kernel reports to every waiting thread.
func AwaitChildEnd() (pid int, err error) {
	// si_pid follows three ints and, with 8-byte pointers, padding (siginfo_t, include/uapi/asm-generic/siginfo.h).
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
		time.Sleep(time.Millisecond) // its tracer continues it after some 20 µs
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil
}

// Children lists the children of this process. It is empty if the kernel does not show them (CONFIG_PROC_CHILDREN).
func Children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pids = append(pids, parsePIDs(text)...)
	}
	return pids
}

// Orphans lists the orphans that this process has inherited. It returns the children of its first thread, to which
// the kernel gives orphans (find_new_reaper in kernel/exit.c, Linux 3.19). Children that this thread has started are
// included. It takes a tenth of the time of Children. It is empty if the kernel does not show them
// (CONFIG_PROC_CHILDREN).
func Orphans() []int {
	var buf [1 << 10]byte
	text, _ := readSmall("/proc/self/task/"+strconv.Itoa(os.Getpid())+"/children", buf[:])
	return parsePIDs(text)
}

// parsePIDs returns the numbers in a text, which are separated by blanks.
func parsePIDs(text []byte) (list []int) {
	for word := range bytes.FieldsSeq(text) {
		if number, err := strconv.Atoi(string(word)); err == nil {
			list = append(list, number)
		}
	}
	return list
}

// EnvironVariable returns the value that a variable had when the program of a process started. It is empty if the
// variable was not set or cannot be read.
func EnvironVariable(pid int, name string) string {
	value, _ := readEnvironVariable(pid, name)
	return value
}
