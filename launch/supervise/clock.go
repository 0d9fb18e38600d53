package supervise

import "time"

/*
A clock measures the time of a job. It stands still while the ranks do (package launch/hold), so that
no deadline passes then.

	time       10:00      10:10         11:00      11:05
	              |  runs    | stands still |  runs   |
	job's time 10:00      10:10         10:10      10:15
*/
type clock struct {
	stoppedAt time.Time     // since when it stands still; zero: it runs
	stood     time.Duration // how long it stood still before that
}

// jobTime returns the job's time at a moment.
func (c clock) jobTime(now time.Time) time.Time {
	if !c.stoppedAt.IsZero() {
		now = c.stoppedAt
	}
	return now.Add(-c.stood)
}

// moment returns when the clock shows a time of the job, if it does not stand still any more from
// now on.
func (c clock) moment(jobTime time.Time) time.Time { return jobTime.Add(c.stood) }

// IsSuspended reports whether the ranks stand still.
func (s *State) IsSuspended() bool { return !s.clock.stoppedAt.IsZero() }

// Suspend stops the clock, because the ranks stand still from now on. No deadline passes until
// Resume.
func (s *State) Suspend(now time.Time) { s.clock.stoppedAt = now }

// Resume lets the clock go on, because the ranks run again.
func (s *State) Resume(now time.Time) {
	s.clock.stood += now.Sub(s.clock.stoppedAt)
	s.clock.stoppedAt = time.Time{}
	if !s.deadlines.warn.IsZero() {
		s.deadlines.warn = s.warnAt() // the batch system's end does not move
	}
}

// StoodStill returns for how long the ranks have stood still, without the present time if they do.
func (s *State) StoodStill() time.Duration { return s.clock.stood }
