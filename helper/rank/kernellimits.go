//go:build linux

package rank

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/limits"
)

/*
KernelLimits are limits that the kernel enforces in each process of a rank (rule RM-55). They apply to a program from
its first instruction. The helper cannot set them for itself, not even while it forks. So it traces the rank during its
exec:

	helper's thread: fork ---------- wait: it has stopped --- prlimit(2) --- detach
	rank:                 exec ----- stops, and                              begins
*/
type KernelLimits []Rlimit

// An Rlimit is one resource limit of setrlimit(2).
type Rlimit struct {
	name     limits.Resource
	resource int
	value    unix.Rlimit
}

// cpuGrace is how many seconds of CPU time a process may use after SIGXCPU before it gets SIGKILL.
const cpuGrace = 5

var rlimitResources = map[limits.Resource]int{
	limits.RankVMem: unix.RLIMIT_AS, limits.RankTime: unix.RLIMIT_CPU, limits.File: unix.RLIMIT_FSIZE, limits.Core: unix.RLIMIT_CORE,
	limits.Stack: unix.RLIMIT_STACK, limits.NoFile: unix.RLIMIT_NOFILE, limits.MemLock: unix.RLIMIT_MEMLOCK, limits.NProc: unix.RLIMIT_NPROC,
}

// NewKernelLimits returns the limits for the ranks of a job. The error names a limit that cannot be set on
// this node.
func NewKernelLimits(bounds []job.KernelLimit) (KernelLimits, *Error) {
	var all KernelLimits
	for _, b := range bounds {
		resource, known := rlimitResources[b.Resource]
		if !known {
			return nil, &Error{job.ExitInternal, fmt.Sprintf("cannot set limit %s: the kernel of this host does not support this limit", b.Resource), ""}
		}
		r := Rlimit{b.Resource, resource, rlimitOf(b)}
		var own unix.Rlimit
		if err := unix.Getrlimit(resource, &own); err == nil && r.value.Cur > own.Max && os.Geteuid() != 0 {
			return nil, r.setError("the hard limit is " + limitText(resource, own.Max))
		}
		all = append(all, r)
	}
	return all, nil
}

// IsStricter reports whether a limit is lower than the hard limit that applies to processes of this helper
// anyway.
func IsStricter(b job.KernelLimit) bool {
	var own unix.Rlimit
	resource, known := rlimitResources[b.Resource]
	return known && (unix.Getrlimit(resource, &own) != nil || rlimitOf(b).Max < own.Max)
}

// WithoutBounded returns softLimits without the limits on resources that occur in bounds.
func WithoutBounded(softLimits []job.SoftLimit, bounds []job.KernelLimit) SoftLimits {
	return slices.DeleteFunc(slices.Clone(softLimits), func(l job.SoftLimit) bool {
		return slices.ContainsFunc(bounds, func(b job.KernelLimit) bool { return rlimitResources[b.Resource] == l.Resource })
	})
}

// rlimitOf converts a limit to the values for setrlimit(2). A limit on CPU time is in seconds, and its hard limit is
// cpuGrace seconds above the soft limit.
func rlimitOf(b job.KernelLimit) unix.Rlimit {
	switch {
	case b.Max == limits.Unlimited:
		return unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	case b.Resource == limits.RankTime:
		seconds := (uint64(b.Max) + uint64(time.Second) - 1) / uint64(time.Second)
		return unix.Rlimit{Cur: seconds, Max: seconds + cpuGrace}
	}
	return unix.Rlimit{Cur: uint64(b.Max), Max: uint64(b.Max)}
}

func (r Rlimit) setError(reason string) *Error {
	return &Error{job.ExitInternal, fmt.Sprintf("cannot set limit %s to %s: %s", r.name, limitText(r.resource, r.value.Cur), reason), "use a lower value with --limit, or have the hard limit raised in /etc/security/limits.conf on that host"}
}

// applyTo sets the limits of a process that this thread has forked and that has stopped after its exec. Then it lets
// the process continue. If a limit cannot be set, it kills the process and returns an error.
func (c KernelLimits) applyTo(pid int) *Error {
	if len(c) == 0 {
		return nil
	}
	stopped := awaitExecStop(pid)
	for _, r := range c {
		if err := unix.Prlimit(pid, r.resource, &r.value, nil); err != nil && stopped {
			unix.Kill(pid, unix.SIGKILL)
			unix.Wait4(pid, nil, 0, nil) // or the reap loop reaps it
			return r.setError(err.Error())
		}
	}
	unix.PtraceDetach(pid) // if it was killed meanwhile, it is reaped as usual
	return nil
}

// awaitExecStop waits until a traced child process stops at its exec. It returns false if the child has
// ended. In that case the child still has to be waited for.
func awaitExecStop(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		const trapped = 4 // CLD_TRAPPED, in si_code of sigaction(2)
		return err == nil && info.Code == trapped
	}
}
