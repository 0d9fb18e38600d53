/*
Package hold knows why the ranks of a running job stand still. A reason is added and removed by
whoever has it: a user (--suspend), mpiexec itself (^Z). Ranks run only while there is no reason.

	            Add: the first reason
	ranks run -----------------------> ranks stand still --.
	   ^                                  |      ^         | Add, Remove: other reasons
	   |    Remove: the last reason, End  |      '---------'
	   '----------------------------------'

It meets the failure machine (package supervise) in three calls, which package launch passes on:

	hold --- Suspend, Resume ---> failure    in between no deadline passes
	hold <--------- End --------- failure    before ranks are told to end, they are continued (survive.md SV-31)

The reasons of package job have no meaning here, except for one: mpiexec itself may also be stopped
when its job ends. Package hold performs no I/O and reads no clock. doc/supervision.md has the table
of its actions.
*/
package hold

import (
	"maps"
	"slices"
	"time"

	"remshell/job"
)

// A State has the reasons why the ranks of one attempt stand still. The zero value has none.
type State struct {
	since     map[job.Hold]time.Time // by reason, when it was added
	heldSince time.Time              // when the ranks were stopped; unset while there is no reason
	ended     bool                   // End was called
}

// Actions.
type (
	// TellNodes adds a reason on all nodes (On), or removes it after HeldFor.
	TellNodes struct {
		Why     job.Hold
		On      bool
		HeldFor time.Duration
	}
	// Suspend says that the ranks stand still from now on.
	Suspend struct{}
	// Resume says that the ranks run again, after they have stood still for HeldFor.
	Resume struct{ HeldFor time.Duration }
)

// An Action is one of the action types above.
type Action any

// Add adds a reason. It does nothing if the reason is known, or if the job ends: only mpiexec itself
// may still be stopped then.
func (s *State) Add(why job.Hold, now time.Time) []Action {
	if s.Has(why) || s.ended && why != job.HoldLauncherStopped {
		return nil
	}
	if s.since == nil {
		s.since = make(map[job.Hold]time.Time)
	}
	actions := []Action{TellNodes{Why: why, On: true}}
	if len(s.since) == 0 {
		s.heldSince = now
		actions = append(actions, Suspend{})
	}
	s.since[why] = now
	return actions
}

// Remove removes a reason. It does nothing if there is no such reason.
func (s *State) Remove(why job.Hold, now time.Time) []Action {
	if !s.Has(why) {
		return nil
	}
	actions := []Action{TellNodes{Why: why, HeldFor: s.HeldFor(why, now)}}
	if delete(s.since, why); len(s.since) == 0 {
		actions = append(actions, Resume{now.Sub(s.heldSince)})
	}
	return actions
}

// End removes all reasons, because the job ends. It does nothing if there are none.
func (s *State) End(now time.Time) (actions []Action) {
	s.ended = true
	for _, why := range s.Reasons() {
		actions = append(actions, s.Remove(why, now)...)
	}
	return actions
}

// Has reports whether a reason was added and not removed.
func (s *State) Has(why job.Hold) bool {
	_, has := s.since[why]
	return has
}

// HeldFor returns how long there has been a reason. It is zero if there is no such reason.
func (s *State) HeldFor(why job.Hold, now time.Time) time.Duration {
	if !s.Has(why) {
		return 0
	}
	return now.Sub(s.since[why])
}

// Reasons returns the reasons, sorted. A node that joins the job has to know them before it starts
// ranks.
func (s *State) Reasons() []job.Hold { return slices.Sorted(maps.Keys(s.since)) }
