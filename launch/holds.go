package launch

import (
	"sync"
	"time"

	"remshell/job"
	"remshell/launch/hold"
	"remshell/wire"
)

// This file holds all ranks of the job while there is a reason to, and releases them. Package hold
// knows the reasons.

// Hold adds a reason to stop the ranks (SIGSTOP). Only the goroutine of Run may call it.
func (j *Job) Hold(reason job.Hold) {
	now := time.Now()
	j.carryOutHolds(j.holds.Add(reason, now), now)
}

// Release removes a reason to stop the ranks. They run again when no reason is left. Only the goroutine
// of Run may call it.
func (j *Job) Release(reason job.Hold) {
	now := time.Now()
	j.carryOutHolds(j.holds.Remove(reason, now), now)
}

// carryOutHolds carries out the actions that package hold returns. It tells the nodes to stop or continue their ranks,
// and stops or starts the job's clock.
func (j *Job) carryOutHolds(actions []hold.Action, now time.Time) {
	for _, action := range actions {
		switch a := action.(type) {
		case hold.TellNodes:
			if a.Why != job.HoldGang { // each helper decides about it
				j.SendAll(&wire.Hold{Why: a.Why, On: a.On})
			}
			if a.Why == job.HoldRequested {
				j.reportSuspension(a)
			}
		case hold.Suspend:
			j.State.Suspend(now)
		case hold.Resume:
			j.State.Resume(now)
			for _, resumed := range j.Hooks.Resumed {
				resumed(a.HeldFor)
			}
		}
	}
}

// reportSuspension sends the Observer an event which reports that a user has suspended or resumed the job.
func (j *Job) reportSuspension(a hold.TellNodes) {
	event := job.AttemptEvent{Event: "resume", Seconds: a.HeldFor.Seconds()}
	if a.On {
		event = job.AttemptEvent{Event: "suspend"}
	}
	j.Env.Events().AttemptEvent(event)
}

// stopFlushTimeout is how long mpiexec may take to send queued messages to the hosts before it stops itself
// (SIGTSTP; rule TRUST-34).
const stopFlushTimeout = time.Second

// flushNodes waits until all queued messages are sent, or timeout has passed.
func (j *Job) flushNodes(timeout time.Duration) {
	written := make(chan struct{})
	go func() {
		var writing sync.WaitGroup
		for _, n := range j.Nodes {
			writing.Go(n.Flush)
		}
		writing.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(timeout):
	}
}

// suspendJob stops all ranks and then mpiexec itself. When the user continues mpiexec, the ranks continue as well (rule
// SIG-5).
func (j *Job) suspendJob() {
	j.Hold(job.HoldLauncherStopped)
	j.flushNodes(stopFlushTimeout)
	stopped := j.Env.StopTimes.RunStopped(j.Env.Suspend)
	for _, n := range j.Nodes {
		n.ShiftDeadlines(stopped)
	}
	j.Release(job.HoldLauncherStopped)
}
