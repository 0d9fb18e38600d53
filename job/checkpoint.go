package job

import "time"

// A CheckpointPolicy is what was said of the checkpoints that a program writes (survive.md 4). The zero value: it writes none
// that we know of.
type CheckpointPolicy struct {
	Signal    Signal        // tells the ranks to write one; 0: none does
	Command   string        // for a shell on this machine, in its place; empty: none
	Every     time.Duration // of running time; 0: never
	BeforeEnd time.Duration // the job has to end; 0: never
	DoneFile  string        // the file that is newer than the request when it is complete; empty: there is none
	Grace     time.Duration // one may take
	Dir       string        // that ranks are told of; empty: none

	Required bool // what needs one before it is refused without
}

// DefaultCheckpointGrace is how long a checkpoint may take if nothing is said (--ckpt-grace).
const DefaultCheckpointGrace = 5 * time.Minute

// CanRequest reports whether there is a way to ask for a checkpoint.
func (c CheckpointPolicy) CanRequest() bool { return c.Signal != 0 || c.Command != "" }

// CanVerify reports whether something can tell that one is complete: else it is asked for, and that is all.
func (c CheckpointPolicy) CanVerify() bool { return c.Command != "" || c.DoneFile != "" }

// ExitCheckpointed is the code of a rank that has written a checkpoint and wants to be started again (SV-1).
const ExitCheckpointed = 85
