/*
Package machine decides when a job is asked to write a checkpoint, and when the checkpoint is complete (survive.md 4).
Only the program knows what its checkpoint contains.

	        timer, --ckpt-before, request
	Idle ----------------------------> InProgress -- the job fails, or is over -> Over
	  ^                                  |  |
	  '--- done, late, failed -----------'  '--- the same, before a stop ---> Stopping

The package performs no I/O and reads no clock. testdata/table.md contains the table of its actions.
*/
package machine

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// A Phase says how far the current checkpoint of an attempt (one run of all ranks) has progressed.
type Phase int

// These are the phases of a checkpoint.
const (
	Idle       Phase = iota
	InProgress       // a checkpoint was requested
	Stopping         // a checkpoint was tried, and the ranks of the job are being stopped after it; no further one is requested
	Over             // the attempt ends
)

// CheckInterval is the interval at which mpiexec checks whether the checkpoint's file exists (rule SV-14).
const CheckInterval = time.Second

// These are the events that Step handles.
type (
	// JobRunning is the event that all ranks are running. End is the time at which the job must end, or the zero time
	// if it is unknown.
	JobRunning struct{ End time.Time }
	// Tick is the event that the time returned by State.Next has come.
	Tick struct{}
	// CheckpointWanted is the event that a user or a timer requests a checkpoint. If StopAfter is true, the
	// job is stopped after the checkpoint.
	CheckpointWanted struct{ StopAfter bool }
	// Written is the event that the checkpoint is complete, because the command has exited with 0, the file
	// exists, or all ranks have exited.
	Written struct{}
	// CommandFailed is the event that the checkpoint command has failed. Why is the reason.
	CommandFailed struct{ Why string }
	// StopCancelled is the event that the job will not be stopped after the checkpoint, although that was
	// requested.
	StopCancelled struct{}
	// AttemptEnded is the event that the attempt (one run of all ranks) ends.
	AttemptEnded struct{}
)

// These are the actions that Step returns.
type (
	// RequestCheckpoint is the action to request a checkpoint, by a signal to the ranks or by running the
	// command.
	RequestCheckpoint struct{}
	// CheckFile is the action to check whether the checkpoint's file exists.
	CheckFile struct{}
	// ReportEvent is the action to report an event in --json. State is asked, done, late or failed. After is
	// the time since the request.
	ReportEvent struct {
		State string
		After time.Duration
	}
	// ReportLine is the action to report a line to the user.
	ReportLine struct{ Text string }
	// ReplyAll is the action to reply to all requesters. Err is empty, or says why there is no checkpoint.
	ReplyAll struct{ Err string }
	// StopJob is the action to stop the job, as a requester has asked.
	StopJob struct{}
)

// An Event is one of the event types above. An Action is one of the action types above.
type (
	Event  any
	Action any
)

// A State is the state of the checkpoints of one attempt (one run of all ranks of a job). Use New to make
// one.
type State struct {
	Phase       Phase
	RequestedAt time.Time // time of the last request; zero: there was none

	policy        job.CheckpointPolicy
	stopAfter     bool      // the job is stopped after the checkpoint in progress
	hasRequesters bool      // a requester waits for the checkpoint
	end           time.Time // when the job has to end; zero: unknown
	timers        timers
}

// timers holds the times at which Step must handle a Tick. A zero time means never.
type timers struct {
	every     time.Time // --ckpt-every
	before    time.Time // --ckpt-before
	grace     time.Time // --ckpt-grace
	checkFile time.Time // next check of the file
}

func (d *timers) all() []*time.Time { return []*time.Time{&d.every, &d.before, &d.grace, &d.checkFile} }

// New returns the initial State for an attempt (one run of all ranks of a job).
func New(p job.CheckpointPolicy) State { return State{policy: p} }

// Next returns the time at which the caller must pass a Tick to Step. The zero time means never.
func (s *State) Next() (next time.Time) {
	for _, t := range s.timers.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	return next
}

// Shift moves all timers by the time for which the job was stopped. end is the new time at which the job must end, or
// the zero time if this is unknown. If end is known, a --ckpt-before timer that is running is set again, relative to
// end.
func (s *State) Shift(stopped time.Duration, end time.Time) {
	for _, t := range s.timers.all() {
		if !t.IsZero() {
			*t = t.Add(stopped)
		}
	}
	if !end.IsZero() {
		s.end = end
	}
	if !s.timers.before.IsZero() && !end.IsZero() {
		s.timers.before = end.Add(-s.policy.BeforeEnd)
	}
}

// WhyUnsupported returns why a job cannot write checkpoints on request, or "" if it can.
func WhyUnsupported(p job.CheckpointPolicy) string {
	if !p.CanRequest() {
		return "the job cannot write checkpoints: " + job.StartedWithoutText + " --ckpt-signal and --ckpt-cmd"
	}
	return ""
}

