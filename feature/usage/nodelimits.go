//go:build linux

package usage

import (
	"fmt"
	"time"

	"remshell/config"
	"remshell/feature/usage/sampler"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/limits"
	"remshell/wire"
)

/*
A nodeLimits holds the limits that this node's administrator has set for jobs. mpiexec cannot raise them (rule RM-55).

	/etc/remshell/limits.toml --applyTo--> KernelLimits: the kernel enforces these, like the kernel
	                              |        limits that mpiexec sends
	                              |
	                              '------> sampled: the helper checks these with each usage sample. If
	                                       one is exceeded, it reports LimitExceeded and ends its ranks
*/
type nodeLimits struct {
	sampled    limits.Map // limits that the helper checks itself
	firstStart time.Time  // when the first ranks were started; zero: not yet
	reported   bool       // LimitExceeded was sent
}

// applyTo reads this node's limits and applies them to a group that is being prepared. It reads them with read, or from
// their file if read is nil. It returns the reason if the limits cannot be read or applied.
func (l *nodeLimits) applyTo(m *wire.Prepare, read func() (limits.Map, error)) *rank.Error {
	if read == nil {
		read = func() (limits.Map, error) { return probe.ReadLimits(config.LimitsFile) }
	}
	own, err := read()
	if err != nil {
		return &rank.Error{Code: job.ExitInternal, Reason: "the host does not allow jobs, because mpiexec cannot read the rules of its administrator: " + err.Error(), Hint: "ask the administrator of the host, or use other hosts"}
	}
	if len(own) == 0 {
		return nil
	}
	kernel := make(limits.Map)
	for _, b := range m.Process.KernelLimits {
		kernel[b.Resource] = b.Max
	}
	kernel = limits.Minimum(kernel, own.Matching(func(r limits.Resource) bool {
		return r.IsKernelLimit() && rank.IsStricter(job.KernelLimit{Resource: r, Max: own[r]})
	}))
	m.Process.KernelLimits = nil
	for _, name := range kernel.Names() {
		m.Process.KernelLimits = append(m.Process.KernelLimits, job.KernelLimit{Resource: name, Max: kernel[name]})
	}
	l.sampled = limits.Minimum(l.sampled, own.Matching(func(r limits.Resource) bool { return !r.IsKernelLimit() }))
	if l.areSampled() && m.Supervision.LeaveChildren {
		return &rank.Error{Code: job.ExitInternal, Reason: fmt.Sprintf("--leave-children cannot be used on this host: mpiexec could not enforce the limits of the host (%s) after the end of the job", config.LimitsFile), Hint: "leave out --leave-children, or choose other hosts"}
	}
	return nil
}

// start is called before ranks start. The first call records the time, from which the node's limit on the wall time
// counts.
func (l *nodeLimits) start() {
	if l.firstStart.IsZero() {
		l.firstStart = time.Now()
	}
}

// areSampled reports whether the node has limits that the helper checks with samples.
func (l *nodeLimits) areSampled() bool { return len(l.sampled) > 0 }

// firstExceeded returns a limit that is exceeded. It returns nil if no limit is exceeded, or if it has already returned
// one in an earlier call. The parameters are as in findExceeded.
func (l *nodeLimits) firstExceeded(ranks map[int]job.UsageSample, host job.UsageSample, hasRank func(int) bool, rankCount int) *LimitExceeded {
	if l.reported {
		return nil
	}
	excess := l.findExceeded(ranks, host, hasRank, rankCount)
	l.reported = excess != nil
	return excess
}

// findExceeded returns a limit of this node that is exceeded, or nil. rankCount is the number of ranks that
// have been started on this node, and hasRank reports whether a rank is one of them.
func (l *nodeLimits) findExceeded(ranks map[int]job.UsageSample, host job.UsageSample, hasRank func(int) bool, rankCount int) *LimitExceeded {
	for _, check := range []struct {
		what limits.Resource
		used int64
	}{{limits.HostMem, host.Mem}, {limits.HostVMem, host.VMem}, {limits.WallTime, int64(time.Since(l.firstStart))}} {
		if most, limited := l.sampled[check.what]; limited && check.used > most {
			return &LimitExceeded{Rank: -1, Limit: job.KernelLimit{Resource: check.what, Max: most}, Used: check.used}
		}
	}
	most, limited := l.sampled[limits.RankMem]
	if !limited {
		return nil
	}
	for number, of := range ranks {
		used := of.Mem
		switch ours := hasRank(number); {
		case number == sampler.NoRank && rankCount == 1: // added to that rank below
			continue
		case ours && rankCount == 1:
			used += ranks[sampler.NoRank].Mem
		case !ours && number != sampler.NoRank:
			continue
		}
		if used > most {
			return &LimitExceeded{Rank: number, Limit: job.KernelLimit{Resource: limits.RankMem, Max: most}, Used: used}
		}
	}
	return nil
}
