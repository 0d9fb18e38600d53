//go:build linux

package helper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/sysvipc"
	"remshell/proc"
	"remshell/wire"
)

/*
This file has the ranks of a node stand still, and go on (survive.md SV-28):

	Hold "suspend" ----.
	                    >--- any ---> SIGSTOP  the process group of each rank, then what has left these
	Hold "stopped" ----'--- none ---> SIGCONT  the same, in the other order

Which holds there are, and that an ending lifts them, is for package life.
*/

// stopRounds is how often to look for processes that have left the group of their rank: one that still
// runs may fork between the look and the stop.
const stopRounds = 3

// stopTimeout is how long what is stopped may take to stand still (survive.md SV-28).
const stopTimeout = time.Second

// A stopCounter is how often ranks were to stand still, or to go on.
type stopCounter struct{ stopCount int }

// stopCheckDue says that what was stopped should stand still by now.
type stopCheckDue struct{ count int }

// stopRanks has all ranks stand still, and what they have started. What does not is told of a little later, and let be.
func (s *session) stopRanks() {
	s.stopCount++
	due := stopCheckDue{s.stopCount}
	time.AfterFunc(stopTimeout, func() { s.postEvent(due) })
	s.sendStop()
}

// sendStop stops what runs.
func (s *session) sendStop() {
	s.signalGroups(unix.SIGSTOP)
	for range stopRounds {
		running := 0
		for _, p := range s.outsideRankGroups() {
			if p.State != 'T' && p.State != 't' && p.State != 'Z' {
				running++
				unix.Kill(p.PID, unix.SIGSTOP)
			}
		}
		if running == 0 {
			return
		}
	}
}

// continueRanks lets all ranks go on, and what they have started.
func (s *session) continueRanks() {
	s.stopCount++
	for _, p := range s.outsideRankGroups() {
		unix.Kill(p.PID, unix.SIGCONT)
	}
	s.signalGroups(unix.SIGCONT)
}

// reportNotStopped tells of what was to stand still and cannot be stopped, unless the ranks go on already.
func (s *session) reportNotStopped(due stopCheckDue) {
	if due.count != s.stopCount {
		return
	}
	s.sendStop() // what was forked, or left its group, in the meantime
	var names []string
	count, roots := 0, s.rankByPID()
	s.visitDescendants(func(p proc.Info, of int) int {
		if root, is := roots[p.PID]; is {
			of = root
		}
		if why := unstoppable(p); why != "" && of != sysvipc.NoRank {
			if count++; count <= maxNotStopped {
				names = append(names, fmt.Sprintf("process %d of rank %d %s", p.PID, of, why))
			}
		}
		return of
	})
	if more := count - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if count > 0 {
		s.log.warn("does not stand still: %s; it is let be", strings.Join(names, ", "))
	}
}

// maxNotStopped is how many processes are named that cannot be stopped.
const maxNotStopped = 4

// unstoppable says why a process runs on that was stopped; empty: it does not, or stops as soon as it runs.
func unstoppable(p proc.Info) string {
	switch {
	case p.State == 'T' || p.State == 't' || p.State == 'Z' || p.State == 'X':
		return ""
	case errors.Is(unix.Kill(p.PID, 0), unix.EPERM):
		return "is another user's"
	case p.State == 'D':
		return "sleeps in the kernel (state D)"
	}
	return ""
}

// signalGroups sends a signal to the process group of each rank.
func (s *session) signalGroups(sig unix.Signal) {
	for _, r := range s.ranks {
		if r.alive() {
			unix.Kill(-r.child.PID, sig)
		}
	}
}

// reportDeadRanks lets the ranks of a group know which others have died, while these go on. MPICH 3.x looks again at
// SIGUSR1; a rank that neither handles nor ignores the signal would die of it.
func (s *session) reportDeadRanks(m *wire.FailedRanks) {
	g := s.groups[m.Group]
	if g == nil {
		return
	}
	g.pmi.SetDeadRanks(m.Ranks)
	for _, r := range g.ranks {
		if r.alive() && proc.CatchesOrIgnores(r.child.PID, unix.SIGUSR1) {
			unix.Kill(r.child.PID, unix.SIGUSR1)
		}
	}
}

// outsideRankGroups are the processes that ranks have started and that are not in the process group of one: of what
// has lost its parent those alone that can be nobody else's. The helper inside mpiexec has children
// that are not the job's, and what may stay is none of our business.
func (s *session) outsideRankGroups() (strays []proc.Info) {
	roots, orphans := s.rankByPID(), s.sys.Guard == nil && !s.life.LeavesProcesses()
	s.visitDescendants(func(p proc.Info, of int) int {
		if root, is := roots[p.PID]; is {
			of = root
		}
		if _, together := roots[p.Group]; !together && (orphans || of != sysvipc.NoRank) {
			strays = append(strays, p)
		}
		return of
	})
	return strays
}
