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
	Idle       Phase = iota
	InProgress       // one is under way
	Stopping         // one was written, or not, before the job is to be ended; there is no other
	Over             // the attempt ends
)

// CheckInterval is how often one looks whether a checkpoint is complete (SV-14).
const CheckInterval = time.Second

// What is told of a job and its checkpoints.
type (
	// JobRunning says that all ranks run. End is when the job has to end; zero: nobody knows.
	JobRunning struct{ End time.Time }
	// Tick says that State.Next has come.
	Tick struct{}
	// CheckpointWanted is somebody who wants one, perhaps since the job is to be stopped then.
	CheckpointWanted struct{ StopAfter bool }
	// Written says that the command ended with 0, or that the file is there.
	Written struct{}
	// CommandFailed says why the command has failed.
	CommandFailed struct{ Why string }
	// StopCancelled says that the job was to be stopped, and is not.
	StopCancelled struct{}
	// AttemptEnded says that the attempt ends.
	AttemptEnded struct{}
)

// What is to be done.
type (
	// RequestCheckpoint asks the ranks, or runs the command.
	RequestCheckpoint struct{}
	// CheckFile looks whether the file is there.
	CheckFile struct{}
	// ReportEvent is news for programs: asked, done, late, failed; after so long since it was asked for.
	ReportEvent struct {
		State string
		After time.Duration
	}
	// ReportLine is a line for the user.
	ReportLine struct{ Text string }
	// ReplyAll is for all who have asked: empty, or why there is none.
	ReplyAll struct{ Err string }
	// StopJob has the job stopped now, as somebody wanted it to be.
	StopJob struct{}
)

// An Event is one of the first structs above, an Action one of the others.
type (
	Event  any
	Action any
)

// A State is what is known of the checkpoints of one attempt. New makes one.
type State struct {
	Phase       Phase
	RequestedAt time.Time // when the one that is under way, or was last, was asked for; zero: none was

	policy        job.CheckpointPolicy
	stopAfter     bool      // somebody wants the job to be stopped behind the one that is under way
	hasRequesters bool      // somebody waits for it
	end           time.Time // of the job; zero: nobody knows
	timers        timers
}

// Timers are when Step wants a Tick; zero: never.
type timers struct {
	every     time.Time // --ckpt-every
	before    time.Time // --ckpt-before
	grace     time.Time // --ckpt-grace
	checkFile time.Time // whether the file is there
}

func (d *timers) all() []*time.Time { return []*time.Time{&d.every, &d.before, &d.grace, &d.checkFile} }

// New is the state of an attempt that has not begun.
func New(p job.CheckpointPolicy) State { return State{policy: p} }

// Next is when Step wants a Tick; the zero time: never.
func (s *State) Next() (next time.Time) {
	for _, t := range s.timers.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	return next
}

