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

	"remshell/helper/ipc"
	"remshell/helper/life"
	"remshell/helper/rank"
	"remshell/helper/sample"
	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// Accounts are what is counted of processes.
type accounts struct {
	owners  ownership
	peaks   rank.Peaks
	foreign foreigners   // debuggers, and the guard
	denied  proc.Denials // before the job
	book    *sample.Book // nil: nobody wants to know
}

/*
Usage is counted where processes are reaped. What wait4(2) tells of a rank holds the
children it waited for, and theirs. What outlives its parent falls to the helper, which
has to find out whose it was:

	rank 3 (pid 70) --- child, group 70 ---- its parent dies: group 70 is rank 3
	                \-- child, setsid   ---- seen while it lived: MPIEXEC_RANK was 3

What can be told by neither, nor by samples, belongs to the node; of a node with one rank, to that rank.
*/
type ownership struct {
	groups  map[int]int // rank by process group
	orphans map[int]*job.Usage
}

func newOwnership() ownership {
	return ownership{groups: make(map[int]int), orphans: make(map[int]*job.Usage)}
}

// usageOf is what wait4 tells of a process, but for how long it ran.
func usageOf(used *unix.Rusage) job.Usage {
	return job.Usage{
		User:      time.Duration(used.Utime.Nano()),
		System:    time.Duration(used.Stime.Nano()),
		MaxRSS:    used.Maxrss << 10,
		InBlocks:  used.Inblock,
		OutBlocks: used.Oublock,
	}
}

// adopt notes whose the children are that we have inherited so far. It is asked just
// before what is left is told to end, and not at the end of each rank: to look costs more
// than a short job does.
func (o *ownership) adopt(isRank func(pid int) bool) {
	for _, pid := range proc.Children() {
		if isRank(pid) {
			continue
		}
		look, there := proc.LookAt(pid)
		if _, known := o.groups[look.Group]; known || !there {
			continue
		}
		if rank, err := strconv.Atoi(proc.Variable(pid, "MPIEXEC_RANK")); err == nil && proc.Variable(pid, "PMI_SPAWNED") == "" {
			o.groups[look.Group] = rank
		}
	}
}

// bury counts what an orphan has consumed, and returns whose it was, or -1; ours are the ranks that
// were ever started here.
func (o *ownership) bury(e life.Reaped, ours map[int]*process, book *sample.Book) (owner int) {
	owner, known := o.groups[e.Group]
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
	if o.orphans[owner] == nil {
		o.orphans[owner] = new(job.Usage)
	}
	o.orphans[owner].Add(e.Exit.Usage)
	book.Reaped(e.PID, owner, e.Exit.Usage.CPU())
	return owner
}

// list is what all orphans have consumed. A rank that is not ours is what an environment
// says that a rank has made up: then they are the node's.
func (o *ownership) list(ours map[int]*process) (list []job.Orphan) {
	var nobodys job.Usage
	for rank, usage := range o.orphans {
		if _, is := ours[rank]; !is {
			nobodys.Add(*usage)
			continue
		}
		list = append(list, job.Orphan{Rank: rank, Usage: *usage})
	}
	if nobodys != (job.Usage{}) {
		list = append(list, job.Orphan{Rank: -1, Usage: nobodys})
	}
	return list
}

// A sampledEvent is all processes that there were at one moment.
type sampledEvent struct {
	all []sample.Process
	mem int64 // what counts for the node's own limit of memory; 0: there is none
}

// sample looks at all processes again and again, until the session is over (RM-51). most is how much memory this node
// allows a job; 0: any.
func (s *session) sample(every time.Duration, most int64) {
	reader, shares := sample.Reader{Helper: os.Getpid()}, ipc.Shares{}
	defer reader.Close()
	began := time.Now()
	for {
		now := time.Now()
		select {
		case <-s.done:
			return
		case <-time.After(sample.Next(began, now, every).Sub(now)):
			e := sampledEvent{all: reader.Read()}
			if most > 0 {
				e.mem = s.memory(&reader, &shares, e.all, most)
			}
			s.tell(e)
		}
	}
}

// memory is how much memory the job has here, where it counts for the node's own limit.
func (s *session) memory(reader *sample.Reader, shares *ipc.Shares, all []sample.Process, most int64) int64 {
	of := slices.DeleteFunc(reader.Below(all), func(p sample.Process) bool { return s.foreign.has(p.PID) })
	pids := make([]int, len(of))
	for i, p := range of {
		pids[i] = p.PID
	}
	return reader.Memory(of, shares.Size(pids), most)
}

// maxBacklog is how much may wait to be written to an mpiexec that shall have samples, too, in
// bytes: one that was stopped gets none.
const maxBacklog = 256 << 10

// sampled tells mpiexec what the processes of each rank have.
func (s *session) sampled(e sampledEvent) {
	if s.life.Over() {
		return
	}
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.begun.PID] = r.number
		}
	}
	ranks, host := s.book.Take(e.all, sample.Evidence{Helper: os.Getpid(), Roots: roots, Groups: s.owners.groups,
		Foreign: s.foreign.has, Ask: s.rankOf})
	limited := host
	limited.Mem = e.mem
	s.confine(ranks, limited)
	if !s.prepare.Supervision.Samples || s.conn.Backlog() > maxBacklog {
		return
	}
	m := &wire.Sampled{Host: host}
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		if _, ours := s.byRank[rank]; ours {
			m.Ranks = append(m.Ranks, job.RankSample{Rank: rank, Sample: ranks[rank]})
		}
	}
	s.conn.Send(m)
}

// rankOf is the rank of the command line that the environment of a process names, if it is one
// of ours; else sample.Nobody.
func (s *session) rankOf(pid int) int {
	rank, err := strconv.Atoi(proc.Variable(pid, "MPIEXEC_RANK"))
	_, ours := s.byRank[rank]
	if err != nil || !ours || proc.Variable(pid, "PMI_SPAWNED") != "" || proc.Variable(pid, "MPIEXEC_JOBID") != string(s.prepare.Job) {
		return sample.Nobody
	}
	return rank
}

// foreigners are processes that are children of ours and no part of the job.
type foreigners struct{ pids sync.Map }

func (f *foreigners) add(pid int) { f.pids.Store(pid, true) }

func (f *foreigners) has(pid int) bool {
	_, is := f.pids.Load(pid)
	return is
}

// gone reports whether one that was reaped is one of them.
func (f *foreigners) gone(pid int) bool {
	_, was := f.pids.LoadAndDelete(pid)
	return was
}
