package job

import "time"

// A CheckpointPolicy says when and how mpiexec asks the program to write checkpoints (survive.md 4). The zero value
// means that the program is not known to write checkpoints.
type CheckpointPolicy struct {
	Signal    Signal        // sent to the ranks to request a checkpoint; 0: none
	Command   string        // shell command that is run on this machine instead of the signal; empty: none
	Every     time.Duration // interval of running time between checkpoints; 0: none
	BeforeEnd time.Duration // how long before the job's end a checkpoint is requested; 0: never
	DoneFile  string        // a checkpoint is complete when this file is newer than the request; empty: none
	Grace     time.Duration // the longest time for one checkpoint
	Dir       string        // directory for checkpoints, passed to the ranks; empty: none

	Required bool // an action that needs a checkpoint is refused if none can be made
}

// DefaultCheckpointGrace is how long a checkpoint may take if --ckpt-grace is not given.
const DefaultCheckpointGrace = 5 * time.Minute

// CanRequest reports whether mpiexec can request a checkpoint.
func (c CheckpointPolicy) CanRequest() bool { return c.Signal != 0 || c.Command != "" }

// CanVerify reports whether mpiexec can find out whether a checkpoint is complete. If it returns false, mpiexec
// can only request checkpoints.
func (c CheckpointPolicy) CanVerify() bool { return c.Command != "" || c.DoneFile != "" }

// ExitCheckpointed is the exit code by which a rank reports that it has written a checkpoint and wants to be restarted
// (rule SV-1).
const ExitCheckpointed = 85