// Shift moves all timers: they do not run while the job is stopped. What comes before the end of the job goes by
// that, which may have moved or not; zero: nobody knows it.
func (s *State) Shift(by time.Duration, end time.Time) {
	for _, t := range s.timers.all() {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	if !end.IsZero() {
		s.end = end
	}
	if !s.timers.before.IsZero() && !end.IsZero() {
		s.timers.before = end.Add(-s.policy.BeforeEnd)
	}
}

// WhyUnsupported says why a job cannot be asked for a checkpoint, behind its name (T9); empty: it can.
func WhyUnsupported(p job.CheckpointPolicy) string {
	if !p.CanRequest() {
		return "cannot checkpoint: it was started without --ckpt-signal and --ckpt-cmd"
	}
	return ""
}

// Step is what comes of an event.
func (s *State) Step(event Event, now time.Time) []Action {
	if s.Phase == Over {
		if _, asks := event.(CheckpointWanted); asks {
			return []Action{ReplyAll{"the job ends"}}
		}
		return nil
	}
	switch e := event.(type) {
	case JobRunning:
		s.end = e.End
		s.startTimers(now)
	case StopCancelled:
		if s.Phase == Stopping {
			s.Phase, s.stopAfter = Idle, false
			s.startTimers(now)
		}
	case CheckpointWanted:
		return s.handleWanted(e, now)
	case Written:
		return s.finish("done", "", now)
	case CommandFailed:
		return s.finish("failed", e.Why, now)
	case AttemptEnded:
		return s.handleEnd()
	case Tick:
		return s.handleTick(now)
	}
	return nil
}

// startTimers sets the timers of a job that runs.
func (s *State) startTimers(now time.Time) {
	if s.policy.Every > 0 {
		s.timers.every = now.Add(s.policy.Every)
	}
	if at := s.end.Add(-s.policy.BeforeEnd); s.policy.BeforeEnd > 0 && at.After(now) {
		s.timers.before = at // else it is too late: who has just begun has nothing to save, and may not expect a signal yet
	}
}

// handleWanted is for somebody who asks: one at a time, whose result all share who ask meanwhile (SV-16).
func (s *State) handleWanted(e CheckpointWanted, now time.Time) []Action {
	if why := WhyUnsupported(s.policy); why != "" {
		return []Action{ReplyAll{why}}
	}
	if s.Phase == Stopping {
		return []Action{ReplyAll{"the job is being stopped"}}
	}
	s.stopAfter = s.stopAfter || e.StopAfter
	if s.Phase == InProgress && s.hasRequesters {
		return nil
	}
	if s.hasRequesters = true; s.Phase == InProgress && s.policy.CanVerify() {
		return nil
	}
	do := s.requestNow(now)
	if !s.policy.CanVerify() && !s.stopAfter {
		s.hasRequesters = false
		do = append(do, ReplyAll{})
	}
	return do
}

// requestNow asks for one.
func (s *State) requestNow(now time.Time) []Action {
	s.Phase, s.RequestedAt = InProgress, now
	s.timers.grace, s.timers.checkFile = now.Add(s.policy.Grace), time.Time{}
	if s.policy.DoneFile != "" {
		s.timers.checkFile = now.Add(CheckInterval)
	}
	return []Action{RequestCheckpoint{}, ReportEvent{State: "asked"}}
}

func (s *State) handleTick(now time.Time) (do []Action) {
	struck := func(t *time.Time) bool {
		hit := !t.IsZero() && !now.Before(*t)
		if hit {
			*t = time.Time{}
		}
		return hit
	}
	if struck(&s.timers.grace) && s.Phase == InProgress {
		do = s.handleTimeout(now)
	}
	if struck(&s.timers.checkFile) && s.Phase == InProgress {
		s.timers.checkFile = now.Add(CheckInterval)
		do = append(do, CheckFile{})
	}
	timer, before := struck(&s.timers.every), struck(&s.timers.before)
	if timer {
		s.timers.every = now.Add(s.policy.Every)
	}
	if (timer || before) && !s.stopAfter && (s.Phase == Idle || s.Phase == InProgress && !s.policy.CanVerify()) {
		do = append(do, s.requestNow(now)...)
	}
	return do
}

// handleTimeout is when the time is over that a checkpoint may take. Where nothing can tell of it, it was asked for, and
// that is all, unless the job is to be stopped only behind one.
func (s *State) handleTimeout(now time.Time) []Action {
	required := s.stopAfter && s.policy.Required
	if !s.policy.CanVerify() && !required {
		return s.afterCheckpoint(nil, "")
	}
	words := fmt.Sprintf("checkpoint not complete after %s; going on ", text.FormatDuration(s.policy.Grace)) + map[bool]string{true: "as before (--ckpt-required)", false: "without"}[required]
	return s.afterCheckpoint([]Action{ReportLine{words}, ReportEvent{"late", now.Sub(s.RequestedAt)}}, words)
}

// finish is the end of the one that is under way.
func (s *State) finish(state, why string, now time.Time) []Action {
	if s.Phase != InProgress {
		return nil
	}
	var do []Action
	if why != "" {
		do = append(do, ReportLine{why})
	}
	return s.afterCheckpoint(append(do, ReportEvent{state, now.Sub(s.RequestedAt)}), why)
}

// afterCheckpoint is where a checkpoint leads to, however it ended (SV-15): answers, and the stop that was to follow, if not only behind
// one that is complete.
func (s *State) afterCheckpoint(do []Action, why string) []Action {
	if s.hasRequesters {
		do = append(do, ReplyAll{why})
	}
	s.Phase, s.hasRequesters, s.timers.grace, s.timers.checkFile = Idle, false, time.Time{}, time.Time{}
	s.stopAfter = s.stopAfter && !(why != "" && s.policy.Required)
	if s.stopAfter {
		s.Phase, s.timers = Stopping, timers{}
		do = append(do, StopJob{})
	}
	return do
}

// handleEnd is the end of the attempt, which wins over all.
func (s *State) handleEnd() (do []Action) {
	if s.hasRequesters {
		do = append(do, ReplyAll{"the job ended before"})
	}
	s.Phase, s.hasRequesters, s.stopAfter, s.timers = Over, false, false, timers{}
	return do
}
