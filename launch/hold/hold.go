/*
Package hold keeps the reasons why the ranks of a running job are stopped (SIGSTOP). A user adds a reason with
--suspend and removes it with --resume-job. mpiexec itself adds a reason when it is stopped with ^Z. Ranks run only
while there is no reason.

	            Add: the first reason
	ranks run -----------------------> ranks are stopped --.
	   ^                                  |      ^         | Add, Remove: other reasons
	   |    Remove: the last reason, End  |      '---------'
	   '----------------------------------'

Package launch connects this package with package supervise:

	hold --- Suspend, Resume ---> supervise    while the ranks are stopped, supervise's deadlines are postponed
	hold <--------- End --------- supervise    stopped ranks are continued before they are told to end (SV-31)

Package hold treats only one reason differently from all others: mpiexec itself may be stopped even when its job is
ending. Package hold performs no I/O and reads no clock. doc/supervision.md has the table of its actions.
*/
package hold

import (
	"maps"
	"slices"
	"time"

	"remshell/job"
)

// A State is the set of reasons why the ranks of one attempt (one run of all ranks) are stopped. The zero value
// contains no reason.
type State struct {
	since     map[job.Hold]time.Time // by reason, when it was added
	heldSince time.Time              // when the ranks were stopped; unset while there is no reason
	ended     bool                   // End was called
	stopped   time.Duration          // how long the ranks were stopped until they last ran again
	stops     int                    // how often they were stopped
}

// These are the actions that Add, Remove and End return. The caller carries them out.
type (
	// TellNodes is the action of telling all nodes that a reason to stop ranks was added (On is true) or removed (On is
	// false). For a removed reason, HeldFor is how long it lasted.
	TellNodes struct {
		Why     job.Hold
		On      bool
		HeldFor time.Duration
	}
	// Suspend is the action of telling package supervise that the ranks are stopped from now on.
	Suspend struct{}
	// Resume is the action of telling package supervise and the features that the ranks run again, after they were
	// stopped for HeldFor.
	Resume struct{ HeldFor time.Duration }
)

// An Action is a TellNodes, a Suspend or a Resume.
type Action any

// Add adds a reason to stop the ranks. It does nothing if the set already contains the reason. While the job is ending,
// it ignores all reasons except mpiexec's own.
func (s *State) Add(reason job.Hold, now time.Time) []Action {
	if s.Has(reason) || s.ended && reason != job.HoldLauncherStopped {
		return nil
	}
	if s.since == nil {
		s.since = make(map[job.Hold]time.Time)
	}
	actions := []Action{TellNodes{Why: reason, On: true}}
	if len(s.since) == 0 {
		s.heldSince = now
		s.stops++
		actions = append(actions, Suspend{})
	}
	s.since[reason] = now
	return actions
}

// Remove removes a reason to stop the ranks. It does nothing if there is no such reason.
func (s *State) Remove(reason job.Hold, now time.Time) []Action {
	if !s.Has(reason) {
		return nil
	}
	actions := []Action{TellNodes{Why: reason, HeldFor: s.HeldFor(reason, now)}}
	if delete(s.since, reason); len(s.since) == 0 {
		actions = append(actions, Resume{now.Sub(s.heldSince)})
		s.stopped += now.Sub(s.heldSince)
	}
	return actions
}

// End removes all reasons to stop the ranks, because the job is ending.
func (s *State) End(now time.Time) (actions []Action) {
	s.ended = true
	for _, why := range s.Reasons() {
		actions = append(actions, s.Remove(why, now)...)
	}
	return actions
}

// Has reports whether reason is one of the reasons for which the ranks are stopped.
func (s *State) Has(reason job.Hold) bool {
	_, has := s.since[reason]
	return has
}

// IsHeld reports whether there is any reason to stop the ranks. If there is one, the ranks are stopped.
func (s *State) IsHeld() bool { return len(s.since) > 0 }

// HeldFor returns how long ago reason was added. It returns 0 if the ranks are not stopped for this reason.
func (s *State) HeldFor(reason job.Hold, now time.Time) time.Duration {
	if !s.Has(reason) {
		return 0
	}
	return now.Sub(s.since[reason])
}

// Stopped returns how long the ranks have been stopped in total, for any reason, and how often.
func (s *State) Stopped(now time.Time) (total time.Duration, times int) {
	if total = s.stopped; s.IsHeld() {
		total += now.Sub(s.heldSince)
	}
	return total, s.stops
}

// Reasons returns all reasons to stop the ranks, sorted. A node that joins the job receives them before its ranks
// start.
func (s *State) Reasons() []job.Hold { return slices.Sorted(maps.Keys(s.since)) }
