//go:build linux

package helper

import (
	"os"

	"remshell/helper/sysvipc"
	"remshell/proc"
	"remshell/wire"
)

// jobProcesses returns the job's processes on this node, each with its rank. A descendant belongs to the rank that it
// descends from. An orphan belongs to the rank whose process group it is in.
func (s *session) jobProcesses() (all []sysvipc.Process) {
	roots := s.rankByPID()
	s.visitDescendants(func(p proc.Info, of int) int {
		root, leader := roots[p.PID]
		if leader {
			of = root
		} else if owner, known := s.orphans.rankByGroup[p.Group]; known && of == sysvipc.NoRank {
			of = owner
		}
		all = append(all, sysvipc.Process{PID: p.PID, Rank: of, Started: p.StartTime.Time(), Leader: leader})
		return of
	})
	return all
}

// rankByPID returns the running ranks, by PID.
func (s *session) rankByPID() map[int]int {
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.child.PID] = r.number
		}
	}
	return roots
}

// visitDescendants calls visit for each descendant of the helper that is part of the job, parents before children. of
// is the rank of the process's parent. visit returns the rank of the process itself.
func (s *session) visitDescendants(visit func(p proc.Info, of int) int) {
	tree := proc.ReadTree()
	var below func(pid, rank int)
	below = func(pid, rank int) {
		for _, p := range tree[pid] {
			if !s.nonJob.hasPID(p.PID) {
				below(p.PID, visit(p, rank))
			}
		}
	}
	below(os.Getpid(), sysvipc.NoRank)
}

// A leftIPC is shared memory that is to be freed when no process of the job is left.
type leftIPC struct{ objects *sysvipc.Tracker }

// takeLeftIPC returns the shared memory that ranks have left, once: later calls return none. If processes may stay, it
// returns none, since they may still use it.
func (s *session) takeLeftIPC() leftIPC {
	tracker := s.ipcTracker
	if s.ipcTracker = nil; s.lifecycle.LeavesProcesses() {
		return leftIPC{}
	}
	return leftIPC{tracker}
}

// freeObjects frees shared memory left by ranks that failed. It returns what was freed, or nil if nothing was.
func (r leftIPC) freeObjects() *wire.IPCCleaned {
	o := r.objects.Free()
	if len(o.Freed) == 0 && o.Semaphores == 0 {
		return nil
	}
	return &wire.IPCCleaned{Leftovers: o.Freed, Semaphores: o.Semaphores}
}
