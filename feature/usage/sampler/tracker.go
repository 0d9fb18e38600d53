/*
Package sampler measures the usage of each rank's processes while they run.

	/proc --Reader.Read--> processes --Tracker.SumByRank--> a sample of each rank, and of the host
	                                         |
	        helper --- rank 3 --- child -----+--- belongs to rank 3, by its parents
	           |
	           '--- orphan ------------------+--- belongs to the rank of its process group, else to the rank it
	                                              belonged to before, else to the rank in its environment, else to none

Only Reader reads /proc. All other code works with the values that it has read.
*/
package sampler

import (
	"time"

	"remshell/job"
)

// NoRank is used instead of a rank's number for those processes of the job that belong to no rank.
const NoRank = -1

// A Process is the state of one process when the Reader read it. CPU is the CPU time of the process and of
// the children that it has waited for.
type Process struct {
	PID, Parent, Group int
	StartTicks         uint64 // start time in clock ticks since the boot
	job.UsageSample
}

// An Ownership contains what the helper knows about its processes. The Tracker uses it to find the rank of a process.
type Ownership struct {
	Helper          int                // PID of the helper; its descendants are counted, itself not
	RankByPID       map[int]int        // the ranks' own processes
	RankByGroup     map[int]int        // the process groups of ranks
	NotOfJob        func(pid int) bool // reports children of the helper that are not part of the job
	RankFromEnviron func(pid int) int  // the rank in the environment of a process, or NoRank
}

// A Tracker holds the data that one pass over /proc needs from earlier passes (rule RM-51). The zero value is empty. A
// nil Tracker records nothing: it is used if the usage of the job is not sampled.
type Tracker struct {
	seen        map[int]lastSeen      // by PID
	endedCPU    map[int]time.Duration // CPU time of ended processes, by rank
	reportedCPU map[int]time.Duration // CPU time as reported last, by rank
	reaped      map[int]bool          // reaped after the processes of the next pass may have been read
	pass        int
}

// A lastSeen is the state of a process when it was last read.
type lastSeen struct {
	startTicks uint64
	rank       int
	pass       int
}

// These values are used in place of a rank for a process that belongs to no rank: a process that does not
// descend from the helper, the helper itself, and a process whose rank is still being computed.
const (
	notOfJob   = -2
	isHelper   = -3
	inProgress = -4
)

// SumByRank returns a sample of each rank that has or had processes, and their sum for the host. ranks[NoRank] is the
// sample of all processes that belong to no rank.
func (b *Tracker) SumByRank(all []Process, e Ownership) (ranks map[int]job.UsageSample, host job.UsageSample) {
	b.makeMaps()
	b.pass++
	byPID := make(map[int]*Process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	owners := make(map[int]int, len(all))
	ranks = make(map[int]job.UsageSample)
	for i := range all {
		p := &all[i]
		rank := b.findOwner(p.PID, byPID, owners, &e)
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

// addEnded adds the CPU time of ended processes to the samples in ranks, and ensures that no rank's CPU time decreases.
// It forgets a process two passes after the process was last seen, because its end may be reported only after the next
// pass.
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

// findOwner returns the rank that a process belongs to, and stores it in owners. byPID contains all processes.
func (b *Tracker) findOwner(pid int, byPID map[int]*Process, owners map[int]int, e *Ownership) int {
	if rank, known := owners[pid]; known {
		if rank == inProgress { // PIDs were reused while /proc was read
			return notOfJob
		}
		return rank
	}
	rank := notOfJob
	owners[pid] = inProgress
	root, isRoot := e.RankByPID[pid]
	switch p := byPID[pid]; {
	case pid == e.Helper:
		rank = isHelper
	case p == nil || e.NotOfJob != nil && e.NotOfJob(pid):
	case isRoot:
		rank = root
	default:
		rank = b.findOwner(p.Parent, byPID, owners, e)
		if rank == isHelper || rank == NoRank {
			rank = b.findOrphanOwner(p, e)
		}
	}
	owners[pid] = rank
	return rank
}

// findOrphanOwner returns the rank of a process that does not descend from a rank.
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

// Owner returns the rank that a process belonged to when it was last read. It returns false if the process was never
// read or belonged to no rank.
func (b *Tracker) Owner(pid int) (rank int, known bool) {
	if b == nil {
		return NoRank, false
	}
	was, known := b.seen[pid]
	return was.rank, known && was.rank != NoRank
}

// NoteReaped records that a process of the rank has ended. cpu is the CPU time that wait4(2) has returned for the
// process.
func (b *Tracker) NoteReaped(pid, rank int, cpu time.Duration) {
	if b == nil {
		return
	}
	b.makeMaps()
	b.endedCPU[rank] += cpu
	b.reaped[pid] = true
}

// These constants define additional samples of a job that has just begun: one after firstPassAfter, then one every
// youngInterval until youngFor has passed.
const (
	firstPassAfter = 100 * time.Millisecond
	youngInterval  = time.Second
	youngFor       = 10 * time.Second
)

// Jobs that are sampled every costlyInterval, or less often, get no additional samples at their start. Such long
// intervals are used where samples cost much.
const costlyInterval = 10 * time.Second

// NextPass returns the time of the next sample. now is the current time, and start is the time at which the
// job began. All hosts of a job sample at the same time if their clocks agree.
func NextPass(start, now time.Time, interval time.Duration) time.Time {
	if soon := start.Add(firstPassAfter); now.Before(soon) {
		return soon
	}
	if interval < costlyInterval && now.Sub(start) < youngFor {
		interval = min(interval, youngInterval)
	}
	return now.Truncate(interval).Add(interval)
}
