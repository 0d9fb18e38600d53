package job

import (
	"math"
	"slices"
	"time"
)

// A RestartPolicy is what was said of starting a job again (survive.md 3). The zero value: it is not.
type RestartPolicy struct {
	MaxRestarts  int           // restarts; Always: as many as it takes
	On           []EndKind     // ends after which there is one
	Codes        []int         // of those with a code: these alone; nil: all but 0
	Delay        time.Duration // the first pause; it doubles with each that follows
	MaxFence     time.Duration // how long nodes that were lost may be waited for at most; 0: not at all
	ExtraArgs    []string      // of each section, behind its own, from the second attempt on
	StandbyNodes int           // nodes to be claimed beside those that have ranks
	MinRanks     int           // ranks of the last section with which it may go on; 0: all
	PastAttempts int           // attempts of earlier mpiexecs, which count for none of these (--resume)
	Saved        bool          // the job is saved, or was: attempts are told of even if there is one
}

// AllowsSeveral reports whether the job may have more than one attempt.
func (r RestartPolicy) AllowsSeveral() bool { return r.MaxRestarts > 0 || r.Saved }

// UnlimitedRestarts as Most stands for any number of restarts.
const UnlimitedRestarts = math.MaxInt

// An EndKind is what has ended an attempt, as far as a restart depends on it (SV-1).
type EndKind string

// The kinds. All else, such as a ^C, is never a reason to start again.
const (
	EndByNodeLoss     EndKind = "node"   // a node was lost
	EndBySignal       EndKind = "signal" // a rank died
	EndByAbort        EndKind = "abort"  // MPI_Abort
	EndByExitCode     EndKind = "code"   // a rank ended with a code, or broke the rules of its PMI
	EndByStartFailure EndKind = "start"  // a rank could not be executed
)

// EndByResume is the reason of an attempt that another mpiexec begins, whatever the last one ended by.
const EndByResume EndKind = "resume"

// EndByMove is the end of an attempt that somebody has moved (SV-17): another follows, whatever --restart says of ends,
// and counts for none of its restarts.
const EndByMove EndKind = "move"

// IsFailure reports whether an attempt that ended so has failed, and was not ended to begin elsewhere.
func (k EndKind) IsFailure() bool { return k != EndByMove }

// EndKinds are all of them.
var EndKinds = []EndKind{EndByNodeLoss, EndBySignal, EndByAbort, EndByExitCode, EndByStartFailure}

// AppliesTo reports whether an attempt that ended so is followed by another, if there may be more.
func (r RestartPolicy) AppliesTo(kind EndKind, code int) bool {
	return slices.Contains(r.On, kind) && (kind != EndByExitCode || r.Codes == nil || slices.Contains(r.Codes, code))
}

// An Attempt is one life of all ranks of a job, from start to drained.
type Attempt struct {
	Number       int // from 0
	Began, Ended time.Time
	Kind         EndKind // what it ended by; empty: by nothing that is ever a reason to start again
	Reason       string  // in a word (RM-53)
	Cause        string  // in a line; empty: it ended well
	Nodes        []string
	Size         int
	Lost         []string // of its nodes, those that were lost
	Failed       []string // those on which a rank could not be executed
	StandbyNodes []string // nodes that were claimed beside them, and live
	Exit         int

	// Of one that was moved (SV-17):
	LeftNodes []string // nodes that are out for the job from then on
	NextNodes []string // the nodes of the next attempt, in the order of its plan; nil: nobody knows, or they were not to be had
}

// An AttemptEvent is what is told of the attempts of a job, and of its checkpoints, as they come (SV-12, events).
type AttemptEvent struct {
	Event        string // "attempt", "fence", "pause", "giveup" or "checkpoint"
	State        string // of a checkpoint: asked, done, late, failed
	Attempt      int    // that begins; 0: none does
	Reason       EndKind
	Lost         []string
	Nodes        []string // of the attempt
	Size         int
	Seconds      float64 // of a pause; of a fence, at most; of a checkpoint, since it was asked for
	GiveUpReason string  // it is given up
}

// Duration is how long it took.
func (a Attempt) Duration() time.Duration { return a.Ended.Sub(a.Began) }
