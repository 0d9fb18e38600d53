//go:build linux

package helper

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/claims"
	"remshell/helper/lifecycle"
	"remshell/helper/status"
	"remshell/job"
	"remshell/pmiserver/pmix"
	"remshell/proc"
	"remshell/wire"
)

// perform performs an action of the lifecycle. performEnd has the actions for signals and for the end.
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
		s.gatherStacks()
	default:
		s.performEnd(action)
	}
}

// performEnd performs the actions for signals and for the end of a job.
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

// setTimer posts TimerFired after a delay. It replaces an earlier delay.
func (s *Session) setTimer(after time.Duration) {
	if s.endTimer == nil {
		s.endTimer = time.AfterFunc(after, func() { s.PostEvent(lifecycle.TimerFired{}) })
		return
	}
	s.endTimer.Reset(after)
}

// reportStates sends mpiexec the state of each rank (DIAG-12).
func (s *Session) reportStates() { s.conn.Send(&wire.RankStates{Ranks: s.rankStates()}) }

// rankStates returns the states of all ranks that were started here, by rank.
func (s *Session) rankStates() []job.RankState {
	all, tree := slices.Clone(s.endedStates), proc.ReadTree()
	var waiting map[pmix.WaitingRank]string
	if s.pmix != nil {
		waiting = s.pmix.server.WaitingRanks()
	}
	for _, r := range s.ranks {
		state := r.state(tree)
		state.WaitsFor = waiting[pmix.WaitingRank{Group: r.group.Prepare.Group.Name, Rank: r.Plan.Rank}]
		if state.WaitsFor == "" && !state.HasConnected() && r.speaksPMI() {
			state.WaitsFor = job.NotConnected
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b job.RankState) int { return a.Rank - b.Rank })
	return all
}

// gatherStacks collects states and stacks on a goroutine, and posts them as stacksDone.
func (s *Session) gatherStacks() {
	states := s.rankStates()
	pids := make([]int, len(states))
	for i, state := range states {
		if r := s.byRank[state.Rank]; r != nil && r.alive() {
			pids[i] = r.Child.PID
		}
	}
	go func() {
		for i, text := range status.Stacks(pids, wire.StackDumpTime, s.sys.Environ, s.nonJob.addPID) {
			states[i].Stack = text
		}
		s.PostEvent(stacksDone{states})
	}()
}

// openStatusSocket opens the socket that serves rank states to other commands. It also starts to receive requests to
// the job that arrive by the ledger. It does nothing if no rank runs any more.
func (s *Session) openStatusSocket() {
	if s.Lifecycle.IsDisconnected() || !s.Lifecycle.RankAlive() {
		return
	}
	s.claims.ReceiveRequests(s.Prepare.Claim.Ledger, s.Prepare.Job)
	s.socket.Open(s.Prepare.Job, func() (states []job.RankState, ok bool) {
		answer := make(chan []job.RankState, 1)
		s.PostEvent(statesWanted{answer})
		select {
		case states := <-answer:
			return states, true
		case <-s.done:
			return nil, false
		}
	})
}
