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

// SoftLimits are mpiexec's soft resource limits, which ranks get as well (rule ENV-8). The helper sets for
// itself those limits that do not disturb it, so that ranks inherit them. Other limits are set only while a
// rank is being forked, so that they apply from the rank's first instruction. Hard limits are always those of
// the node.
type SoftLimits []job.SoftLimit

// isInherited reports whether the helper can set a limit for itself, so that ranks inherit it. It returns true for the
// limits on stack size and core files. Ranks need these from the moment when their program is loaded. They do not
// disturb the helper, which has no large stack and writes no core file.
func isInherited(resource int) bool {
	return resource == unix.RLIMIT_STACK || resource == unix.RLIMIT_CORE
}

// clipToHard returns the lower of a soft limit and the hard limit. A negative soft limit means unlimited.
func clipToHard(soft int64, hard uint64) uint64 {
	if soft < 0 {
		return hard
	}
	return min(uint64(soft), hard)
}

// SetInherited sets, for the helper itself, the limits that ranks inherit. It calls log for each limit,
// inherited or not, that exceeds the node's hard limit.
func (l SoftLimits) SetInherited(log func(string)) {
	for _, soft := range l {
		var own unix.Rlimit
		if unix.Getrlimit(soft.Resource, &own) != nil {
			continue
		}
		cur := clipToHard(soft.Soft, own.Max)
		if soft.Soft >= 0 && cur < uint64(soft.Soft) || soft.Soft < 0 && own.Max != math.MaxUint64 {
			log(fmt.Sprintf("cannot set the limit of %s to %s: the hard limit is %s",
				limitName(soft.Resource), limitText(soft.Resource, uint64(soft.Soft)), limitText(soft.Resource, cur)))
		}
		if isInherited(soft.Resource) {
			unix.Setrlimit(soft.Resource, &unix.Rlimit{Cur: cur, Max: own.Max})
		}
	}
}

// A ForkLimit is a limit that applies to this process only while it forks a rank.
type ForkLimit struct {
	resource  int
	own, rank unix.Rlimit
}

// ForFork returns the limits to set during a fork. It leaves out limits that are equal to the helper's own, and limits
// under which the helper could not work. If inMpiexec is true, the helper runs inside mpiexec. Then the limit on open
// files is left out, because Go gives children the value that the process had at its start.
func (l SoftLimits) ForFork(inMpiexec bool) (list []ForkLimit) {
	for _, limit := range l {
		var own unix.Rlimit
		if isInherited(limit.Resource) || inMpiexec && limit.Resource == unix.RLIMIT_NOFILE || unix.Getrlimit(limit.Resource, &own) != nil {
			continue
		}
		cur := clipToHard(limit.Soft, own.Max)
		if cur != own.Cur && isBearable(limit.Resource, cur) {
			list = append(list, ForkLimit{limit.Resource, own, unix.Rlimit{Cur: cur, Max: own.Max}})
		}
	}
	return list
}

// withForkLimits sets the limits of this process while f runs, and then restores the old ones.
func withForkLimits(limits []ForkLimit, f func()) {
	for i := range limits {
		unix.Prlimit(0, limits[i].resource, &limits[i].rank, nil)
	}
	f()
	for i := range limits {
		unix.Prlimit(0, limits[i].resource, &limits[i].own, nil)
	}
}

// headroom is how many bytes of memory other threads of this process must be able to allocate while a rank is
// being forked.
const headroom = 1 << 30

// isBearable reports whether a limit may apply to this process while it forks. Low memory limits are not possible,
// because Go's runtime exits if it cannot get memory.
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

// ApplyTo sets those limits of a started rank that the fork thread cannot pass on by inheritance.
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

// limitText formats the value of a limit for messages.
func limitText(resource int, value uint64) string {
	switch {
	case value >= limits.Unlimited:
		return "unlimited"
	case resource == unix.RLIMIT_CPU:
		return fmt.Sprintf("%d s", value)
	case resource == unix.RLIMIT_NOFILE, resource == unix.RLIMIT_NPROC:
		return fmt.Sprint(value)
	}
	return limits.Amount(limits.File, int64(value)) // all others are sizes
}

// limitName returns the name of a limit as in ulimit(1) or, if it has none there, as in getrlimit(2).
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
