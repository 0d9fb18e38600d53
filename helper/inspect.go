//go:build linux

package helper

import (
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
