//go:build linux

package helper

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/lifecycle"
	"remshell/job"
	"remshell/proc"
)

/*
An orphanUsage counts the usage of orphans and finds the rank that each belongs to.

Usage is counted when a process is reaped. The usage that wait4(2) returns for a rank includes the children that the
rank waited for, and their children. The helper inherits an orphan, which is a process that outlives its parent, and
looks for its rank:

	rank 3 (pid 70) --- child, group 70 ---- its parent dies: group 70 is rank 3
	                \-- child, setsid   ---- seen while it lived: MPIEXEC_RANK was 3

A feature may know the rank of other orphans (OwnerOf). If no rank is found, the orphan belongs to the only rank of the
node or, if the node has several ranks, to the node.
*/
type orphanUsage struct {
	rankByGroup map[int]int // by process group ID
	byRank      map[int]*job.Usage
}

func newOrphanUsage() orphanUsage {
	return orphanUsage{rankByGroup: make(map[int]int), byRank: make(map[int]*job.Usage)}
}

// rusageOf converts the usage that wait4(2) has returned. It does not set the wall time.
func rusageOf(raw *unix.Rusage) job.Usage {
	return job.Usage{
		User:      time.Duration(raw.Utime.Nano()),
		System:    time.Duration(raw.Stime.Nano()),
		MaxRSS:    raw.Maxrss << 10,
		InBlocks:  raw.Inblock,
		OutBlocks: raw.Oublock,
	}
}

// noteOrphanGroups records, for the process group of each orphan (a process that has outlived its parent), the rank
// that the orphan's environment names. It is called only once, before the orphans receive SIGTERM. Calling it at the
// end of each rank would take longer than a short job.
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

// countOrphan adds the usage of an orphan to the usage of the rank from which it descends. It returns that
// rank, or -1 if the rank is unknown.
func (s *Session) countOrphan(e lifecycle.ChildEnded) (owner int) {
	owner, known := s.orphans.rankByGroup[e.Group]
	for _, ownerOf := range s.Hooks.OwnerOf {
		if !known {
			owner, known = ownerOf(e.PID)
		}
	}
	switch {
	case known:
	case len(s.byRank) == 1:
		for owner = range s.byRank {
		}
	default:
		owner = -1
	}
	byRank := s.orphans.byRank
	if byRank[owner] == nil {
		byRank[owner] = new(job.Usage)
	}
	byRank[owner].Add(e.Exit.Usage)
	return owner
}

// ofJob returns the usage of all orphans, grouped by rank. ranks contains the ranks of this node. The usage of orphans
// whose rank is unknown, or not on this node, is returned under rank -1, which stands for the node.
func (o *orphanUsage) ofJob(ranks map[int]*Rank) (list []job.OrphanUsage) {
	var unknown job.Usage
	for rank, usage := range o.byRank {
		if _, is := ranks[rank]; !is {
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

// nonJobProcesses is the set of those children of the helper that do not belong to the job. It is safe for
// concurrent use.
type nonJobProcesses struct{ pids sync.Map }

func (f *nonJobProcesses) addPID(pid int) { f.pids.Store(pid, true) }

func (f *nonJobProcesses) hasPID(pid int) bool {
	_, is := f.pids.Load(pid)
	return is
}

// removeReaped removes a process that has ended from the set. It reports whether the set contained the
// process.
func (f *nonJobProcesses) removeReaped(pid int) bool {
	_, was := f.pids.LoadAndDelete(pid)
	return was
}
