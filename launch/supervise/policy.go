package supervise

import (
	"time"

	"remshell/job"
)

// A Policy contains the user's settings about failures, signals and time limits.
type Policy struct {
	Grace        time.Duration  // --kill-grace
	StackTime    time.Duration  // how long a node may take to read its ranks' stacks
	Timeout      time.Duration  // -timeout; 0: none
	WallTime     TimeLimit      // --limit walltime; applies in addition to Timeout
	StartBy      time.Time      // --start-timeout; zero: none
	Warn         job.EndWarning // --warn
	Margin       time.Duration  // --batch-option margin=; 0: none
	Since        time.Time      // when the first attempt began, plus the time for which the job was stopped since then. Timeout counts from it; zero: now
	EndPolicy    job.EndPolicy
	SignalPolicy job.SignalPolicy
	BatchJob     BatchJob // zero: there is none
}

// A TimeLimit is a limit of a job's run time, and the place where it was set. The zero value means that there is no
// limit.
type TimeLimit struct {
	Max  time.Duration
	From string
}

// A BatchJob is the batch job in which mpiexec is running. The zero value means that mpiexec is not running in a batch
// job.
type BatchJob struct {
	System, Job string
	End         time.Time // when the batch system ends it; zero: unknown
}
