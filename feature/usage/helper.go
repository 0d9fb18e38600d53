//go:build linux

package usage

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"remshell/feature/usage/sampler"
	"remshell/helper"
	"remshell/helper/lifecycle"
	"remshell/helper/rank"
	"remshell/helper/sysvipc"
	"remshell/job"
	"remshell/limits"
	"remshell/proc"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "usage and limits", Attach: attachHelper}) }

// A nodeSampler measures at intervals the CPU time and memory of one session's processes. Only the session's
// goroutine uses it.
type nodeSampler struct {
	session *helper.Session
	peaks   rank.PeakWatcher
	tracker *sampler.Tracker // nil: usage is not sampled
	sends   bool             // mpiexec wants samples
	limits  nodeLimits
}

func attachHelper(s *helper.Session) {
	u := &nodeSampler{session: s}
	s.Hooks.GroupPrepares.Add(func(m *wire.Prepare) *rank.Error { return u.limits.applyTo(m, s.System().Limits) })
	s.Hooks.GroupStarts.Add(u.start)
	s.Hooks.RankForked.Add(func(p rank.Process) { u.peaks.Watch(p.PID, p.MemoryFloor) })
	s.Hooks.RankReaped.Add(func(r *helper.Rank, _, _ time.Time) {
		peak := u.peaks.StopWatching(r.Child.PID)
		if r.Exit.Usage.MaxRSS == 0 {
			r.Exit.Usage.MaxRSS = peak
		}
		u.tracker.NoteReaped(r.Child.PID, r.Number, r.Exit.Usage.CPU())
	})
	s.Hooks.OwnerOf.Add(func(pid int) (int, bool) { return u.tracker.Owner(pid) })
	s.Hooks.OrphanReaped.Add(func(e lifecycle.ChildEnded, owner int) { u.tracker.NoteReaped(e.PID, owner, e.Exit.Usage.CPU()) })
}

// start starts to sample the usage of resources, if mpiexec has requested that or this node's limits require it.
func (u *nodeSampler) start(*helper.Group) *rank.Error {
	wanted, has := wire.SettingOf[*Sampling](u.session.Prepare.Settings)
	if has && wanted.SmallRanks {
		u.peaks.Start(u.session.Done())
	}
	u.limits.start()
	limited := u.limits.areSampled()
	if u.sends = has; (has || limited) && u.tracker == nil {
		u.tracker = new(sampler.Tracker)
		go u.sample(job.SampleInterval(limited || wanted.Often), u.limits.sampled[limits.HostMem])
	}
	return nil
}

// A sample contains the usage of all processes at one moment.
type sample struct {
	processes []sampler.Process
	jobMem    int64 // bytes that count for the node's own memory limit; 0: there is no such limit
}

// sample measures all processes at the given interval until the session is over (rule RM-51). memoryLimit is
// the memory, in bytes, that this node allows a job, or 0 if there is no limit.
func (u *nodeSampler) sample(interval time.Duration, memoryLimit int64) {
	reader, shares := sampler.Reader{Helper: os.Getpid()}, sysvipc.MemoryFiles{}
	defer reader.Close()
	began := time.Now()
	for {
		now := time.Now()
		select {
		case <-u.session.Done():
			return
		case <-time.After(sampler.NextPass(began, now, interval).Sub(now)):
			taken := sample{processes: reader.Read()}
			if memoryLimit > 0 {
				taken.jobMem = u.jobMemory(&reader, &shares, taken.processes, memoryLimit)
			}
			u.session.Post(func() { u.reportUsage(taken) })
		}
	}
}

// jobMemory returns the memory that the job uses on this node, in bytes. Memory that processes share may be counted
// more than once, but not if the result exceeds memoryLimit.
func (u *nodeSampler) jobMemory(reader *sampler.Reader, shares *sysvipc.MemoryFiles, all []sampler.Process, memoryLimit int64) int64 {
	of := slices.DeleteFunc(reader.Descendants(all), func(p sampler.Process) bool { return u.session.NotOfJob(p.PID) })
	pids := make([]int, len(of))
	for i, p := range of {
		pids[i] = p.PID
	}
	return reader.TotalMemory(of, shares.Size(pids), memoryLimit)
}

// maxBacklog is the number of unsent bytes above which the helper drops samples, so that few samples are
// queued while mpiexec is stopped.
const maxBacklog = 256 << 10

// reportUsage checks this node's limits, and sends the usage of each rank to mpiexec.
func (u *nodeSampler) reportUsage(newest sample) {
	s := u.session
	if s.Lifecycle.IsDisconnected() {
		return
	}
	ranks, host := u.tracker.SumByRank(newest.processes, sampler.Ownership{Helper: os.Getpid(), RankByPID: s.RankByPID(), RankByGroup: s.RankByGroup(),
		NotOfJob: s.NotOfJob, RankFromEnviron: u.rankFromEnviron})
	limited := host
	limited.Mem = newest.jobMem
	if excess := u.limits.firstExceeded(ranks, limited, s.HasRank, s.RankCount()); excess != nil {
		s.Send(excess)
		s.EndRanks(s.Prepare.Supervision.Grace)
	}
	if !u.sends || s.Backlog() > maxBacklog {
		return
	}
	m := &SampledUsage{Host: host}
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		if s.HasRank(rank) {
			m.Ranks = append(m.Ranks, job.RankUsageSample{Rank: rank, UsageSample: ranks[rank]})
		}
	}
	s.Send(m)
}

// rankFromEnviron returns the rank in the variable MPIEXEC_RANK of a process. It returns sampler.NoRank unless that
// rank runs on this node and was started from the command line, not by a spawn.
func (u *nodeSampler) rankFromEnviron(pid int) int {
	rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK"))
	if err != nil || !u.session.HasRank(rank) || proc.EnvironVariable(pid, "PMI_SPAWNED") != "" || proc.EnvironVariable(pid, "MPIEXEC_JOBID") != string(u.session.Prepare.Job) {
		return sampler.NoRank
	}
	return rank
}
