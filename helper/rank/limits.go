//go:build linux

package rank

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/limits"
)

// SoftLimits are the soft resource limits of the launcher (ENV-8). Those that do not hurt us
// we take on for good, so that ranks inherit them; the others only while a rank is forked,
// so that it has them from its first instruction. Hard limits stay the node's.
type SoftLimits []job.SoftLimit

// isInherited are the limits that matter when a program is loaded. A helper can live with
// any of them: it keeps no large stack and writes no files.
func isInherited(resource int) bool {
	return resource == unix.RLIMIT_STACK || resource == unix.RLIMIT_CORE
}

// clipToHard is a soft limit as far as a hard one allows.
func clipToHard(soft int64, hard uint64) uint64 {
	if soft < 0 {
		return hard
	}
	return min(uint64(soft), hard)
}

// SetInherited takes on what ranks shall inherit, and tells what differs from the node's own
// limits or cannot be had.
func (l SoftLimits) SetInherited(tell func(string)) {
	for _, soft := range l {
		var own unix.Rlimit
		if unix.Getrlimit(soft.Resource, &own) != nil {
			continue
		}
		cur := clipToHard(soft.Soft, own.Max)
		if soft.Soft >= 0 && cur < uint64(soft.Soft) || soft.Soft < 0 && own.Max != math.MaxUint64 {
			tell(fmt.Sprintf("limit %s: %s wanted, %s allowed", limitName(soft.Resource), limitText(soft.Resource, uint64(soft.Soft)), limitText(soft.Resource, cur)))
		}
		if isInherited(soft.Resource) {
			unix.Setrlimit(soft.Resource, &unix.Rlimit{Cur: cur, Max: own.Max})
		}
	}
}

// A ForkLimit limit is one that we have as a rank shall, for the moment in which it is forked.
type ForkLimit struct {
	resource  int
	own, rank unix.Rlimit
}

// ForFork lists what differs from our own limits, and can be borne for a moment. Inside of
// mpiexec our files are its files: ranks have that limit from Go, which gives children what
// the process had at first.
func (l SoftLimits) ForFork(inside bool) (list []ForkLimit) {
	for _, limit := range l {
		var own unix.Rlimit
		if isInherited(limit.Resource) || inside && limit.Resource == unix.RLIMIT_NOFILE || unix.Getrlimit(limit.Resource, &own) != nil {
			continue
		}
		cur := clipToHard(limit.Soft, own.Max)
		if cur != own.Cur && isBearable(limit.Resource, cur) {
			list = append(list, ForkLimit{limit.Resource, own, unix.Rlimit{Cur: cur, Max: own.Max}})
		}
	}
	return list
}

// withForkLimits runs f with limits that are lent.
func withForkLimits(limits []ForkLimit, f func()) {
	for i := range limits {
		unix.Prlimit(0, limits[i].resource, &limits[i].rank, nil)
	}
	f()
	for i := range limits {
		unix.Prlimit(0, limits[i].resource, &limits[i].own, nil)
	}
}

// headroom is how much memory our other threads shall find meanwhile, in bytes.
const headroom = 1 << 30

// isBearable reports whether we can live with a limit for a moment: Go ends a program that gets
// no memory.
func isBearable(resource int, cur uint64) bool {
	if resource != unix.RLIMIT_AS && resource != unix.RLIMIT_DATA {
		return true
	}
	var size, resident, shared, text, lib, data uint64
	statm, _ := os.ReadFile("/proc/self/statm")
	n, _ := fmt.Sscan(string(statm), &size, &resident, &shared, &text, &lib, &data)
	if resource == unix.RLIMIT_DATA {
		size = data
	}
	return n == 6 && cur > size*uint64(os.Getpagesize())+headroom
}

// ApplyTo hands a rank that has just begun what it could not inherit.
func (l SoftLimits) ApplyTo(pid int) {
	for _, limit := range l {
		var own unix.Rlimit
		if isInherited(limit.Resource) || unix.Prlimit(pid, limit.Resource, nil, &own) != nil {
			continue
		}
		if cur := clipToHard(limit.Soft, own.Max); cur != own.Cur {
			unix.Prlimit(pid, limit.Resource, &unix.Rlimit{Cur: cur, Max: own.Max}, nil)
		}
	}
}

// limitText is a limit for people.
func limitText(resource int, value uint64) string {
	switch {
	case value >= limits.Unlimited:
		return "unlimited"
	case resource == unix.RLIMIT_CPU:
		return fmt.Sprintf("%d s", value)
	case resource == unix.RLIMIT_NOFILE, resource == unix.RLIMIT_NPROC:
		return fmt.Sprint(value)
	}
	return limits.Amount(limits.File, int64(value)) // the others are sizes
}

// limitName calls a limit what ulimit(1) and getrlimit(2) do.
func limitName(resource int) string {
	names := map[int]string{
		unix.RLIMIT_AS: "address space", unix.RLIMIT_CORE: "core file size", unix.RLIMIT_CPU: "CPU time",
		unix.RLIMIT_DATA: "data size", unix.RLIMIT_FSIZE: "file size", unix.RLIMIT_MEMLOCK: "locked memory",
		unix.RLIMIT_NOFILE: "open files", unix.RLIMIT_NPROC: "processes", unix.RLIMIT_STACK: "stack size",
	}
	if name := names[resource]; name != "" {
		return name
	}
	return fmt.Sprint(resource)
}
