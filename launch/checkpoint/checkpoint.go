/*
Package checkpoint decides when a job is asked to write a checkpoint, and when that is complete
(survive.md 4). mpiexec asks, waits and counts; what a checkpoint is, only the program knows.

	        timer, --ckpt-before, ask
	Idle ----------------------------> Asked ---- the job fails, or is over ----> Over
	  ^                                  |  |
	  '--- done, late, failed -----------'  '--- the same, before a stop ---> Stopping

It performs nothing, asks nobody and looks at no clock: doc/supervision.md has its table.
*/
package checkpoint

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// A Phase is where a job stands with its checkpoints.
type Phase int

// The phases.
const (
	Idle     Phase = iota
	Asked          // one is under way
	Stopping       // one was written, or not, before the job is to be ended; there is no other
	Over           // the attempt ends
)

// Every is how often one looks whether a checkpoint is complete (SV-14).
const Every = time.Second

// What is told of a job and its checkpoints.
type (
	// Began says that all ranks run. End is when the job has to end; zero: nobody knows.
	Began struct{ End time.Time }
	// Tick says that State.Next has come.
	Tick struct{}
	// Ask is somebody who wants one, perhaps since the job is to be stopped then.
	Ask struct{ Stop bool }
	// Fulfilled says that the command ended with 0, or that the file is there.
	Fulfilled struct{}
	// Failed says why the command has failed.
	Failed struct{ Why string }
	// Stays says that the job was to be stopped, and is not.
	Stays struct{}
	// Ended says that the attempt ends.
	Ended struct{}
)

// What is to be done.
type (
	// Request asks the ranks, or runs the command.
	Request struct{}
	// Look looks whether the file is there.
	Look struct{}
	// Tell is news for programs: asked, done, late, failed; after so long since it was asked for.
	Tell struct {
		State string
		After time.Duration
	}
	// Say is a line for the user.
	Say struct{ Text string }
	// Answer is for all who have asked: empty, or why there is none.
	Answer struct{ Err string }
	// Stop has the job stopped now, as somebody wanted it to be.
	Stop struct{}
)

// An Event is one of the first structs above, an Action one of the others.
type (
	Event  any
	Action any
)

// A State is what is known of the checkpoints of one attempt. New makes one.
type State struct {
	Phase Phase
	Since time.Time // when the one that is under way, or was last, was asked for; zero: none was

	policy job.Checkpoint
	stops  bool      // somebody wants the job to be stopped behind the one that is under way
	asked  bool      // somebody waits for it
	end    time.Time // of the job; zero: nobody knows
	due    timers
}

// Timers are when Step wants a Tick; zero: never.
type timers struct {
	every  time.Time // --ckpt-every
	before time.Time // --ckpt-before
	grace  time.Time // --ckpt-grace
	look   time.Time // whether the file is there
}

func (d *timers) all() []*time.Time { return []*time.Time{&d.every, &d.before, &d.grace, &d.look} }

// New is the state of an attempt that has not begun.
func New(p job.Checkpoint) State { return State{policy: p} }

// Next is when Step wants a Tick; the zero time: never.
func (s *State) Next() (next time.Time) {
	for _, t := range s.due.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	return next
}

