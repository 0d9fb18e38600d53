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

// Accounts are what is counted of processes.
type rankUsage struct {
	orphans       orphanUsage
	peaks         rank.PeakWatcher
	nonJob        nonJobProcesses // debuggers, and the guard
	kernelDenials proc.Denials    // before the job
	usageTracker  *usage.Tracker  // nil: nobody wants to know
}

/*
Usage is counted where processes are reaped. What wait4(2) tells of a rank holds the
children it waited for, and theirs. What outlives its parent falls to the helper, which
has to find out whose it was:

	rank 3 (pid 70) --- child, group 70 ---- its parent dies: group 70 is rank 3
	                \-- child, setsid   ---- seen while it lived: MPIEXEC_RANK was 3

What can be told by neither, nor by samples, belongs to the node; of a node with one rank, to that rank.
*/
type orphanUsage struct {
	rankByGroup map[int]int // rank by process group
	byRank      map[int]*job.Usage
}

func newOrphanUsage() orphanUsage {
	return orphanUsage{rankByGroup: make(map[int]int), byRank: make(map[int]*job.Usage)}
}

// rusageOf is what wait4 tells of a process, but for how long it ran.
func rusageOf(used *unix.Rusage) job.Usage {
	return job.Usage{
		User:      time.Duration(used.Utime.Nano()),
		System:    time.Duration(used.Stime.Nano()),
		MaxRSS:    used.Maxrss << 10,
		InBlocks:  used.Inblock,
		OutBlocks: used.Oublock,
	}
}

// noteOrphanGroups notes whose the children are that we have inherited so far. It is asked just
// before what is left is told to end, and not at the end of each rank: to look costs more
// than a short job does.
func (o *orphanUsage) noteOrphanGroups(isRank func(pid int) bool) {
	for _, pid := range proc.Children() {
		if isRank(pid) {
			continue
		}
		look, there := proc.ReadInfo(pid)
		if _, known := o.rankByGroup[look.Group]; known || !there {
			continue
		}
		if rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK")); err == nil && proc.EnvironVariable(pid, "PMI_SPAWNED") == "" {
			o.rankByGroup[look.Group] = rank
		}
	}
}

// countOrphan counts what an orphan has consumed, and returns whose it was, or -1; ours are the ranks that
// were ever started here.
func (o *orphanUsage) countOrphan(e lifecycle.ChildEnded, ours map[int]*rankProcess, book *usage.Tracker) (owner int) {
	owner, known := o.rankByGroup[e.Group]
	if !known {
		owner, known = book.Owner(e.PID)
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
	book.NoteReaped(e.PID, owner, e.Exit.Usage.CPU())
	return owner
}

// ofJob is what all orphans have consumed. A rank that is not ours is what an environment
// says that a rank has made up: then they are the node's.
func (o *orphanUsage) ofJob(ours map[int]*rankProcess) (list []job.OrphanUsage) {
	var nobodys job.Usage
	for rank, usage := range o.byRank {
		if _, is := ours[rank]; !is {
			nobodys.Add(*usage)
			continue
		}
		list = append(list, job.OrphanUsage{Rank: rank, Usage: *usage})
	}
	if nobodys != (job.Usage{}) {
		list = append(list, job.OrphanUsage{Rank: -1, Usage: nobodys})
	}
	return list
}

// A usageEvent is all processes that there were at one moment.
type usageEvent struct {
	processes []usage.Process
	jobMem    int64 // what counts for the node's own limit of memory; 0: there is none
}

// sampleUsage looks at all processes again and again, until the session is over (RM-51). most is how much memory this node
// allows a job; 0: any.
func (s *session) sampleUsage(every time.Duration, most int64) {
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
			s.postEvent(e)
		}
	}
}

// jobMemory is how much memory the job has here, where it counts for the node's own limit.
func (s *session) jobMemory(reader *usage.Reader, shares *sysvipc.MemoryFiles, all []usage.Process, most int64) int64 {
	of := slices.DeleteFunc(reader.Descendants(all), func(p usage.Process) bool { return s.nonJob.hasPID(p.PID) })
	pids := make([]int, len(of))
	for i, p := range of {
		pids[i] = p.PID
	}
	return reader.TotalMemory(of, shares.Size(pids), most)
}

// maxUsageBacklog is how much may wait to be written to an mpiexec that shall have samples, too, in
// bytes: one that was stopped gets none.
const maxUsageBacklog = 256 << 10

// reportUsage tells mpiexec what the processes of each rank have.
func (s *session) reportUsage(e usageEvent) {
	if s.life.IsDisconnected() {
		return
	}
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.child.PID] = r.number
		}
	}
	ranks, host := s.usageTracker.SumByRank(e.processes, usage.Ownership{Helper: os.Getpid(), RankByPID: roots, RankByGroup: s.orphans.rankByGroup,
		NotOfJob: s.nonJob.hasPID, RankFromEnviron: s.rankFromEnviron})
	limited := host
	limited.Mem = e.jobMem
	s.enforceNodeLimits(ranks, limited)
	if !s.prepare.Supervision.SampleUsage || s.conn.Backlog() > maxUsageBacklog {
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

// rankFromEnviron is the rank of the command line that the environment of a process names, if it is one
// of ours; else usage.NoRank.
func (s *session) rankFromEnviron(pid int) int {
	rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK"))
	_, ours := s.byRank[rank]
	if err != nil || !ours || proc.EnvironVariable(pid, "PMI_SPAWNED") != "" || proc.EnvironVariable(pid, "MPIEXEC_JOBID") != string(s.prepare.Job) {
		return usage.NoRank
	}
	return rank
}

// nonJobProcesses are processes that are children of ours and no part of the job.
type nonJobProcesses struct{ pids sync.Map }

func (f *nonJobProcesses) addPID(pid int) { f.pids.Store(pid, true) }

func (f *nonJobProcesses) hasPID(pid int) bool {
	_, is := f.pids.Load(pid)
	return is
}

// removeReaped reports whether one that was reaped is one of them.
func (f *nonJobProcesses) removeReaped(pid int) bool {
	_, was := f.pids.LoadAndDelete(pid)
	return was
}
