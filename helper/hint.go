//go:build linux

package helper

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/helper/reaper"
	"remshell/job"
	"remshell/proc"
)

// exitHint says what the node knows about the end of a rank, if there is evidence (REP-3).
func (s *session) exitHint(exit *job.Exit) string {
	killer := killedBy(exit)
	switch {
	case killer == unix.SIGBUS:
		return probe.FullShm("/dev/shm")
	case exit.ToldToEnd || exit.Status() == 0:
		return ""
	case exit.Hint != "":
		return exit.Hint // its limits
	}
	if killer == unix.SIGKILL {
		if why := s.kernelDenials.OutOfMemory(s.sys.Root); why != "" {
			return why
		}
	}
	if killer == unix.SIGKILL || killer == unix.SIGTERM {
		return memoryDaemonHint(s.sys.Root, exit.Usage.MaxRSS*int64(len(s.byRank)))
	}
	if exit.Signal == 0 || killer == unix.SIGABRT {
		return s.kernelDenials.OutOfProcesses(s.sys.Root)
	}
	return ""
}

// killedBy is the signal that killed a rank, or what it has started: a shell, or what runs a container, reports that by a code above 128.
// It is 0 if there is none.
func killedBy(exit *job.Exit) unix.Signal {
	if exit.Signal == 0 && exit.Code > 128 {
		return unix.Signal(exit.Code - 128)
	}
	return unix.Signal(exit.Signal)
}

// memoryDaemons are programs that end other ones when memory is short, before the kernel does. earlyoom sends SIGTERM first.
var memoryDaemons = []string{"earlyoom", "nohang", "oomd", "systemd-oomd"}

// memoryDaemonHint returns a hint if such a program runs here, and the ranks had at least half of the memory: had, in bytes. Else it is empty.
func memoryDaemonHint(root fs.FS, had int64) string {
	total := probe.TotalMemory(root)
	if total == 0 || had < total/2 {
		return ""
	}
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		name := probe.ReadLine(root, path.Join("proc", e.Name(), "comm"))
		if slices.Contains(memoryDaemons, name) {
			return fmt.Sprintf("the ranks had up to %d of %d MiB there, and %s ends processes when memory is short: see its log", had>>20, total>>20, name)
		}
	}
	return ""
}

// A rankLimits is what a process may use (getrlimit(2)), as the kernel ends it by a signal if it uses more.
type rankLimits struct{ cpu, file unix.Rlimit }

// rlimitsOf asks for the limits of a process that has ended and was not waited for.
func rlimitsOf(pid int) rankLimits {
	none := unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	l := rankLimits{none, none}
	unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &l.cpu)
	unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &l.file)
	return l
}

// exceeded says by which limit a process was ended, if by one.
//
// The kernel sends SIGXCPU at the soft limit of CPU time, which it raises by a second each time. If the hard limit is equal, as ulimit sets
// it, it sends SIGKILL at once. It counts by clock ticks, and on a busy machine Usage is up to half a second below that.
func (l rankLimits) exceeded(exit job.Exit) string {
	cpu := func(seconds uint64) string {
		return fmt.Sprintf("its CPU time is limited to %d s (ulimit -t)", seconds)
	}
	switch killedBy(&exit) {
	case unix.SIGXCPU:
		if l.cpu.Cur != math.MaxUint64 {
			return cpu(l.cpu.Cur - 1)
		}
	case unix.SIGKILL:
		if exit.Usage.CPU().Seconds() >= 0.9*float64(l.cpu.Max)-0.5 {
			return cpu(l.cpu.Max)
		}
	case unix.SIGXFSZ:
		if l.file.Cur != math.MaxUint64 {
			return fmt.Sprintf("its files are limited to %d bytes (ulimit -f)", l.file.Cur)
		}
	}
	return ""
}

// countDenials notes what the kernel has denied here before the ranks run. That of the whole machine takes 0.1 ms to count, which a start is
// spared: it is counted when they have run for a second. A killed helper cannot tell why it was killed, so its keeper gets the counts as
// well.
func (s *session) countDenials(running bool) {
	switch {
	case !running:
		s.kernelDenials = proc.CountCgroupDenials(s.sys.Root)
	case s.kernelDenials.MachineKills < 0:
		s.kernelDenials.MachineKills = proc.CountMachineKills(s.sys.Root)
	}
	reaper.NoteCounts(reaper.Counts{Group: int64(s.kernelDenials.CgroupKills), Machine: int64(s.kernelDenials.MachineKills)})
}
