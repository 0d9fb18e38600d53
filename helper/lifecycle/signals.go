package lifecycle

import (
	"maps"
	"slices"

	"remshell/job"
)

// This file has the decisions about stopping, continuing and signaling ranks.

// setHold adds or removes a reason to keep the ranks stopped, and returns the actions to take. It does nothing once
// the job is being ended.
func (s *State) setHold(e Hold) []any {
	if s.ending != NotEnding || s.connection != Connected || !e.Why.IsKnown() {
		return nil
	}
	return s.changeHolds(func() {
		if e.On {
			s.holds[e.Why] = true
		} else {
			delete(s.holds, e.Why)
		}
	})
}

// HeldOnlyFor reports whether the given reason is the only one for which the ranks are stopped.
func (s *State) HeldOnlyFor(reason job.Hold) bool { return len(s.holds) == 1 && s.holds[reason] }

// IsHeld reports whether there is a reason to keep the ranks stopped.
func (s *State) IsHeld() bool { return len(s.holds) > 0 }

// clearHolds removes all reasons to keep the ranks stopped, and returns the actions to take.
func (s *State) clearHolds() []any { return s.changeHolds(func() { clear(s.holds) }) }

// changeHolds calls do, which changes the set of reasons to keep the ranks stopped, and returns the actions to take.
// If do adds the first reason, the ranks are stopped. If do removes the last reason, they continue.
func (s *State) changeHolds(do func()) []any {
	held := len(s.holds) > 0
	do()
	switch holds := len(s.holds) > 0; {
	case holds == held || !s.RankAlive():
		return nil
	case holds:
		return []any{StopAll{}}
	}
	return []any{ContinueAll{}}
}

// These are signal numbers that are the same on all machines on which a helper runs.
const (
	sigquit = 3
	sigcont = 18
)

// passSignal returns the actions that send a user's signal to all running ranks. While the ranks' stacks are being
// gathered, SIGQUIT is delayed, because it kills ranks that do not catch it. SIGCONT is ignored while there is a
// reason to keep the ranks stopped.
func (s *State) passSignal(number int) (do []any) {
	if number == sigcont && len(s.holds) > 0 {
		return nil
	}
	if s.stacks != notGathered && number == sigquit {
		s.stacks = quitPending
		return nil
	}
	if s.forking > 0 {
		s.missedSignals = append(s.missedSignals, number)
	}
	for _, i := range slices.Sorted(maps.Keys(s.ranks)) {
		if s.ranks[i].phase == running {
			do = append(do, PassSignal{i, number})
		}
	}
	return do
}

func (s *State) stacksReported() []any {
	quit := s.stacks == quitPending
	if s.stacks = notGathered; quit {
		return s.passSignal(sigquit)
	}
	return nil
}
