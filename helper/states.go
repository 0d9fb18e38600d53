//go:build linux

package helper

import (
	"remshell/helper/status"
	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// inspect tells what each rank is doing (DIAG-12).
func (s *session) inspect() { s.conn.Send(&wire.States{Ranks: s.states()}) }

func (s *session) states() (all []job.RankState) {
	tree := proc.LookAround()
	for _, r := range s.ranks {
		state := job.RankState{Rank: r.number, Life: "starting", PMI: job.PMIState(r.pmiState.Load())}
		switch look, there := proc.LookAt(r.begun.PID); {
		case r.exit != nil:
			state.Life, state.CPU = "over", r.exit.Usage.User+r.exit.Usage.System
		case r.begun.PID != 0 && there:
			worker := tree.Worker(r.begun.PID)
			state.Life, state.CPU = "running", look.CPU+tree.CPU(r.begun.PID)
			state.Barrier = r.group.pmi.Barrier(r.plan.Rank)
			state.Sleep = proc.Sleep(worker)
			if look, there := proc.LookAt(worker); there {
				state.Kind = string(look.State)
			}
		}
		all = append(all, state)
	}
	return all
}

// dump gathers states and stacks; what is told then, stacksDone brings.
func (s *session) dump() {
	states, pids := s.states(), make([]int, len(s.ranks))
	for i, r := range s.ranks {
		if r.alive() {
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
