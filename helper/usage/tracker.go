/*
Package sample finds out what the processes of each rank consume while they run.

	/proc --Reader.Read--> processes --Book.Take--> a sample of each rank, and of the host
	                                      |
	        helper --- rank 3 --- child --+--- is rank 3's, by its parents
	           |
	           '--- orphan ---------------+--- is whose process group it is in, else whose it was
	                                           before, else whose its environment says, else nobody's

Who belongs to whom, and the sums, are values made of values; /proc is read by Reader alone.
*/
package usage

import (
	"time"

	"remshell/job"
)

// NoRank is the rank of what is a process of the job, and no rank's.
const NoRank = -1

// A Process is one process at the moment of a pass. CPU is its own time and that of the children
// it has waited for.
type Process struct {
	PID, Parent, Group int
	StartTicks         uint64 // clock ticks since the boot
	job.UsageSample
}

// Ownership is what a helper knows of whose a process is.
type Ownership struct {
	Helper          int                // whose descendants are counted, and who is not
	RankByPID       map[int]int        // the rank that a process is
	RankByGroup     map[int]int        // the rank that a process group is of
	NotOfJob        func(pid int) bool // children of the helper that have no part in the job
	RankFromEnviron func(pid int) int  // the rank that the environment of a process names, or Nobody
}

// A Tracker has what is remembered from pass to pass (RM-51). The zero value is empty; nil is that of
// a job of which nobody wants to know, and notes nothing.
type Tracker struct {
	seen        map[int]lastSeen      // by pid
	endedCPU    map[int]time.Duration // CPU time of processes that have ended, by rank
	reportedCPU map[int]time.Duration // CPU time that was told
	reaped      map[int]bool          // reaped since the processes of the next pass may have been read
	pass        int
}

// A lastSeen is whose a process was when it was last seen.
type lastSeen struct {
	startTicks uint64
	rank       int
	pass       int
}

// notOfJob is the rank of what is not below the helper; above is that of the helper itself.
const (
	notOfJob   = -2
	isHelper   = -3
	inProgress = -4
)

// SumByRank makes samples of all processes that there are: of each rank that has or had some, of those of no rank as
// those of Nobody, and of the host.
func (b *Tracker) SumByRank(all []Process, e Ownership) (ranks map[int]job.UsageSample, host job.UsageSample) {
	b.makeMaps()
	b.pass++
	at := make(map[int]*Process, len(all))
	for i := range all {
		at[all[i].PID] = &all[i]
	}
	owners := make(map[int]int, len(all))
	ranks = make(map[int]job.UsageSample)
	for i := range all {
		p := &all[i]
		rank := b.findOwner(p.PID, at, owners, &e)
		if rank < NoRank || b.reaped[p.PID] {
			continue
		}
		b.seen[p.PID] = lastSeen{p.StartTicks, rank, b.pass}
		sum := ranks[rank]
		sum.Add(p.UsageSample)
		ranks[rank] = sum
	}
	b.addEnded(ranks)
	for _, s := range ranks {
		host.Add(s)
	}
	return ranks, host
}

func (b *Tracker) makeMaps() {
	if b.seen == nil {
		b.seen, b.endedCPU, b.reportedCPU, b.reaped = make(map[int]lastSeen), make(map[int]time.Duration), make(map[int]time.Duration), make(map[int]bool)
	}
}

// addEnded adds what those have consumed that have ended, and forgets who is not there any more: in
// the pass after the next, since the news of an end may come later than a pass.
func (b *Tracker) addEnded(ranks map[int]job.UsageSample) {
	for rank, spent := range b.endedCPU {
		sum := ranks[rank]
		sum.Add(job.UsageSample{CPU: spent})
		ranks[rank] = sum
	}
	for rank, sum := range ranks {
		b.reportedCPU[rank] = max(sum.CPU, b.reportedCPU[rank])
	}
	for rank, most := range b.reportedCPU {
		sum := ranks[rank]
		sum.CPU = most
		ranks[rank] = sum
	}
	for pid, was := range b.seen {
		if was.pass < b.pass-1 {
			delete(b.seen, pid)
		}
	}
	clear(b.reaped)
}

// findOwner finds whose a process is, and notes it in owners.
func (b *Tracker) findOwner(pid int, at map[int]*Process, owners map[int]int, e *Ownership) int {
	if rank, known := owners[pid]; known {
		if rank == inProgress { // numbers were used again while /proc was read
			return notOfJob
		}
		return rank
	}
	rank := notOfJob
	owners[pid] = inProgress
	root, isRoot := e.RankByPID[pid]
	switch p := at[pid]; {
	case pid == e.Helper:
		rank = isHelper
	case p == nil || e.NotOfJob != nil && e.NotOfJob(pid):
	case isRoot:
		rank = root
	default:
		rank = b.findOwner(p.Parent, at, owners, e)
		if rank == isHelper || rank == NoRank {
			rank = b.findOrphanOwner(p, e)
		}
	}
	owners[pid] = rank
	return rank
}

// findOrphanOwner finds whose a process is that no rank is above.
func (b *Tracker) findOrphanOwner(p *Process, e *Ownership) int {
	if rank, ours := e.RankByGroup[p.Group]; ours {
		return rank
	}
	if was, known := b.seen[p.PID]; known && was.startTicks == p.StartTicks {
		return was.rank
	}
	if e.RankFromEnviron == nil {
		return NoRank
	}
	return e.RankFromEnviron(p.PID)
}

// Owner is whose a process was when it was last seen; false: it was not.
func (b *Tracker) Owner(pid int) (rank int, known bool) {
	if b == nil {
		return NoRank, false
	}
	was, known := b.seen[pid]
	return was.rank, known && was.rank != NoRank
}

// NoteReaped counts what wait4 tells of a process that has ended.
func (b *Tracker) NoteReaped(pid, rank int, cpu time.Duration) {
	if b == nil {
		return
	}
	b.makeMaps()
	b.endedCPU[rank] += cpu
	b.reaped[pid] = true
}

// The times between two passes: for as long as a job is young, and then as long as it is told.
const (
	firstPassAfter = 100 * time.Millisecond
	youngInterval  = time.Second
	youngFor       = 10 * time.Second
)

// costlyInterval is from where on a pass is too much to be made more often while a job is young.
const costlyInterval = 10 * time.Second

// NextPass is when to look again, at a moment of a job that began at another: so that all hosts of a
// job, as far as their clocks agree, look at the same time.
func NextPass(began, now time.Time, every time.Duration) time.Time {
	if soon := began.Add(firstPassAfter); now.Before(soon) {
		return soon
	}
	if every < costlyInterval && now.Sub(began) < youngFor {
		every = min(every, youngInterval)
	}
	return now.Truncate(every).Add(every)
}
