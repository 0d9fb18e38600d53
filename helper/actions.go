//go:build linux

package helper

import (
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/claims"
	"remshell/helper/lifecycle"
	"remshell/wire"
)

// perform performs an action that the lifecycle has decided on. It passes actions for signals and for the end of a job
// to performEnd.
func (s *Session) perform(action any) {
	switch a := action.(type) {
	case lifecycle.Claim:
		m := a.Payload.(*wire.Prepare)
		s.claims.Claim(m, func(answer claims.ClaimResult) { s.PostEvent(claimedEvent{m, answer}) })
	case lifecycle.PrepareGroup:
		s.prepareGroup(a)
	case lifecycle.ReportRefused:
		s.reportRefused(a.Payload.(claimedEvent))
	case lifecycle.ForgetGroup:
		s.groups[a.Group].freeRendezvous()
		s.removePMIx(s.groups[a.Group])
		delete(s.groups, a.Group)
	case lifecycle.ForgetJob:
		s.Prepare, s.heldClaim = nil, nil
	case lifecycle.Fork:
		s.forkGroup(a)
	case lifecycle.Reap:
		go s.reapLoop()
	case lifecycle.LookForChildren:
		select {
		case s.moreChildren <- struct{}{}:
		default:
		}
	case lifecycle.ReportStarted:
		s.reportStarted(s.ranks[a.Rank])
	case lifecycle.DiscardOutput:
		for _, r := range s.ranks {
			r.discardOutput()
		}
	case lifecycle.DiscardRankOutput:
		s.ranks[a.Rank].discardOutput()
	case lifecycle.FailRequests:
		s.fences.Fail(s.endErr)
		s.requests.Fail()
		for _, fail := range s.Hooks.RequestsEnd {
			fail()
		}
	case lifecycle.NoteExit:
		s.handleExit(a)
	case lifecycle.CountOrphan:
		owner := s.countOrphan(a.ChildEnded)
		for _, reaped := range s.Hooks.OrphanReaped {
			reaped(a.ChildEnded, owner)
		}
	case lifecycle.ReportExit:
		s.reportExit(s.ranks[a.Rank], a.ToMpiexec)
	case lifecycle.EndGroup:
		s.endGroup(s.ranks[a.Rank].group)
	case lifecycle.GatherStacks:
		for _, gather := range s.Hooks.GatherStacks {
			gather()
		}
	default:
		s.performEnd(action)
	}
}

// performEnd performs one of those actions that concern signals or the end of a job.
func (s *Session) performEnd(action any) {
	switch a := action.(type) {
	case lifecycle.PassSignal:
		s.passSignal(s.ranks[a.Rank], unix.Signal(a.Number))
	case lifecycle.StopAll:
		s.stopRanks()
	case lifecycle.StopRank:
		unix.Kill(-s.ranks[a.Rank].Child.PID, unix.SIGSTOP)
	case lifecycle.ContinueAll:
		s.continueRanks()
	case lifecycle.StartEnding:
		s.startEnding()
	case lifecycle.TerminateAll:
		s.terminateAll()
	case lifecycle.KillAll:
		s.signalAll(unix.SIGKILL)
	case lifecycle.TerminateRank:
		unix.Kill(-s.ranks[a.Rank].Child.PID, unix.SIGTERM)
	case lifecycle.KillRank:
		unix.Kill(-s.ranks[a.Rank].Child.PID, unix.SIGKILL)
	case lifecycle.CancelGroup:
		s.cancelGroup(s.groups[a.Group])
	case lifecycle.SetTimer:
		s.setTimer(a.After)
	case lifecycle.UpdateGuard:
		s.updateGuard()
	case lifecycle.AwaitPipesClosed:
		s.awaitPipesClosed(a.Round)
	case lifecycle.ReportEmptied:
		s.conn.Send(&wire.ProcessesGone{})
	case lifecycle.ReportDrained:
		s.reportDrained()
	}
}

// setTimer makes the session receive the event TimerFired after a delay. A later call replaces the delay.
func (s *Session) setTimer(after time.Duration) {
	if s.endTimer == nil {
		s.endTimer = time.AfterFunc(after, func() { s.PostEvent(lifecycle.TimerFired{}) })
		return
	}
	s.endTimer.Reset(after)
}
