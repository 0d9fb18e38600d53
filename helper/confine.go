//go:build linux

package helper

import (
	"fmt"
	"time"

	"remshell/config"
	"remshell/helper/life"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/sample"
	"remshell/job"
	"remshell/limit"
	"remshell/wire"
)

/*
A confined is what this node's administrator allows a job here, which no mpiexec can talk us out of
(RM-55).

	/etc/remshell/limits.toml --restrict--> Process.Bounds: the kernel enforces them, as mpiexec's
	                              |
	                              '-------> own: looked at with each sample; who uses more is
	                                        told of (Exceeded), and ended at once
*/
type confined struct {
	own   limit.Bounds // what we see to ourselves
	began time.Time    // when the first ranks were let go; zero: not yet
	over  bool         // mpiexec was told
}

// restrict reads what is allowed here, and has a group that is to be prepared keep to it.
func (s *session) restrict(m *wire.Prepare) *rank.Error {
	read := s.sys.Limits
	if read == nil {
		read = func() (limit.Bounds, error) { return probe.Limits(config.LimitsFile) }
	}
	here, err := read()
	if err != nil {
		return &rank.Error{Code: job.ExitInternal, Reason: "this node runs no jobs, since what its administrator allows is not clear: " + err.Error(), Hint: "ask its administrator, or name other hosts"}
	}
	if len(here) == 0 {
		return nil
	}
	kernel := make(limit.Bounds)
	for _, b := range m.Process.Bounds {
		kernel[b.Resource] = b.Most
	}
	kernel = limit.Strictest(kernel, here.Only(func(r limit.Resource) bool {
		return r.Kernel() && rank.Stricter(job.Bound{Resource: r, Most: here[r]})
	}))
	m.Process.Bounds = nil
	for _, name := range kernel.Names() {
		m.Process.Bounds = append(m.Process.Bounds, job.Bound{Resource: name, Most: kernel[name]})
	}
	s.own = limit.Strictest(s.own, here.Only(func(r limit.Resource) bool { return !r.Kernel() }))
	if len(s.own) > 0 && m.Supervision.Children {
		return &rank.Error{Code: job.ExitInternal, Reason: fmt.Sprintf("--leave-children: nobody would hold what stays to the limits of this node (%s)", config.LimitsFile), Hint: "leave it out, or name other hosts"}
	}
	return nil
}

// confine ends the ranks here if they use more than this node allows, and says so first.
func (s *session) confine(ranks map[int]job.Sample, host job.Sample) {
	excess := s.excess(ranks, host)
	if excess == nil || s.over {
		return
	}
	s.over = true
	s.conn.Send(excess)
	s.decide(life.End{Grace: s.prepare.Supervision.Grace})
}

// excess finds a limit of this node that is exceeded; nil: there is none.
func (s *session) excess(ranks map[int]job.Sample, host job.Sample) *wire.Exceeded {
	for _, check := range []struct {
		what limit.Resource
		used int64
	}{{limit.HostMem, host.Mem}, {limit.HostVMem, host.VMem}, {limit.WallTime, int64(time.Since(s.began))}} {
		if most, limited := s.own[check.what]; limited && check.used > most {
			return &wire.Exceeded{Rank: -1, Bound: job.Bound{Resource: check.what, Most: most}, Used: check.used}
		}
	}
	most, limited := s.own[limit.RankMem]
	if !limited {
		return nil
	}
	for number, of := range ranks {
		used := of.Mem
		switch _, ours := s.byRank[number]; {
		case number == sample.Nobody && len(s.byRank) == 1: // it is the only rank's
			continue
		case ours && len(s.byRank) == 1:
			used += ranks[sample.Nobody].Mem
		case !ours && number != sample.Nobody:
			continue
		}
		if used > most {
			return &wire.Exceeded{Rank: number, Bound: job.Bound{Resource: limit.RankMem, Most: most}, Used: used}
		}
	}
	return nil
}
