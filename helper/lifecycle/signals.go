package lifecycle

import (
	"maps"
	"slices"
)

// This file is about what stops ranks, lets them go on, and is told them.

// setHold takes a reason to stand still, or takes it back. What is to end does not stand still any more.
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

// clearHolds takes all reasons back.
func (s *State) clearHolds() []any { return s.changeHolds(func() { clear(s.holds) }) }

// changeHolds changes the reasons to stand still, and stops the ranks with the first, and continues them with the last.
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

// Signals that have these numbers on every machine on which we run.
const (
	sigquit = 3
	sigcont = 18
)

// passSignal passes on a signal; SIGQUIT waits for stacks, since it kills who does not catch it, and SIGCONT
// lets nobody go on who is held.
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
