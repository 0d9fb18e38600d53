package supervise

import (
	"time"

	"remshell/job"
)

// A Phase is a stage of a job, from running to being killed.
type Phase int

// These are the phases of a job, in order. A job never goes back to an earlier one.
const (
	Running     Phase = iota
	Interrupted       // ^C, or SIGQUIT for stacks, was forwarded: the ranks may end by themselves
	Lingering         // every rank has ended; leftover children may remain
	Ending            // ranks were told to end by SIGTERM
	Killing           // ranks are being killed by SIGKILL
)

// A State is the state of the supervision of one job. It must be created with NewState. Its times are times of the
// job's clock, except began, which is a wall-clock time.
type State struct {
	rankTable
	clock  clock
	policy Policy
	began  time.Time // when the ranks were released
	since  time.Time // from when the job's time counts; see Policy.Since

	Phase     Phase
	signals   int       // received signals that end the job
	killAt    time.Time // when ranks that were told to end are killed
	deadlines deadlines
	pending   pendingCauses

	Cause         *Cause      // nil: no failure so far
	causeAt       time.Time   // when the first cause was reported
	causeReplaced bool        // Cause was replaced by a better one, and is not replaced again
	laterEnd      *Cause      // a user or the batch system ended the job while it was already ending; nil: neither did
	Exits         []*job.Exit // as reported; must not be modified
	failedWith    []*job.Exit // ranks that failed within sameFailureTime of the cause
	endedByUs     []*job.Exit // ranks that ended after mpiexec told them to

	brokenReported bool // a barrier that cannot complete was reported
}

// NewState returns the state for a job whose ranks are about to start.
func NewState(p job.Plan, policy Policy, now time.Time) State {
	s := State{rankTable: newRankTable(p), deadlines: deadlines{start: policy.StartBy}, began: now, policy: policy}
	if s.since = policy.Since; s.since.IsZero() {
		s.since = now
	}
	if left := s.timeLeft(now); left > 0 {
		if most := left + now.Sub(s.since); policy.WallTime.Max == 0 || most < policy.WallTime.Max {
			s.policy.WallTime = TimeLimit{most, "--batch-option margin="}
		}
	}
	switch {
	case s.policy.wallLimitFirst():
		s.deadlines.run = s.since.Add(s.policy.WallTime.Max + 1) // the limit itself is still allowed
	case policy.Timeout > 0:
		s.deadlines.run = s.since.Add(policy.Timeout)
	}
	s.deadlines.warn = s.warnAt()
	return s
}

// EndedFromOutside reports whether the job was ended by something other than a failure: for example, by a signal, the
// time limit or a closed stdout.
func (s *State) EndedFromOutside() bool { return s.Cause != nil && s.Cause.rule().external }

// WaitsForNodes reports whether mpiexec waits until all nodes have ended their processes. After a third ^C it
// does not wait.
func (s *State) WaitsForNodes() bool { return s.signals < 3 }

// KeepsAll reports whether the other ranks continue when one rank fails.
func (s *State) KeepsAll() bool { return s.policy.EndPolicy.KeepAll }

// IsRunning reports whether all ranks have started and the job is not ending.
func (s *State) IsRunning() bool { return s.Phase == Running && s.unstarted == 0 }

// AllCheckpointed reports whether each rank has exited by itself, either with 0 or after it has written a
// checkpoint.
func (s *State) AllCheckpointed() bool {
	return s.Phase == Lingering && (s.Cause == nil || s.Cause.Kind == RankExited && s.Cause.Code == job.ExitCheckpointed)
}

// Began returns the time at which the ranks were started.
func (s *State) Began() time.Time { return s.began }

// MaySpawn reports whether a rank may spawn ranks. The rank must be running, and the job must not be ending.
func (s *State) MaySpawn(rank int) bool {
	return s.Phase == Running && s.isRunning(rank)
}