// Step handles one event, and returns the actions to perform.
func (s *State) Step(event Event, now time.Time) []Action {
	if s.Phase == Over {
		if _, wanted := event.(CheckpointWanted); wanted {
			return []Action{ReplyAll{"the job is already ending"}}
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

// startTimers sets the timers of --ckpt-every and --ckpt-before. It is called when all ranks are running, and again
// if the job continues although a stop was requested.
func (s *State) startTimers(now time.Time) {
	if s.policy.Every > 0 {
		s.timers.every = now.Add(s.policy.Every)
	}
	if at := s.end.Add(-s.policy.BeforeEnd); s.policy.BeforeEnd > 0 && at.After(now) {
		s.timers.before = at // otherwise it is too late: a job that has just begun has nothing to save, and may not handle the signal yet
	}
}

// handleWanted handles a request for a checkpoint, and returns the actions for it. There is one checkpoint at a time.
// If mpiexec can find out when a checkpoint is complete, all requests made while it is in progress share its result
// (rule SV-16).
func (s *State) handleWanted(e CheckpointWanted, now time.Time) []Action {
	if why := WhyUnsupported(s.policy); why != "" {
		return []Action{ReplyAll{why}}
	}
	if s.Phase == Stopping {
		return []Action{ReplyAll{"the ranks of the job are being stopped"}}
	}
	s.stopAfter = s.stopAfter || e.StopAfter
	if s.Phase == InProgress && s.hasRequesters {
		return nil
	}
	if s.hasRequesters = true; s.Phase == InProgress && s.policy.CanVerify() {
		return nil
	}
	actions := s.requestNow(now)
	if !s.policy.CanVerify() && !s.stopAfter {
		s.hasRequesters = false
		actions = append(actions, ReplyAll{})
	}
	return actions
}

// requestNow begins a checkpoint and returns the actions for it.
func (s *State) requestNow(now time.Time) []Action {
	s.Phase, s.RequestedAt = InProgress, now
	s.timers.grace, s.timers.checkFile = now.Add(s.policy.Grace), time.Time{}
	if s.policy.DoneFile != "" {
		s.timers.checkFile = now.Add(CheckInterval)
	}
	return []Action{RequestCheckpoint{}, ReportEvent{State: "asked"}}
}

func (s *State) handleTick(now time.Time) (actions []Action) {
	passed := func(t *time.Time) bool {
		due := !t.IsZero() && !now.Before(*t)
		if due {
			*t = time.Time{}
		}
		return due
	}
	if passed(&s.timers.grace) && s.Phase == InProgress {
		actions = s.handleTimeout(now)
	}
	if passed(&s.timers.checkFile) && s.Phase == InProgress {
		s.timers.checkFile = now.Add(CheckInterval)
		actions = append(actions, CheckFile{})
	}
	timer, before := passed(&s.timers.every), passed(&s.timers.before)
	if timer {
		s.timers.every = now.Add(s.policy.Every)
	}
	if (timer || before) && !s.stopAfter && (s.Phase == Idle || s.Phase == InProgress && !s.policy.CanVerify()) {
		actions = append(actions, s.requestNow(now)...)
	}
	return actions
}

// handleTimeout handles a checkpoint that is not complete after the grace time, and returns the actions to take. If
// mpiexec cannot verify that checkpoints are complete, it assumes that this one is. But if the job may be stopped
// only after a complete checkpoint, the timeout always counts as a failure.
func (s *State) handleTimeout(now time.Time) []Action {
	required := s.stopAfter && s.policy.Required
	if !s.policy.CanVerify() && !required {
		return s.afterCheckpoint(nil, "")
	}
	line := fmt.Sprintf("the checkpoint was not complete after %s; the job continues without it", text.FormatDuration(s.policy.Grace))
	if required {
		line = fmt.Sprintf("the checkpoint was not complete after %s; the job stays on its hosts (--ckpt-required)", text.FormatDuration(s.policy.Grace))
	}
	return s.afterCheckpoint([]Action{ReportLine{line}, ReportEvent{"late", now.Sub(s.RequestedAt)}}, line)
}

// finish ends the checkpoint in progress, and returns the actions to take. state is reported as an event. reason, if
// not empty, says why the checkpoint failed. It is reported to the user and to the requesters.
func (s *State) finish(state, reason string, now time.Time) []Action {
	if s.Phase != InProgress {
		return nil
	}
	var actions []Action
	if reason != "" {
		actions = append(actions, ReportLine{reason})
	}
	return s.afterCheckpoint(append(actions, ReportEvent{state, now.Sub(s.RequestedAt)}), reason)
}

// afterCheckpoint adds the actions that are necessary after each checkpoint, and returns the result (rule SV-15). It
// replies to the requesters with the given reason, and stops the job if a requester has asked for that. With
// --ckpt-required, it stops the job only after a complete checkpoint.
func (s *State) afterCheckpoint(actions []Action, reason string) []Action {
	if s.hasRequesters {
		actions = append(actions, ReplyAll{reason})
	}
	s.Phase, s.hasRequesters, s.timers.grace, s.timers.checkFile = Idle, false, time.Time{}, time.Time{}
	s.stopAfter = s.stopAfter && !(reason != "" && s.policy.Required)
	if s.stopAfter {
		s.Phase, s.timers = Stopping, timers{}
		actions = append(actions, StopJob{})
	}
	return actions
}

// handleEnd handles the end of the attempt (one run of all ranks), and returns the actions to take. Step ignores all
// later events.
func (s *State) handleEnd() (actions []Action) {
	if s.hasRequesters {
		actions = append(actions, ReplyAll{"the job ended before the checkpoint was complete"})
	}
	s.Phase, s.hasRequesters, s.stopAfter, s.timers = Over, false, false, timers{}
	return actions
}
