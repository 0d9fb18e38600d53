//go:build linux

package helper

import (
	"fmt"
	"time"

	"remshell/config"
	"remshell/helper/lifecycle"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/usage"
	"remshell/job"
	"remshell/limits"
	"remshell/wire"
)

/*
A nodeLimits holds the limits that this node's administrator sets for jobs here. mpiexec cannot lift them (RM-55).

	/etc/remshell/limits.toml --applyNodeLimits--> KernelLimits: the kernel enforces them, as mpiexec's
	                              |
	                              '--------------> sampledLimits: checked with each usage sample; a job that
	                                               exceeds one is reported (LimitExceeded) and ended
*/
type nodeLimits struct {
	sampledLimits    limits.Map // limits that the helper checks itself
	firstStart       time.Time  // when the first ranks were started; zero: not yet
	exceededReported bool       // LimitExceeded was sent
}

// applyNodeLimits reads this node's limits and applies them to a group that is to be prepared.
func (s *Session) applyNodeLimits(m *wire.Prepare) *rank.Error {
	read := s.sys.Limits
	if read == nil {
		read = func() (limits.Map, error) { return probe.ReadLimits(config.LimitsFile) }
	}
	own, err := read()
	if err != nil {
		return &rank.Error{Code: job.ExitInternal, Reason: "this node runs no jobs, since what its administrator allows is not clear: " + err.Error(), Hint: "ask its administrator, or name other hosts"}
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
	s.sampledLimits = limits.Minimum(s.sampledLimits, own.Matching(func(r limits.Resource) bool { return !r.IsKernelLimit() }))
	if len(s.sampledLimits) > 0 && m.Supervision.LeaveChildren {
		return &rank.Error{Code: job.ExitInternal, Reason: fmt.Sprintf("--leave-children: nobody would hold what stays to the limits of this node (%s)", config.LimitsFile), Hint: "leave it out, or name other hosts"}
	}
	return nil
}

// enforceNodeLimits reports and ends the ranks here if they exceed a limit of this node.
func (s *Session) enforceNodeLimits(ranks map[int]job.UsageSample, host job.UsageSample) {
	excess := s.findExceeded(ranks, host)
	if excess == nil || s.exceededReported {
		return
	}
	s.exceededReported = true
	s.conn.Send(excess)
	s.stepLifecycle(lifecycle.End{Grace: s.Prepare.Supervision.Grace})
}

// findExceeded returns a limit of this node that is exceeded, or nil.
func (s *Session) findExceeded(ranks map[int]job.UsageSample, host job.UsageSample) *wire.LimitExceeded {
	for _, check := range []struct {
		what limits.Resource
		used int64
	}{{limits.HostMem, host.Mem}, {limits.HostVMem, host.VMem}, {limits.WallTime, int64(time.Since(s.firstStart))}} {
		if most, limited := s.sampledLimits[check.what]; limited && check.used > most {
			return &wire.LimitExceeded{Rank: -1, Limit: job.KernelLimit{Resource: check.what, Max: most}, Used: check.used}
		}
	}
	most, limited := s.sampledLimits[limits.RankMem]
	if !limited {
		return nil
	}
	for number, of := range ranks {
		used := of.Mem
		switch _, ours := s.byRank[number]; {
		case number == usage.NoRank && len(s.byRank) == 1: // added to that rank below
			continue
		case ours && len(s.byRank) == 1:
			used += ranks[usage.NoRank].Mem
		case !ours && number != usage.NoRank:
			continue
		}
		if used > most {
			return &wire.LimitExceeded{Rank: number, Limit: job.KernelLimit{Resource: limits.RankMem, Max: most}, Used: used}
		}
	}
	return nil
}
