//go:build linux

package proc

import (
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Denials counts how often the kernel has killed a process for lack of memory or denied a fork. If a count is
// unknown, it is -1.
type Denials struct {
	CgroupKills  int // processes of our control group that it killed for lack of memory
	MachineKills int // processes of the whole machine that it killed for lack of memory
	Forks        int // processes and threads that it did not start because of the limit of our control group or one above it
}

// CountDenials reads the current counts from /proc and control groups. root is the file system "/".
func CountDenials(root fs.FS) Denials {
	d := CountCgroupDenials(root)
	d.MachineKills = CountMachineKills(root)
	return d
}

// CountCgroupDenials reads only the counts of this process's control group. It takes a fifth of the time of
// CountDenials.
func CountCgroupDenials(root fs.FS) Denials {
	return Denials{CgroupKills: cgroupOOMKills(root), MachineKills: -1, Forks: forksDenied(root)}
}

// OutOfMemory returns a message about the processes that the kernel has killed for lack of memory since these counts
// were read. It returns "" if there are none or the kernel does not report them.
func (since Denials) OutOfMemory(root fs.FS) string {
	if n := cgroupOOMKills(root); since.CgroupKills >= 0 && n > since.CgroupKills {
		text := "out of memory: the kernel has killed " + processesText(n-since.CgroupKills) + " in the job's control group"
		if most, _ := CgroupLimits(root); most >= 0 {
			text += fmt.Sprintf(", whose limit is %d MiB", most>>20)
		}
		return text
	}
	if n := CountMachineKills(root); since.MachineKills >= 0 && n > since.MachineKills {
		return "out of memory: the kernel has killed " + processesText(n-since.MachineKills) + " on this machine"
	}
	return ""
}

func processesText(n int) string {
	if n == 1 {
		return "a process"
	}
	return fmt.Sprint(n, " processes")
}

// OutOfProcesses returns a message if this process's control group has reached a limit on the number of processes
// since these counts were read. It returns "" if no limit was reached or the kernel does not report it.
func (since Denials) OutOfProcesses(root fs.FS) string {
	n := forksDenied(root)
	if since.Forks < 0 || n <= since.Forks {
		return ""
	}
	text := "out of processes: the kernel refused to start more processes or threads in the job's control group"
	if _, most := CgroupLimits(root); most >= 0 {
		text += fmt.Sprintf(", whose limit is %d (pids.max, TasksMax of systemd)", most)
	}
	return text
}

// cgroupOOMKills returns how many processes of this process's control group the kernel has killed for lack of
// memory (cgroups(7)). It returns -1 if the number is unknown.
func cgroupOOMKills(root fs.FS) int {
	for _, text := range ownCgroup(root, "memory").readUpward("memory.events", "memory.oom_control") {
		return counterValue(text, "oom_kill ")
	}
	return -1
}

// CountMachineKills returns how many processes on this machine the kernel has killed for lack of memory
// (proc_vmstat(5)). It returns -1 if the number is unknown.
func CountMachineKills(root fs.FS) int {
	text, _ := fs.ReadFile(root, "proc/vmstat")
	return counterValue(string(text), "oom_kill ")
}

// forksDenied returns how many forks have failed because of the process limit of this process's control group
// or of a group above it. Kernels before 6.11 count such a failure in the group of the forking process. Later
// kernels count it in the group that has the limit.
func forksDenied(root fs.FS) int {
	sum, known := 0, false
	for _, text := range ownCgroup(root, "pids").readUpward("pids.events", "pids.events") {
		if n := counterValue(text, "max "); n >= 0 {
			sum, known = sum+n, true
		}
	}
	if !known {
		return -1
	}
	return sum
}

// counterValue returns the number that follows word at the start of a line of text. It returns -1 if there is no
// such line.
func counterValue(text, word string) int {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, word); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && n >= 0 {
				return n
			}
		}
	}
	return -1
}

// CgroupLimits returns how much memory, in bytes, and how many processes and threads this process's control
// group and the groups above it allow. A value of -1 means no limit.
func CgroupLimits(root fs.FS) (memory, processes int64) {
	return ownCgroup(root, "memory").smallestLimit("memory.max", "memory.limit_in_bytes"), ownCgroup(root, "pids").smallestLimit("pids.max", "pids.max")
}

// parseLimit parses a limit of a control group. limited is false if there is no limit. In cgroups version 1, a number
// that is larger than any machine's memory means that there is no limit.
func parseLimit(text string) (n int64, limited bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n > 1<<60 {
		return 0, false
	}
	return n, true
}

// A cgroup is this process's control group in the hierarchy of one controller (cgroups(7)).
type cgroup struct {
	root fs.FS
	top  string // mount point of the hierarchy
	v1   bool
	path string // of the group below top; empty: no such controller
}

// ownCgroup returns this process's control group for a controller. This is a group of cgroups version 1 if the
// controller has a hierarchy there, and otherwise of version 2.
func ownCgroup(root fs.FS, controller string) cgroup {
	own := cgroup{root: root, top: "sys/fs/cgroup"}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case slices.Contains(strings.Split(fields[1], ","), controller):
			return cgroup{root, path.Join(own.top, controller), true, path.Clean("/" + fields[2])}
		case fields[1] == "":
			own.path = path.Clean("/" + fields[2])
		}
	}
	return own
}

// readUpward yields the contents of a file in the control group and in each group above it. It skips groups without the
// file. v2 and v1 are the names of the file in cgroups versions 2 and 1.
func (g cgroup) readUpward(v2, v1 string) iter.Seq2[string, string] {
	name := v2
	if g.v1 {
		name = v1
	}
	return func(yield func(dir, text string) bool) {
		for dir := g.path; dir != ""; dir = path.Dir(dir) {
			text, err := fs.ReadFile(g.root, path.Join(g.top, dir, name))
			if err == nil && !yield(dir, string(text)) || dir == "/" {
				return
			}
		}
	}
}

// smallestLimit returns the smallest limit in the control group and the groups above it, or -1 if there is no
// limit. v2 and v1 are the names of the limit's file in cgroups versions 2 and 1.
func (g cgroup) smallestLimit(v2, v1 string) (smallest int64) {
	smallest = -1
	for _, text := range g.readUpward(v2, v1) {
		if n, is := parseLimit(text); is && (smallest < 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}
