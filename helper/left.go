//go:build linux

package helper

import (
	"os"

	"remshell/helper/ipc"
	"remshell/proc"
	"remshell/wire"
)

// members are the processes of the job that live on the node, with the ranks they belong to: of what is
// below a rank, that rank; of what has outlived its parent, the rank whose process group it is in.
func (s *session) members() (all []ipc.Process) {
	roots := s.roots()
	s.eachBelow(func(p proc.Look, of int) int {
		root, leader := roots[p.PID]
		if leader {
			of = root
		} else if owner, known := s.owners.groups[p.Group]; known && of == ipc.Nobody {
			of = owner
		}
		all = append(all, ipc.Process{PID: p.PID, Rank: of, Began: p.Born.Time(), Leader: leader})
		return of
	})
	return all
}

// roots are the ranks that live, by their processes.
func (s *session) roots() map[int]int {
	roots := make(map[int]int, len(s.ranks))
	for _, r := range s.ranks {
		if r.alive() {
			roots[r.begun.PID] = r.number
		}
	}
	return roots
}

// eachBelow visits the processes below the helper that are not its own, parents first, and tells of each to which rank
// its parent belongs; visit says to which it does itself.
func (s *session) eachBelow(visit func(p proc.Look, of int) int) {
	tree := proc.LookAround()
	var below func(pid, rank int)
	below = func(pid, rank int) {
		for _, p := range tree[pid] {
			if !s.foreign.has(p.PID) {
				below(p.PID, visit(p, rank))
			}
		}
	}
	below(os.Getpid(), ipc.Nobody)
}

// A remains is what is known of shared memory that is to be freed when no process of the job is left.
type remains struct{ book *ipc.Book }

// takeLeft hands over what is known of shared memory that ranks have left: it is freed once. What they
// leave that may stay themselves is theirs.
func (s *session) takeLeft() remains {
	book := s.left
	if s.left = nil; s.life.MayStay() {
		return remains{}
	}
	return remains{book}
}

// free frees what ranks have left that did not end well, and says what that was; nil: nothing.
func (r remains) free() *wire.Cleaned {
	o := r.book.Free()
	if len(o.Freed) == 0 && o.Semaphores == 0 {
		return nil
	}
	return &wire.Cleaned{Remnants: o.Freed, Semaphores: o.Semaphores}
}
