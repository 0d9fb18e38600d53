//go:build linux

package helper

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A softLimits is the soft resource limits of the launcher (ENV-8). Those that bind a program
// from its first moment, and do not hurt us, we take on ourselves, so that ranks inherit
// them; the others each rank gets as soon as it runs. Hard limits stay the node's.
type softLimits []job.SoftLimit

// inherited are the limits that matter when a program is loaded. A helper can live with
// any of them: it keeps no large stack and writes no files.
func inherited(resource int) bool {
	return resource == unix.RLIMIT_STACK || resource == unix.RLIMIT_CORE
}

// clip is a soft limit as far as a hard one allows.
func clip(soft int64, hard uint64) uint64 {
	if soft < 0 {
		return hard
	}
	return min(uint64(soft), hard)
}

// adopt takes on what ranks shall inherit, and tells what differs from the node's own
// limits or cannot be had.
func (l softLimits) adopt(tell func(string)) {
	for _, limit := range l {
		var own unix.Rlimit
		if unix.Getrlimit(limit.Resource, &own) != nil {
			continue
		}
		cur := clip(limit.Soft, own.Max)
		if limit.Soft >= 0 && cur < uint64(limit.Soft) || limit.Soft < 0 && own.Max != math.MaxUint64 {
			tell(fmt.Sprintf("limit %s: %s wanted, %s allowed", limitName(limit.Resource), bound(uint64(limit.Soft)), bound(cur)))
		}
		if inherited(limit.Resource) {
			unix.Setrlimit(limit.Resource, &unix.Rlimit{Cur: cur, Max: own.Max})
		}
	}
}

// give hands the other limits to a rank that has just begun.
func (l softLimits) give(pid int) {
	for _, limit := range l {
		var own unix.Rlimit
		if inherited(limit.Resource) || unix.Prlimit(pid, limit.Resource, nil, &own) != nil {
			continue
		}
		if cur := clip(limit.Soft, own.Max); cur != own.Cur {
			unix.Prlimit(pid, limit.Resource, &unix.Rlimit{Cur: cur, Max: own.Max}, nil)
		}
	}
}

// bound is a limit for people.
func bound(value uint64) string {
	if value == math.MaxUint64 {
		return "unlimited"
	}
	return fmt.Sprint(value)
}

// limitName calls a limit what ulimit(1) and getrlimit(2) do.
func limitName(resource int) string {
	names := map[int]string{
		unix.RLIMIT_AS: "address space", unix.RLIMIT_CORE: "core file size", unix.RLIMIT_CPU: "CPU seconds",
		unix.RLIMIT_DATA: "data size", unix.RLIMIT_FSIZE: "file size", unix.RLIMIT_MEMLOCK: "locked memory",
		unix.RLIMIT_NOFILE: "open files", unix.RLIMIT_NPROC: "processes", unix.RLIMIT_STACK: "stack size",
	}
	if name := names[resource]; name != "" {
		return name
	}
	return fmt.Sprint(resource)
}
