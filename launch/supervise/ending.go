package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/hostlist"
)

// endRanks orders all nodes to end their ranks. It does nothing if a stronger order (SIGKILL instead of SIGTERM)
// was already given, or the same order with the same or an earlier deadline.
func (s *State) endRanks(now time.Time, phase Phase, grace time.Duration) []Action {
	by := now.Add(grace)
	if s.Phase > phase || s.Phase == phase && !by.Before(s.killAt) {
		return s.checkFinished(now)
	}
	s.Phase, s.killAt = phase, by
	s.pending, s.deadlines = pendingCauses{}, deadlines{giveUp: by.Add(killPatience)}
	if s.RanksLeft == 0 && s.NodesLeft == 0 {
		return []Action{Finish{}}
	}
	return []Action{EndAll{0, grace}}
}

// checkFinished returns the actions that follow when all ranks have ended. Before that, it returns no actions.
func (s *State) checkFinished(now time.Time) []Action {
	if first := s.pending.checkpointed.cause; s.RanksLeft == 0 && first != nil {
		s.setCause(*first, now)
	}
	switch {
	case s.RanksLeft > 0:
		return nil
	case s.NodesLeft == 0:
		return []Action{Finish{}}
	case s.Phase < Lingering:
		s.Phase = Lingering
		s.pending, s.deadlines = pendingCauses{}, deadlines{giveUp: now.Add(linger + lingerGrace + killPatience)}
		return []Action{EndAll{linger, lingerGrace}}
	}
	return nil
}

// giveUpNodes ends supervision although processes of the job are left on some nodes. Nodes that only have
// unsent output are given more time, unless the job is being ended (rule IO-10).
func (s *State) giveUpNodes(time.Time) []Action {
	var names []string
	for _, n := range s.nodes {
		if !n.finished && !(n.noProcesses && s.Phase == Lingering) {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		s.deadlines.giveUp = time.Time{}
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s: mpiexec could not end all processes of the job in time", hostlist.Fold(names))
	return []Action{ReportLine{text}, Finish{}}
}
