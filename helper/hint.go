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

// exitHint returns a likely reason why a rank ended, such as lack of memory, if there is evidence for it on
// this node (rule REP-3). Otherwise it returns "".
func (s *Session) exitHint(exit *job.Exit) string {
	killer := killedBy(exit)
	switch {
	case killer == unix.SIGBUS:
		return probe.FullShm("/dev/shm")
	case exit.ToldToEnd || exit.Status() == 0:
		return ""
	case exit.Hint != "":
		return exit.Hint // one of its resource limits
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

// killedBy returns the signal that killed a rank, or killed a process for which the rank waited. It returns 0
// if there was none. Shells and container runtimes report such a signal as exit code 128 plus the signal.
func killedBy(exit *job.Exit) unix.Signal {
	if exit.Signal == 0 && exit.Code > 128 {
		return unix.Signal(exit.Code - 128)
	}
	return unix.Signal(exit.Signal)
}

// memoryDaemons are programs that kill processes when memory is short, before the kernel does. Some send
// SIGTERM before SIGKILL.
var memoryDaemons = []string{"earlyoom", "nohang", "oomd", "systemd-oomd"}

// memoryDaemonHint returns a hint if one of memoryDaemons runs on this machine and the ranks used at least half of the
// machine's memory. Otherwise it returns "". bytes is the memory that the ranks used.
func memoryDaemonHint(root fs.FS, bytes int64) string {
	total := probe.TotalMemory(root)
	if total == 0 || bytes < total/2 {
		return ""
	}
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		name := probe.ReadLine(root, path.Join("proc", e.Name(), "comm"))
		if slices.Contains(memoryDaemons, name) {
			return fmt.Sprintf("the ranks used up to %d of the %d MiB of memory on this host, and %s kills processes if there is too little memory; see the log of %[3]s", bytes>>20, total>>20, name)
		}
	}
	return ""
}

// A rankLimits holds a rank's resource limits on CPU time and file size. If a process exceeds one of them, the kernel
// sends a signal (getrlimit(2)).
type rankLimits struct{ cpu, file unix.Rlimit }

// rlimitsOf returns the limits of a process that has ended and was not reaped yet. A limit that cannot be read is
// returned as unlimited.
func rlimitsOf(pid int) rankLimits {
	none := unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	l := rankLimits{none, none}
	unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &l.cpu)
	unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &l.file)
	return l
}

// exceeded describes the limit that a process was killed for exceeding. It returns "" if there was no such limit.
//
// The kernel sends SIGXCPU at the soft limit on CPU time, and raises that limit by a second each time. If the hard
// limit equals the soft limit, as ulimit sets them, the kernel sends SIGKILL at once. The kernel counts clock ticks
// for this. So on a busy machine, the usage of the process may be up to half a second below the limit.
func (l rankLimits) exceeded(exit job.Exit) string {
	cpu := func(seconds uint64) string {
		return fmt.Sprintf("the CPU time of the rank is limited to %d s (ulimit -t)", seconds)
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
			return fmt.Sprintf("each file that the rank writes is limited to %d bytes (ulimit -f)", l.file.Cur)
		}
	}
	return ""
}

// countDenials records how many processes of the job's control group the kernel has killed so far for lack of memory,
// and how many forks it has denied. If running is true, the job is no longer short. Then it records instead how many
// processes have been killed on the whole machine, unless that is already known. countDenials also sends the numbers of
// killed processes to the reaper, because a killed helper cannot report why it was killed.
func (s *Session) countDenials(running bool) {
	switch {
	case !running:
		s.kernelDenials = proc.CountCgroupDenials(s.sys.Root)
	case s.kernelDenials.MachineKills < 0:
		s.kernelDenials.MachineKills = proc.CountMachineKills(s.sys.Root)
	}
	reaper.NoteCounts(reaper.Counts{Group: int64(s.kernelDenials.CgroupKills), Machine: int64(s.kernelDenials.MachineKills)})
}
