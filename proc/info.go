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

// ReadInfo returns the state of one process. It returns false if the process is gone.
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

// A Tree holds all processes at one moment. It maps the PID of each parent to the parent's children.
type Tree map[int][]Info

// ReadAll returns the states of all processes.
func ReadAll() (all []Info) {
	for _, pid := range ListNumbers("/proc", -1) {
		if info, ok := ReadInfo(pid); ok {
			all = append(all, info)
		}
	}
	return all
}

// ReadTree returns the states of all processes as a Tree.
func ReadTree() Tree {
	tree := make(Tree)
	for _, p := range ReadAll() {
		tree[p.Parent] = append(tree[p.Parent], p)
	}
	return tree
}

// Descendants returns the descendants of pid, without pid itself, parents before their children. If a PID was reused while
// the Tree was read, processes may seem to descend from themselves. Each of them is returned once.
func (t Tree) Descendants(pid int) (all []Info) {
	seen := map[int]bool{pid: true}
	add := func(children []Info) {
		for _, child := range children {
			if !seen[child.PID] {
				seen[child.PID] = true
				all = append(all, child)
			}
		}
	}
	add(t[pid])
	for i := 0; i < len(all); i++ {
		add(t[all[i].PID])
	}
	return all
}

// CPU returns the total CPU time of the descendants of pid, without pid itself.
func (t Tree) CPU(pid int) (sum time.Duration) {
	for _, p := range t.Descendants(pid) {
		sum += p.CPU
	}
	return sum
}

// ActiveChild returns the PID of the process that does the work of pid. As long as a process waits for its only child,
// as a shell does, ActiveChild continues with the child.
func (t Tree) ActiveChild(pid int) int {
	for WaitChannel(pid) == "do_wait" && len(t[pid]) == 1 {
		pid = t[pid][0].PID
	}
	return pid
}

// WaitChannel returns the kernel function in which a process sleeps. It returns "" if the process does not sleep,
// or the kernel does not report the function.
func WaitChannel(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	if string(text) == "0" {
		return ""
	}
	name, _, _ := strings.Cut(string(text), ".") // the compiler adds a suffix after the dot
	return name
}

// CatchesOrIgnores reports whether a process has a handler for a signal or ignores the signal. It returns false if the
// state of the process cannot be read.
func CatchesOrIgnores(pid int, signal unix.Signal) bool {
	caught, ignored := signalMask(pid, "SigCgt"), signalMask(pid, "SigIgn")
	return (caught|ignored)&(1<<(signal-1)) != 0
}

// Catches reports whether a process has a handler for a signal. It returns false if the state of the process cannot be
// read.
func Catches(pid int, signal unix.Signal) bool {
	return signalMask(pid, "SigCgt")&(1<<(signal-1)) != 0
}

// Blocks reports whether the main thread of a process blocks a signal. It returns false if the state of the process
// cannot be read.
func Blocks(pid int, signal unix.Signal) bool {
	return signalMask(pid, "SigBlk")&(1<<(signal-1)) != 0
}

// IsTraced reports whether a debugger or another tracer traces the main thread of a process.
func IsTraced(pid int) bool {
	tracer := statusField(pid, "TracerPid")
	return len(tracer) > 0 && string(tracer) != "0"
}

// Wakeups returns how often a thread has gone to sleep in the kernel. tid may be the PID of a process, which stands for
// its main thread. Wakeups returns 0 if there is no such thread.
func Wakeups(tid int) uint64 {
	n, _ := strconv.ParseUint(string(statusField(tid, "voluntary_ctxt_switches")), 10, 64)
	return n
}

// FileOf returns what a file descriptor of a process is open for, such as "pipe:[123]" or the path of a file. It does not
// access the file, because its file system may hang. It returns "" if the descriptor is not open or may not be read.
func FileOf(pid, fd int) string {
	name, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd))
	return name
}

// signalMask returns a set of signals from /proc/PID/status. name is the first word of the line with the set.
// Bit N-1 stands for signal N.
func signalMask(pid int, name string) uint64 {
	mask, _ := strconv.ParseUint(string(statusField(pid, name)), 16, 64)
	return mask
}

// PeakMemory returns the largest resident set that a process has had so far, in bytes. It returns 0 if the process
// is gone or the kernel does not report the size.
func PeakMemory(pid int) int64 {
	number, _, _ := bytes.Cut(statusField(pid, "VmHWM"), []byte(" "))
	kib, _ := strconv.ParseInt(string(number), 10, 53)
	return kib << 10
}

// statusField returns the value of a field in /proc/PID/status. It returns nil if there is no such field or process.
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

// AwaitChildEnd waits until a child of this process has ended, and returns the child's PID. It does not reap
// the child, so that /proc still shows it. It does not return when a traced child only stops.
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

// Children returns the PIDs of the children of this process. It returns nil if the kernel does not list children
// (CONFIG_PROC_CHILDREN).
func Children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pids = append(pids, parsePIDs(text)...)
	}
	return pids
}

// Orphans returns the PIDs of the orphans that this process has inherited. These are children of the first thread,
// which gets all orphans from the kernel (find_new_reaper in kernel/exit.c, Linux 3.19). The result includes
// children that the first thread has started itself. Orphans takes a tenth of the time of Children. It returns nil
// if the kernel does not list children (CONFIG_PROC_CHILDREN).
func Orphans() []int {
	var buf [1 << 10]byte
	text, _ := readSmall("/proc/self/task/"+strconv.Itoa(os.Getpid())+"/children", buf[:])
	return parsePIDs(text)
}

// parsePIDs parses PIDs that are separated by blanks.
func parsePIDs(text []byte) (list []int) {
	for word := range bytes.FieldsSeq(text) {
		if number, err := strconv.Atoi(string(word)); err == nil {
			list = append(list, number)
		}
	}
	return list
}

// EnvironVariable returns the value that an environment variable had when the program of a process started. It
// returns "" if the variable was not set or cannot be read.
func EnvironVariable(pid int, name string) string {
	value, _ := readEnvironVariable(pid, name)
	return value
}
