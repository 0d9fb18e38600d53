//go:build linux

package helper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/sysvipc"
	"remshell/job"
	"remshell/proc"
)

/*
This file stops the ranks of a node and continues them (survive.md SV-28):

	Hold "suspend" ----.
	                    >--- any ---> SIGSTOP  the process group of each rank, then what has left these
	Hold "stopped" ----'--- none ---> SIGCONT  the same, in the other order

Package lifecycle keeps the holds, and removes them all when the job is ended.
*/

// stopRounds is how many times sendStop looks for running processes outside the ranks' process groups. It
// looks several times, because a process may fork before it is stopped.
const stopRounds = 3

// stopTimeout is the time after SIGSTOP at which the helper checks that all processes have stopped
// (survive.md SV-28).
const stopTimeout = time.Second

// A stopCounter counts how many times the ranks were stopped or continued. A check remembers the count; if the count
// has changed since, the check belongs to an earlier stop.
type stopCounter struct {
	stopCount    int
	turnReported bool // processes that cannot be stopped in turns were reported
}

// stopCheckDue is posted stopTimeout after a stop. If count differs from the session's count, the ranks were stopped or
// continued again meanwhile, and the event is ignored.
type stopCheckDue struct{ count int }

// stopRanks stops all ranks and the processes that they have started. After stopTimeout, reportNotStopped reports the
// processes that are still running.
func (s *Session) stopRanks() {
	s.stopCount++
	due := stopCheckDue{s.stopCount}
	time.AfterFunc(stopTimeout, func() { s.PostEvent(due) })
	s.sendStop()
}

// sendStop sends SIGSTOP to all running processes of the job.
func (s *Session) sendStop() {
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

// continueRanks continues all ranks and the processes that they have started. It looks twice for processes outside the
// ranks' process groups: a process that is about to stop may leave its group before the group is continued.
func (s *Session) continueRanks() {
	s.stopCount++
	continued := make(map[int]bool)
	continueOutside := func() {
		for _, p := range s.outsideRankGroups() {
			if !continued[p.PID] {
				continued[p.PID] = true
				unix.Kill(p.PID, unix.SIGCONT)
			}
		}
	}
	continueOutside()
	s.signalGroups(unix.SIGCONT)
	continueOutside()
}

// reportNotStopped warns about processes that cannot be stopped. It does nothing if the ranks were continued or stopped
// again after the stop to which the check due belongs.
func (s *Session) reportNotStopped(due stopCheckDue) {
	if due.count != s.stopCount || !s.Lifecycle.IsHeld() {
		return
	}
	s.sendStop() // for processes that were forked, or left their group, since
	var names []string
	count, roots := 0, s.RankByPID()
	s.visitDescendants(func(p proc.Info, rank int) int {
		if root, is := roots[p.PID]; is {
			rank = root
		}
		if why := unstoppable(p); why != "" && rank != sysvipc.NoRank {
			if count++; count <= maxNotStopped {
				names = append(names, fmt.Sprintf("process %d of rank %d %s", p.PID, rank, why))
			}
		}
		return rank
	})
	if more := count - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	inTurns := s.Lifecycle.HeldOnlyFor(job.HoldGang)
	if count > 0 && !(inTurns && s.turnReported) {
		s.turnReported = s.turnReported || inTurns
		s.log.warn("cannot stop processes of the job: %s", strings.Join(names, ", "))
	}
}

// maxNotStopped is the maximum number of processes that a warning names as impossible to stop.
const maxNotStopped = 4

// unstoppable returns the reason why a process cannot be stopped. It is empty if the process is stopped, or
// will stop as soon as it runs.
func unstoppable(p proc.Info) string {
	switch {
	case p.State == 'T' || p.State == 't' || p.State == 'Z' || p.State == 'X':
		return ""
	case errors.Is(unix.Kill(p.PID, 0), unix.EPERM):
		return "belongs to another user"
	case p.State == 'D':
		return "sleeps in the kernel (state D)"
	}
	return ""
}

// signalGroups sends a signal to the process group of each running rank.
func (s *Session) signalGroups(sig unix.Signal) {
	for _, r := range s.ranks {
		if r.alive() {
			unix.Kill(-r.Child.PID, sig)
		}
	}
}

// outsideRankGroups returns the processes of the job that are not in the process group of a rank. It leaves out orphans
// in two cases: if the helper runs inside mpiexec, which may have children that do not belong to the job, and if
// processes may outlive the job (ErrLeaveProcesses).
func (s *Session) outsideRankGroups() (outside []proc.Info) {
	roots, orphans := s.RankByPID(), s.sys.Guard == nil && !s.Lifecycle.LeavesProcesses()
	s.visitDescendants(func(p proc.Info, rank int) int {
		if root, is := roots[p.PID]; is {
			rank = root
		}
		if _, together := roots[p.Group]; !together && (orphans || rank != sysvipc.NoRank) {
			outside = append(outside, p)
		}
		return rank
	})
	return outside
}
