package job

import (
	"math"
	"slices"
	"time"
)

// A Restart is what was said of starting a job again (survive.md 3). The zero value: it is not.
type Restart struct {
	Most   int           // restarts; Always: as many as it takes
	On     []EndKind     // ends after which there is one
	Codes  []int         // of those with a code: these alone; nil: all but 0
	Delay  time.Duration // the first pause; it doubles with each that follows
	Fence  time.Duration // how long nodes that were lost may be waited for at most; 0: not at all
	Args   []string      // of each section, behind its own, from the second attempt on
	Spares int           // nodes to be claimed beside those that have ranks
	Least  int           // ranks of the last section with which it may go on; 0: all
	Past   int           // attempts of earlier mpiexecs, which count for none of these (--resume)
	Kept   bool          // the job is saved, or was: attempts are told of even if there is one
}

// Several reports whether the job may have more than one attempt.
func (r Restart) Several() bool { return r.Most > 0 || r.Kept }

// Always as Most stands for any number of restarts.
const Always = math.MaxInt

// An EndKind is what has ended an attempt, as far as a restart depends on it (SV-1).
type EndKind string

// The kinds. All else, such as a ^C, is never a reason to start again.
const (
	ByNode   EndKind = "node"   // a node was lost
	BySignal EndKind = "signal" // a rank died
	ByAbort  EndKind = "abort"  // MPI_Abort
	ByCode   EndKind = "code"   // a rank ended with a code, or broke the rules of its PMI
	ByStart  EndKind = "start"  // a rank could not be executed
)

// ByResume is the reason of an attempt that another mpiexec begins, whatever the last one ended by.
const ByResume EndKind = "resume"

// ByMove is the end of an attempt that somebody has moved (SV-17): another follows, whatever --restart says of ends,
// and counts for none of its restarts.
const ByMove EndKind = "move"

// Failure reports whether an attempt that ended so has failed, and was not ended to begin elsewhere.
func (k EndKind) Failure() bool { return k != ByMove }

// EndKinds are all of them.
var EndKinds = []EndKind{ByNode, BySignal, ByAbort, ByCode, ByStart}

// Counts reports whether an attempt that ended so is followed by another, if there may be more.
func (r Restart) Counts(kind EndKind, code int) bool {
	return slices.Contains(r.On, kind) && (kind != ByCode || r.Codes == nil || slices.Contains(r.Codes, code))
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
	Spares       []string // nodes that were claimed beside them, and live
	Exit         int

	// Of one that was moved (SV-17):
	Leaves []string // nodes that are out for the job from then on
	Goes   []string // the nodes of the next attempt, in the order of its plan; nil: nobody knows, or they were not to be had
}

// An Again is what is told of the attempts of a job, and of its checkpoints, as they come (SV-12, events).
type Again struct {
	Event   string // "attempt", "fence", "pause", "giveup" or "checkpoint"
	State   string // of a checkpoint: asked, done, late, failed
	Attempt int    // that begins; 0: none does
	Reason  EndKind
	Lost    []string
	Nodes   []string // of the attempt
	Size    int
	Seconds float64 // of a pause; of a fence, at most; of a checkpoint, since it was asked for
	Why     string  // it is given up
}

// Ran is how long it took.
func (a Attempt) Ran() time.Duration { return a.Ended.Sub(a.Began) }
