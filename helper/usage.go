//go:build linux

package helper

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/lifecycle"
	"remshell/helper/rank"
	"remshell/helper/sysvipc"
	"remshell/helper/usage"
	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// A rankUsage holds the counters of what ranks and orphans consume.
type rankUsage struct {
	orphans       orphanUsage
	peaks         rank.PeakWatcher
	nonJob        nonJobProcesses // debuggers and the guard
	kernelDenials proc.Denials    // as counted before the job
	usageTracker  *usage.Tracker  // nil: usage is not sampled
}

/*
An orphanUsage counts the usage of orphans and finds the rank that each belongs to.

Usage is counted when a process is reaped. What wait4(2) returns for a rank includes the children that the rank
waited for, and their children. The helper inherits a process that outlives its parent, and looks for its rank:

	rank 3 (pid 70) --- child, group 70 ---- its parent dies: group 70 is rank 3
	                \-- child, setsid   ---- seen while it lived: MPIEXEC_RANK was 3

An orphan whose rank neither these nor usage samples tell belongs to the node. If the node has only one rank, it
belongs to that rank.
*/
type orphanUsage struct {
	rankByGroup map[int]int // by process group ID
	byRank      map[int]*job.Usage
}

func newOrphanUsage() orphanUsage {
	return orphanUsage{rankByGroup: make(map[int]int), byRank: make(map[int]*job.Usage)}
}

// rusageOf converts the usage that wait4 returned. Wall time is not set.
func rusageOf(used *unix.Rusage) job.Usage {
	return job.Usage{
		User:      time.Duration(used.Utime.Nano()),
		System:    time.Duration(used.Stime.Nano()),
		MaxRSS:    used.Maxrss << 10,
		InBlocks:  used.Inblock,
		OutBlocks: used.Oublock,
	}
}

// noteOrphanGroups records the ranks of the orphans inherited so far, by process group. It is called once, before they
// get SIGTERM, and not at the end of each rank: reading all processes takes longer than a short job.
func (o *orphanUsage) noteOrphanGroups(isRank func(pid int) bool) {
	for _, pid := range proc.Children() {
		if isRank(pid) {
			continue
		}
		info, ok := proc.ReadInfo(pid)
		if _, known := o.rankByGroup[info.Group]; known || !ok {
			continue
		}
		if rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK")); err == nil && proc.EnvironVariable(pid, "PMI_SPAWNED") == "" {
			o.rankByGroup[info.Group] = rank
		}
	}
}

// countOrphan adds up the usage of an orphan and returns its rank, or -1 if that is unknown. ours has all ranks that
// were ever started here.
func (o *orphanUsage) countOrphan(e lifecycle.ChildEnded, ours map[int]*Rank, tracker *usage.Tracker) (owner int) {
	owner, known := o.rankByGroup[e.Group]
	if !known {
		owner, known = tracker.Owner(e.PID)
	}
	switch {
	case known:
	case len(ours) == 1:
		for owner = range ours {
		}
	default:
		owner = -1
	}
	if o.byRank[owner] == nil {
		o.byRank[owner] = new(job.Usage)
	}
	o.byRank[owner].Add(e.Exit.Usage)
	tracker.NoteReaped(e.PID, owner, e.Exit.Usage.CPU())
	return owner
}

// ofJob returns the usage of all orphans by rank. A rank that is not in ours was made up by the job in an environment:
// its usage belongs to the node, rank -1.
func (o *orphanUsage) ofJob(ours map[int]*Rank) (list []job.OrphanUsage) {
	var unknown job.Usage
	for rank, usage := range o.byRank {
		if _, is := ours[rank]; !is {
			unknown.Add(*usage)
			continue
		}
		list = append(list, job.OrphanUsage{Rank: rank, Usage: *usage})
	}
	if unknown != (job.Usage{}) {
		list = append(list, job.OrphanUsage{Rank: -1, Usage: unknown})
	}
	return list
}

// A usageEvent is a sample of all processes at one moment.
type usageEvent struct {
	processes []usage.Process
	jobMem    int64 // bytes that count for the node's own memory limit; 0: there is no such limit
}

// sampleUsage samples all processes every so often until the session is over (RM-51). most is the memory in bytes that
// this node allows a job; 0: no limit.
func (s *Session) sampleUsage(every time.Duration, most int64) {
	reader, shares := usage.Reader{Helper: os.Getpid()}, sysvipc.MemoryFiles{}
	defer reader.Close()
	began := time.Now()
	for {
		now := time.Now()
		select {
		case <-s.done:
			return
		case <-time.After(usage.NextPass(began, now, every).Sub(now)):
			e := usageEvent{processes: reader.Read()}
			if most > 0 {
				e.jobMem = s.jobMemory(&reader, &shares, e.processes, most)
			}
			s.PostEvent(e)
		}
	}
}

// jobMemory returns the memory in bytes that counts for the node's own limit.
func (s *Session) jobMemory(reader *usage.Reader, shares *sysvipc.MemoryFiles, all []usage.Process, most int64) int64 {
	of := slices.DeleteFunc(reader.Descendants(all), func(p usage.Process) bool { return s.nonJob.hasPID(p.PID) })
	pids := make([]int, len(of))
	for i, p := range of {
		pids[i] = p.PID
	}
	return reader.TotalMemory(of, shares.Size(pids), most)
}

// maxUsageBacklog is how many bytes may wait to be sent before samples are dropped. A stopped mpiexec gets no samples.
const maxUsageBacklog = 256 << 10

// reportUsage checks this node's limits, and sends mpiexec the usage of each rank.
func (s *Session) reportUsage(e usageEvent) {
	if s.Lifecycle.IsDisconnected() {
		return
	}
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.Child.PID] = r.Number
		}
	}
	ranks, host := s.usageTracker.SumByRank(e.processes, usage.Ownership{Helper: os.Getpid(), RankByPID: roots, RankByGroup: s.orphans.rankByGroup,
		NotOfJob: s.nonJob.hasPID, RankFromEnviron: s.rankFromEnviron})
	limited := host
	limited.Mem = e.jobMem
	s.enforceNodeLimits(ranks, limited)
	if !s.Prepare.Supervision.SampleUsage || s.conn.Backlog() > maxUsageBacklog {
		return
	}
	m := &wire.SampledUsage{Host: host}
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		if _, ours := s.byRank[rank]; ours {
			m.Ranks = append(m.Ranks, job.RankUsageSample{Rank: rank, UsageSample: ranks[rank]})
		}
	}
	s.conn.Send(m)
}

// rankFromEnviron returns the rank in a process's MPIEXEC_RANK, if it is a rank of the command line that runs here.
// Otherwise it returns usage.NoRank.
func (s *Session) rankFromEnviron(pid int) int {
	rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK"))
	_, ours := s.byRank[rank]
	if err != nil || !ours || proc.EnvironVariable(pid, "PMI_SPAWNED") != "" || proc.EnvironVariable(pid, "MPIEXEC_JOBID") != string(s.Prepare.Job) {
		return usage.NoRank
	}
	return rank
}

// nonJobProcesses is a set of children of the helper that are not part of the job. It is safe for concurrent use.
type nonJobProcesses struct{ pids sync.Map }

func (f *nonJobProcesses) addPID(pid int) { f.pids.Store(pid, true) }

func (f *nonJobProcesses) hasPID(pid int) bool {
	_, is := f.pids.Load(pid)
	return is
}

// removeReaped removes a reaped process, and reports whether it was in the set.
func (f *nonJobProcesses) removeReaped(pid int) bool {
	_, was := f.pids.LoadAndDelete(pid)
	return was
}
