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
package sample

import (
	"time"

	"remshell/job"
)

// Nobody is the rank of what is a process of the job, and no rank's.
const Nobody = -1

// A Process is one process at the moment of a pass. CPU is its own time and that of the children
// it has waited for.
type Process struct {
	PID, Parent, Group int
	Born               uint64 // clock ticks since the boot
	job.Sample
}

// Evidence is what a helper knows of whose a process is.
type Evidence struct {
	Helper  int                // whose descendants are counted, and who is not
	Roots   map[int]int        // the rank that a process is
	Groups  map[int]int        // the rank that a process group is of
	Foreign func(pid int) bool // children of the helper that have no part in the job
	Ask     func(pid int) int  // the rank that the environment of a process names, or Nobody
}

// A Book has what is remembered from pass to pass (RM-51). The zero value is empty; nil is that of
// a job of which nobody wants to know, and notes nothing.
type Book struct {
	known map[int]memory        // by pid
	spent map[int]time.Duration // CPU time of processes that have ended, by rank
	most  map[int]time.Duration // CPU time that was told
	gone  map[int]bool          // reaped since the processes of the next pass may have been read
	pass  int
}

// A memory is whose a process was when it was last seen.
type memory struct {
	born uint64
	rank int
	pass int
}

// foreign is the rank of what is not below the helper; above is that of the helper itself.
const (
	foreign = -2
	above   = -3
	looking = -4
)

// Take makes samples of all processes that there are: of each rank that has or had some, of those of no rank as
// those of Nobody, and of the host.
func (b *Book) Take(all []Process, e Evidence) (ranks map[int]job.Sample, host job.Sample) {
	b.open()
	b.pass++
	at := make(map[int]*Process, len(all))
	for i := range all {
		at[all[i].PID] = &all[i]
	}
	owners := make(map[int]int, len(all))
	ranks = make(map[int]job.Sample)
	for i := range all {
		p := &all[i]
		rank := b.owner(p.PID, at, owners, &e)
		if rank < Nobody || b.gone[p.PID] {
			continue
		}
		b.known[p.PID] = memory{p.Born, rank, b.pass}
		sum := ranks[rank]
		sum.Add(p.Sample)
		ranks[rank] = sum
	}
	b.end(ranks)
	for _, s := range ranks {
		host.Add(s)
	}
	return ranks, host
}

func (b *Book) open() {
	if b.known == nil {
		b.known, b.spent, b.most, b.gone = make(map[int]memory), make(map[int]time.Duration), make(map[int]time.Duration), make(map[int]bool)
	}
}

// end adds what those have consumed that have ended, and forgets who is not there any more: in
// the pass after the next, since the news of an end may come later than a pass.
func (b *Book) end(ranks map[int]job.Sample) {
	for rank, spent := range b.spent {
		sum := ranks[rank]
		sum.Add(job.Sample{CPU: spent})
		ranks[rank] = sum
	}
	for rank, sum := range ranks {
		b.most[rank] = max(sum.CPU, b.most[rank])
	}
	for rank, most := range b.most {
		sum := ranks[rank]
		sum.CPU = most
		ranks[rank] = sum
	}
	for pid, was := range b.known {
		if was.pass < b.pass-1 {
			delete(b.known, pid)
		}
	}
	clear(b.gone)
}

// owner finds whose a process is, and notes it in owners.
func (b *Book) owner(pid int, at map[int]*Process, owners map[int]int, e *Evidence) int {
	if rank, known := owners[pid]; known {
		if rank == looking { // numbers were used again while /proc was read
			return foreign
		}
		return rank
	}
	rank := foreign
	owners[pid] = looking
	root, isRoot := e.Roots[pid]
	switch p := at[pid]; {
	case pid == e.Helper:
		rank = above
	case p == nil || e.Foreign != nil && e.Foreign(pid):
	case isRoot:
		rank = root
	default:
		rank = b.owner(p.Parent, at, owners, e)
		if rank == above || rank == Nobody {
			rank = b.orphan(p, e)
		}
	}
	owners[pid] = rank
	return rank
}

// orphan finds whose a process is that no rank is above.
func (b *Book) orphan(p *Process, e *Evidence) int {
	if rank, ours := e.Groups[p.Group]; ours {
		return rank
	}
	if was, known := b.known[p.PID]; known && was.born == p.Born {
		return was.rank
	}
	if e.Ask == nil {
		return Nobody
	}
	return e.Ask(p.PID)
}

// Owner is whose a process was when it was last seen; false: it was not.
func (b *Book) Owner(pid int) (rank int, known bool) {
	if b == nil {
		return Nobody, false
	}
	was, known := b.known[pid]
	return was.rank, known && was.rank != Nobody
}

// Reaped counts what wait4 tells of a process that has ended.
func (b *Book) Reaped(pid, rank int, cpu time.Duration) {
	if b == nil {
		return
	}
	b.open()
	b.spent[rank] += cpu
	b.gone[pid] = true
}

// The times between two passes: for as long as a job is young, and then as long as it is told.
const (
	first = 100 * time.Millisecond
	often = time.Second
	youth = 10 * time.Second
)

// costly is from where on a pass is too much to be made more often while a job is young.
const costly = 10 * time.Second

// Next is when to look again, at a moment of a job that began at another: so that all hosts of a
// job, as far as their clocks agree, look at the same time.
func Next(began, now time.Time, every time.Duration) time.Time {
	if soon := began.Add(first); now.Before(soon) {
		return soon
	}
	if every < costly && now.Sub(began) < youth {
		every = min(every, often)
	}
	return now.Truncate(every).Add(every)
}
