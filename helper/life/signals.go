package life

import (
	"maps"
	"slices"
)

// This file is about what stops ranks, lets them go on, and is told them.

// hold takes a reason to stand still, or takes it back. What is to end does not stand still any more.
func (s *State) hold(e Hold) []any {
	if s.ending != Unasked || s.talk != Open || !e.Why.Known() {
		return nil
	}
	return s.change(func() {
		if e.On {
			s.holds[e.Why] = true
		} else {
			delete(s.holds, e.Why)
		}
	})
}

// lift takes all reasons back.
func (s *State) lift() []any { return s.change(func() { clear(s.holds) }) }

// change changes the reasons to stand still, and stops the ranks with the first, and continues them with the last.
func (s *State) change(do func()) []any {
	held := len(s.holds) > 0
	do()
	switch holds := len(s.holds) > 0; {
	case holds == held || !s.Alive():
		return nil
	case holds:
		return []any{Stop{}}
	}
	return []any{Continue{}}
}

// Signals that have these numbers on every machine on which we run.
const (
	sigquit = 3
	sigcont = 18
)

// signal passes on a signal; SIGQUIT waits for stacks, since it kills who does not catch it, and SIGCONT
// lets nobody go on who is held.
func (s *State) signal(number int) (do []any) {
	if number == sigcont && len(s.holds) > 0 {
		return nil
	}
	if s.stacks != notGathered && number == sigquit {
		s.stacks = quitWaits
		return nil
	}
	if s.forking > 0 {
		s.missed = append(s.missed, number)
	}
	for _, i := range slices.Sorted(maps.Keys(s.ranks)) {
		if s.ranks[i].phase == running {
			do = append(do, PassSignal{i, number})
		}
	}
	return do
}

func (s *State) dumped() []any {
	quit := s.stacks == quitWaits
	if s.stacks = notGathered; quit {
		return s.signal(sigquit)
	}
	return nil
}
