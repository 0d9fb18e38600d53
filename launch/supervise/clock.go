package supervise

import "time"

/*
A clock measures the time of a job. It is stopped while the ranks are stopped (package launch/hold), so no deadline
passes during that time.

	time       10:00      10:10         11:00      11:05
	             |  run    |   stopped   |  run     |
	job's time 10:00      10:10         10:10      10:15
*/
type clock struct {
	stoppedAt time.Time     // when the clock was stopped; zero: it runs
	stopped   time.Duration // how long it was stopped before that
}

// jobTime converts a wall-clock time to a time of the job's clock.
func (c clock) jobTime(now time.Time) time.Time {
	if !c.stoppedAt.IsZero() {
		now = c.stoppedAt
	}
	return now.Add(-c.stopped)
}

// moment returns the wall-clock time at which the job's clock will show jobTime, provided that the clock is not stopped
// before then.
func (c clock) moment(jobTime time.Time) time.Time { return jobTime.Add(c.stopped) }

// IsSuspended reports whether the ranks are stopped.
func (s *State) IsSuspended() bool { return !s.clock.stoppedAt.IsZero() }

// Suspend stops the job's clock, because the ranks are being stopped. Until Resume, no deadline passes.
func (s *State) Suspend(now time.Time) { s.clock.stoppedAt = now }

// Resume starts the job's clock again, because the ranks continue.
func (s *State) Resume(now time.Time) {
	s.clock.stopped += now.Sub(s.clock.stoppedAt)
	s.clock.stoppedAt = time.Time{}
	if !s.deadlines.warn.IsZero() {
		s.deadlines.warn = s.warnAt() // the batch system's end does not move
	}
}

// StoppedTime returns how long the ranks have been stopped in total. If they are currently stopped, the current stop is
// not included.
func (s *State) StoppedTime() time.Duration { return s.clock.stopped }
