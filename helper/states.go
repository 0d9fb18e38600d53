//go:build linux

package helper

import (
	"slices"

	"remshell/helper/status"
	"remshell/job"
	"remshell/pmiserver/pmix"
	"remshell/proc"
	"remshell/wire"
)

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

// openSocket opens the socket at which others ask for the states, if any rank still runs.
func (s *session) openSocket() {
	if s.life.Over() || !s.life.Alive() {
		return
	}
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
