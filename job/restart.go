package job

import (
	"math"
	"slices"
	"time"
)

// A RestartPolicy says whether and how a job is restarted (survive.md 3). The zero value means no restart.
type RestartPolicy struct {
	MaxRestarts  int           // most restarts; UnlimitedRestarts: no limit
	On           []EndKind     // kinds of end after which the job is restarted
	Codes        []int         // exit codes after which the job is restarted; nil: all but 0
	Delay        time.Duration // pause before the first restart; it doubles with each restart
	MaxFence     time.Duration // longest time to wait for nodes that were lost; 0: do not wait
	ExtraArgs    []string      // arguments appended to each app context's from the second attempt on
	StandbyNodes int           // number of standby nodes to claim in addition
	MinRanks     int           // fewest ranks of the last app context with which it may restart; 0: all
	PastAttempts int           // attempts of earlier mpiexec runs, not counted against MaxRestarts (--resume)
	Saved        bool          // the job is or was saved: attempts are reported even if there is only one
}

// AllowsSeveral reports whether the job may have more than one attempt (run of all ranks).
func (r RestartPolicy) AllowsSeveral() bool { return r.MaxRestarts > 0 || r.Saved }

// UnlimitedRestarts is a value of MaxRestarts. It stands for any number of restarts.
const UnlimitedRestarts = math.MaxInt

// An EndKind says how an attempt (one run of all ranks) has ended. Whether the job is restarted depends on the EndKind
// (rule SV-1).
type EndKind string

// These are the kinds that --restart-on can name. An attempt that ends in any other way, such as by ^C, is
// not restarted.
const (
	EndByNodeLoss     EndKind = "node"   // a node was lost
	EndBySignal       EndKind = "signal" // a rank died
	EndByAbort        EndKind = "abort"  // MPI_Abort
	EndByExitCode     EndKind = "code"   // a rank exited with a code other than 0, or violated the PMI protocol
	EndByStartFailure EndKind = "start"  // a rank could not be executed
)

// EndByResume replaces the EndKind of a job's last attempt when --resume starts the next one, however the last attempt
// ended.
const EndByResume EndKind = "resume"

// EndByMove is the end of an attempt whose ranks are moved on request (rule SV-17). Another attempt always follows,
// regardless of RestartPolicy, and does not count as a restart.
const EndByMove EndKind = "move"

// CountsAsFailure reports whether RestartPolicy counts an attempt with this EndKind as a failure. Moving the ranks to
// other nodes does not count as a failure. CountsAsFailure must not be called for an attempt that succeeded.
func (k EndKind) CountsAsFailure() bool { return k != EndByMove }

// EndKinds lists the kinds of ends that --restart-on can name.
var EndKinds = []EndKind{EndByNodeLoss, EndBySignal, EndByAbort, EndByExitCode, EndByStartFailure}

// AppliesTo reports whether the policy allows a restart after an attempt with this EndKind. It does not check the
// maximum number of restarts. code is the exit code; it is used only for EndByExitCode.
func (r RestartPolicy) AppliesTo(kind EndKind, code int) bool {
	return slices.Contains(r.On, kind) && (kind != EndByExitCode || r.Codes == nil || slices.Contains(r.Codes, code))
}

// An Attempt is one run of all ranks of a job, from their start until all output is written.
type Attempt struct {
	Number       int // from 0
	Began, Ended time.Time
	Kind         EndKind // kind of its end; empty: an end that never leads to a restart
	Reason       string  // one word, as Result.Reason (RM-53)
	Cause        string  // one line for people; empty: it ended without a failure
	Nodes        []string
	Size         int
	Lost         []string // of Nodes, those that were lost
	Failed       []string // of Nodes, those on which a rank could not be executed
	StandbyNodes []string // standby nodes that were claimed in addition and can be reached
	Exit         int

	// Only for an attempt that was moved (rule SV-17):
	LeftNodes []string // nodes that later attempts do not use
	NextNodes []string // nodes of the next attempt in plan order; nil: unknown or not available
}

// An AttemptEvent is an event about a job's attempts or checkpoints. --json reports it as it happens (rule
// SV-12, events).
type AttemptEvent struct {
	Event        string // "attempt", "fence", "pause", "giveup" or "checkpoint"
	State        string // state of a checkpoint: asked, done, late, failed
	Attempt      int    // number of the attempt that begins; 0: none begins
	Reason       EndKind
	Lost         []string
	Nodes        []string // nodes of the attempt
	Size         int
	Seconds      float64 // length of a pause; longest length of a fence; time since a checkpoint was requested
	GiveUpReason string  // why the job is given up
}

// Duration returns the time from the attempt's beginning to its end.
func (a Attempt) Duration() time.Duration { return a.Ended.Sub(a.Began) }
