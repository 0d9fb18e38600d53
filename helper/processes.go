//go:build linux

package helper

import (
	"os"

	"remshell/helper/sysvipc"
	"remshell/proc"
)

// JobProcesses returns the job's processes on this node, each with its rank. A descendant belongs to the rank that it
// descends from. An orphan belongs to the rank whose process group it is in.
func (s *Session) JobProcesses() (all []sysvipc.Process) {
	roots := s.RankByPID()
	s.visitDescendants(func(p proc.Info, rank int) int {
		root, leader := roots[p.PID]
		if leader {
			rank = root
		} else if owner, known := s.orphans.rankByGroup[p.Group]; known && rank == sysvipc.NoRank {
			rank = owner
		}
		all = append(all, sysvipc.Process{PID: p.PID, Rank: rank, Started: p.StartTime.Time(), Leader: leader})
		return rank
	})
	return all
}

// RankByPID returns the running ranks, by PID.
func (s *Session) RankByPID() map[int]int {
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.Child.PID] = r.Number
		}
	}
	return roots
}

// visitDescendants calls visit for each descendant of the helper that belongs to the job, parents before
// their children. parentRank is the rank to which the parent of p belongs. visit returns the rank to which p
// belongs.
func (s *Session) visitDescendants(visit func(p proc.Info, parentRank int) int) {
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