// Shift moves all timers: they do not run while the job is stopped. What comes before the end of the job goes by
// that, which may have moved or not; zero: nobody knows it.
func (s *State) Shift(by time.Duration, end time.Time) {
	for _, t := range s.due.all() {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	if !end.IsZero() {
		s.end = end
	}
	if !s.due.before.IsZero() && !end.IsZero() {
		s.due.before = end.Add(-s.policy.Before)
	}
}

// Refusal says why a job cannot be asked for a checkpoint, behind its name (T9); empty: it can.
func Refusal(p job.Checkpoint) string {
	if !p.Asks() {
		return "cannot checkpoint: it was started without --ckpt-signal and --ckpt-cmd"
	}
	return ""
}

// Step is what comes of an event.
func (s *State) Step(event Event, now time.Time) []Action {
	if s.Phase == Over {
		if _, asks := event.(Ask); asks {
			return []Action{Answer{"the job ends"}}
		}
		return nil
	}
	switch e := event.(type) {
	case Began:
		s.end = e.End
		s.begin(now)
	case Stays:
		if s.Phase == Stopping {
			s.Phase, s.stops = Idle, false
			s.begin(now)
		}
	case Ask:
		return s.wanted(e, now)
	case Fulfilled:
		return s.complete("done", "", now)
	case Failed:
		return s.complete("failed", e.Why, now)
	case Ended:
		return s.ended()
	case Tick:
		return s.tick(now)
	}
	return nil
}

// begin sets the timers of a job that runs.
func (s *State) begin(now time.Time) {
	if s.policy.Every > 0 {
		s.due.every = now.Add(s.policy.Every)
	}
	if at := s.end.Add(-s.policy.Before); s.policy.Before > 0 && at.After(now) {
		s.due.before = at // else it is too late: who has just begun has nothing to save, and may not expect a signal yet
	}
}

// wanted is for somebody who asks: one at a time, whose result all share who ask meanwhile (SV-16).
func (s *State) wanted(e Ask, now time.Time) []Action {
	if why := Refusal(s.policy); why != "" {
		return []Action{Answer{why}}
	}
	if s.Phase == Stopping {
		return []Action{Answer{"the job is being stopped"}}
	}
	s.stops = s.stops || e.Stop
	if s.Phase == Asked && s.asked {
		return nil
	}
	if s.asked = true; s.Phase == Asked && s.policy.Judged() {
		return nil
	}
	do := s.request(now)
	if !s.policy.Judged() && !s.stops {
		s.asked = false
		do = append(do, Answer{})
	}
	return do
}

// request asks for one.
func (s *State) request(now time.Time) []Action {
	s.Phase, s.Since = Asked, now
	s.due.grace, s.due.look = now.Add(s.policy.Grace), time.Time{}
	if s.policy.Done != "" {
		s.due.look = now.Add(Every)
	}
	return []Action{Request{}, Tell{State: "asked"}}
}

func (s *State) tick(now time.Time) (do []Action) {
	struck := func(t *time.Time) bool {
		hit := !t.IsZero() && !now.Before(*t)
		if hit {
			*t = time.Time{}
		}
		return hit
	}
	if struck(&s.due.grace) && s.Phase == Asked {
		do = s.late(now)
	}
	if struck(&s.due.look) && s.Phase == Asked {
		s.due.look = now.Add(Every)
		do = append(do, Look{})
	}
	timer, before := struck(&s.due.every), struck(&s.due.before)
	if timer {
		s.due.every = now.Add(s.policy.Every)
	}
	if (timer || before) && !s.stops && (s.Phase == Idle || s.Phase == Asked && !s.policy.Judged()) {
		do = append(do, s.request(now)...)
	}
	return do
}

// late is when the time is over that a checkpoint may take. Where nothing can tell of it, it was asked for, and
// that is all, unless the job is to be stopped only behind one.
func (s *State) late(now time.Time) []Action {
	required := s.stops && s.policy.Required
	if !s.policy.Judged() && !required {
		return s.over(nil, "")
	}
	words := fmt.Sprintf("checkpoint not complete after %s; going on ", text.Span(s.policy.Grace)) + map[bool]string{true: "as before (--ckpt-required)", false: "without"}[required]
	return s.over([]Action{Say{words}, Tell{"late", now.Sub(s.Since)}}, words)
}

// complete is the end of the one that is under way.
func (s *State) complete(state, why string, now time.Time) []Action {
	if s.Phase != Asked {
		return nil
	}
	var do []Action
	if why != "" {
		do = append(do, Say{why})
	}
	return s.over(append(do, Tell{state, now.Sub(s.Since)}), why)
}

// over is where a checkpoint leads to, however it ended (SV-15): answers, and the stop that was to follow, if not only behind
// one that is complete.
func (s *State) over(do []Action, why string) []Action {
	if s.asked {
		do = append(do, Answer{why})
	}
	s.Phase, s.asked, s.due.grace, s.due.look = Idle, false, time.Time{}, time.Time{}
	s.stops = s.stops && !(why != "" && s.policy.Required)
	if s.stops {
		s.Phase, s.due = Stopping, timers{}
		do = append(do, Stop{})
	}
	return do
}

// ended is the end of the attempt, which wins over all.
func (s *State) ended() (do []Action) {
	if s.asked {
		do = append(do, Answer{"the job ended before"})
	}
	s.Phase, s.asked, s.stops, s.due = Over, false, false, timers{}
	return do
}
