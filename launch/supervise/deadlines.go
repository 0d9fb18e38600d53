package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/text"
)

// deadlines are times, by the job's clock, at which supervision acts. The zero time means never.
type deadlines struct {
	start  time.Time // --start-timeout; zero once every rank runs
	warn   time.Time // --warn
	run    time.Time // -timeout
	stacks time.Time // the ranks have had time to report their stacks
	giveUp time.Time // nodes that are not drained are given up
}

// A timer is a time by the job's clock, with the function that Step calls at that time.
type timer struct {
	due    time.Time // zero: never
	expire func(*State, time.Time) []Action
}

// timers returns all timers. If several are due at the same time, the first in the list takes precedence.
func (s *State) timers() [8]timer {
	p, d := &s.pending, &s.deadlines
	return [...]timer{
		{p.suspected.due, (*State).endWithSuspected},
		{p.checkpointed.due, (*State).endWithCheckpointed},
		{d.start, (*State).handleStartTimeout},
		{d.warn, (*State).warnRanks},
		{d.run, (*State).handleTimeout},
		{d.stacks, (*State).stacksTaken},
		{p.notFinalized.due, (*State).endWithNotFinalized},
		{d.giveUp, (*State).giveUpNodes},
	}
}

// nextTimer returns the timer that is due first. It returns a timer with a zero due time if no timer is set.
func (s *State) nextTimer() (next timer) {
	for _, t := range s.timers() {
		if !t.due.IsZero() && (next.due.IsZero() || t.due.Before(next.due)) {
			next = t
		}
	}
	return next
}

// Next returns the time at which Step must be called with a Tick. The zero time means never.
func (s *State) Next() time.Time {
	next := s.nextTimer()
	if s.IsSuspended() || next.due.IsZero() {
		return time.Time{}
	}
	return s.clock.moment(next.due)
}

func (s *State) handleTick(now time.Time) []Action {
	next := s.nextTimer()
	if s.IsSuspended() || next.due.IsZero() || now.Before(next.due) {
		return nil
	}
	return next.expire(s, now)
}

// rankStarted counts a rank that has started or could not be started. After the last rank, the start timeout no longer
// applies.
func (s *State) rankStarted() {
	if s.countStarted() {
		s.deadlines.start = time.Time{}
	}
}

func (s *State) handleStartTimeout(now time.Time) []Action {
	return s.handleFailure(Failure{Kind: StartTimeout}, now)
}

// stacksTaken ends the ranks after they have had time to write their stacks (SIGQUIT).
func (s *State) stacksTaken(now time.Time) []Action {
	return s.endRanks(now, Ending, s.policy.Grace)
}

// handleTimeout ends a job whose -timeout has passed. It reports the states of the ranks, and their stacks if the user
// wants that (rule DIAG-12). If the job's end already has a cause, such as ^C, that remains the cause. If the cause is
// a rank that failed while the others continued, the timeout is reported, too.
func (s *State) handleTimeout(now time.Time) []Action {
	s.deadlines.run = time.Time{}
	var actions []Action
	if s.policy.wallLimitFirst() {
		actions = s.reportExcess(limits.Excess{Name: limits.WallTime, Used: int64(now.Sub(s.since)), Allowed: int64(s.policy.WallTime.Max), From: s.policy.WallTime.From}, now)
	} else {
		c := s.causeOf(Failure{Kind: RunTimeout})
		if s.Cause != nil && s.Phase == Running {
			actions = append(actions, ReportLine{c.Text})
		}
		s.setCause(c, now)
	}
	if !s.policy.EndPolicy.StacksOnTimeout || s.Phase != Running {
		return append(append(actions, InspectRanks{}), s.endRanks(now, Ending, s.policy.Grace)...)
	}
	s.Phase = Interrupted
	s.pending.dropSuspicions()
	s.deadlines.stacks = now.Add(s.policy.StackTime + stacksGrace)
	return append(actions, InspectRanks{Stacks: true}, SignalAllRanks{job.SIGQUIT})
}

// wallLimitFirst reports whether the wall time limit ends the job before -timeout does.
func (r Policy) wallLimitFirst() bool {
	return r.WallTime.Max > 0 && (r.Timeout == 0 || r.WallTime.Max < r.Timeout)
}

// timeLeft returns the time until mpiexec must end the job: Policy.Margin before the batch job ends, but at least one
// second. It returns 0 if the policy has no margin, or if the end of the batch job is unknown.
func (s *State) timeLeft(now time.Time) time.Duration {
	if s.policy.Margin == 0 || s.policy.BatchJob.End.IsZero() {
		return 0
	}
	return max(time.Second, s.policy.BatchJob.End.Add(-s.policy.Margin).Sub(now))
}

// End returns the time at which the job must end. It is the earliest of the times that -timeout, the wall time limit
// and the batch job set. The zero time means that the end is unknown.
func (s *State) End() time.Time {
	var ends time.Time
	if run := s.deadlines.run; !run.IsZero() {
		ends = s.clock.moment(run)
	}
	if end := s.policy.BatchJob.End; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
		ends = end
	}
	return ends
}

// warnAt returns the time at which to send the ranks the signal that warns them of the job's end (rule RM-58). The zero
// time means never.
func (s *State) warnAt() time.Time {
	ends := s.End()
	if s.policy.Warn.Signal == 0 || ends.IsZero() {
		return time.Time{}
	}
	return s.clock.jobTime(ends.Add(-s.policy.Warn.Before))
}

// warnRetry is how long to wait before trying again to send the warning signal, if some ranks have not started when it
// is due.
const warnRetry = 100 * time.Millisecond

// warnRanks sends the ranks the signal that warns them of the job's end. If some ranks have not started, it tries again
// after warnRetry.
func (s *State) warnRanks(now time.Time) []Action {
	if s.unstarted > 0 {
		s.deadlines.warn = now.Add(warnRetry)
		return nil
	}
	s.deadlines.warn = time.Time{}
	signal := job.Signal(s.policy.Warn.Signal)
	line := fmt.Sprintf("mpiexec sent %s to %s on %s, because the job must end in %v", signal, text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"), s.policy.Warn.Before)
	return []Action{SignalAllRanks{signal}, ReportLine{line}}
}
