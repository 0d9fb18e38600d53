//go:build linux

package helper

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/claims"
	"remshell/helper/ipc"
	"remshell/helper/life"
	"remshell/helper/status"
	"remshell/job"
	"remshell/pmiserver/pmix"
	"remshell/proc"
	"remshell/wire"
)

// perform does what the helper's life asks for.
func (s *session) perform(action any) {
	switch a := action.(type) {
	case life.Claim:
		m := a.Needs.(*wire.Prepare)
		s.claims.Claim(m, func(answer claims.Answer) { s.tell(claimedEvent{m, answer}) })
	case life.Accept:
		s.accept(a)
	case life.Refuse:
		s.refuse(a.Answer.(claimedEvent))
	case life.Forget:
		s.groups[a.Group].freeRendezvous()
		s.removePMIx(s.groups[a.Group])
		delete(s.groups, a.Group)
	case life.ForgetJob:
		s.prepare, s.held = nil, nil
	case life.Fork:
		s.fork(a)
	case life.Reap:
		go s.reap()
	case life.LookForChildren:
		select {
		case s.moreChildren <- struct{}{}:
		default:
		}
	case life.Announce:
		s.announce(s.ranks[a.Rank])
	case life.HangUp:
		for _, r := range s.ranks {
			r.forget()
		}
	case life.HangUpRank:
		s.ranks[a.Rank].forget()
	case life.CloseLink:
		s.fences.Fail(s.fault)
		s.fetches.Fail()
		s.notices.Fail()
		s.texts.Fail()
		s.asked.Fail(s.fault)
	case life.Note:
		s.note(a)
	case life.Bury:
		owner := s.owners.bury(a.Reaped, s.byRank, s.book)
		s.left.Ended(ipc.Process{PID: a.PID, Rank: owner, Began: a.Began}, a.At)
	case life.Report:
		s.report(s.ranks[a.Rank], a.Tell)
	case life.EndGroup:
		s.endGroup(s.ranks[a.Rank].group)
	case life.Gather:
		s.dump()
	default:
		s.performEnd(action)
	}
}

// performEnd does what is about signals and the end.
func (s *session) performEnd(action any) {
	switch a := action.(type) {
	case life.PassSignal:
		s.pass(s.ranks[a.Rank], unix.Signal(a.Number))
	case life.Stop:
		s.stop()
	case life.StopRank:
		unix.Kill(-s.ranks[a.Rank].begun.PID, unix.SIGSTOP)
	case life.Continue:
		s.goOn()
	case life.Hurry:
		s.hurryUp()
	case life.Ask:
		s.ask()
	case life.Kill:
		s.strike(unix.SIGKILL)
	case life.AskRank:
		unix.Kill(-s.ranks[a.Rank].begun.PID, unix.SIGTERM)
	case life.KillRank:
		unix.Kill(-s.ranks[a.Rank].begun.PID, unix.SIGKILL)
	case life.PruneGroup:
		s.prune(s.groups[a.Group])
	case life.Wake:
		s.wake(a.After)
	case life.DismissGuard:
		s.mindGuard()
	case life.AwaitSilence:
		s.awaitSilence(a.Noise)
	case life.TellEmptied:
		s.conn.Send(&wire.Emptied{})
	case life.TellDrained:
		s.tellDrained()
	}
}

// wake gives life a Tick after a time.
func (s *session) wake(after time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(after, func() { s.tell(life.Tick{}) })
		return
	}
	s.timer.Reset(after)
}

// inspect tells what each rank is doing (DIAG-12).
func (s *session) inspect() { s.conn.Send(&wire.States{Ranks: s.states()}) }

// states are those of all ranks that were started here, in their order.
func (s *session) states() []job.RankState {
	all, around := slices.Clone(s.silent), proc.LookAround()
	var waiting map[pmix.Waiter]string
	if s.pmix != nil {
		waiting = s.pmix.server.Waiting()
	}
	for _, r := range s.ranks {
		state := r.state(around)
		state.Waits = waiting[pmix.Waiter{Group: r.group.prepare.Group.Name, Rank: r.plan.Rank}]
		if state.Waits == "" && !state.Connected() && r.speaks() {
			state.Waits = job.Unconnected
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b job.RankState) int { return a.Rank - b.Rank })
	return all
}

// dump gathers states and stacks; what is told then, stacksDone brings.
func (s *session) dump() {
	states := s.states()
	pids := make([]int, len(states))
	for i, state := range states {
		if r := s.byRank[state.Rank]; r != nil && r.alive() {
			pids[i] = r.begun.PID
		}
	}
	go func() {
		for i, text := range status.Stacks(pids, wire.StacksTime, s.sys.Environ, s.foreign.add) {
			states[i].Stack = text
		}
		s.tell(stacksDone{states})
	}()
}

// openSocket opens the socket at which others ask for the states, and the job's ear for what they
// ask by the ledger, if any rank still runs.
func (s *session) openSocket() {
	if s.life.Over() || !s.life.Alive() {
		return
	}
	s.claims.Hear(s.prepare.Claim.Ledger, s.prepare.Job)
	s.socket.Open(s.prepare.Job, func() (states []job.RankState, here bool) {
		answer := make(chan []job.RankState, 1)
		s.tell(statesWanted{answer})
		select {
		case states := <-answer:
			return states, true
		case <-s.done:
			return nil, false
		}
	})
}
