//go:build linux

package helper

import (
	"os"

	"remshell/helper/sysvipc"
	"remshell/proc"
	"remshell/wire"
)

// jobProcesses are the processes of the job that live on the node, with the ranks they belong to: of what is
// below a rank, that rank; of what has outlived its parent, the rank whose process group it is in.
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

// rankByPID are the ranks that live, by their processes.
func (s *session) rankByPID() map[int]int {
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.child.PID] = r.number
		}
	}
	return roots
}

// visitDescendants visits the processes below the helper that are not its own, parents first, and tells of each to which rank
// its parent belongs; visit says to which it does itself.
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

// A leftIPC is what is known of shared memory that is to be freed when no process of the job is left.
type leftIPC struct{ objects *sysvipc.Tracker }

// takeLeftIPC hands over what is known of shared memory that ranks have left: it is freed once. What they
// leave that may stay themselves is theirs.
func (s *session) takeLeftIPC() leftIPC {
	book := s.ipcTracker
	if s.ipcTracker = nil; s.life.LeavesProcesses() {
		return leftIPC{}
	}
	return leftIPC{book}
}

// freeObjects frees what ranks have left that did not end well, and says what that was; nil: nothing.
func (r leftIPC) freeObjects() *wire.IPCCleaned {
	o := r.objects.Free()
	if len(o.Freed) == 0 && o.Semaphores == 0 {
		return nil
	}
	return &wire.IPCCleaned{Leftovers: o.Freed, Semaphores: o.Semaphores}
}
