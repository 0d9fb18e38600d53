package job

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"remshell/limits"
)

// This file has the types for how a job and its ranks ended.

// Usage is the resource usage of a rank. It includes children for which the rank has waited, and processes that
// outlived the rank and are known to descend from it. MaxRSS is the largest resident set of any one of these processes,
// in bytes. The kernel includes the memory that a process had before its exec, so MaxRSS is never below the helper's
// resident set. InBlocks and OutBlocks are the numbers of blocks of 512 bytes read from and written to disks
// (getrusage(2)).
type Usage struct {
	Wall, User, System  time.Duration
	MaxRSS              int64
	InBlocks, OutBlocks int64
}

// CPU returns the sum of user time and system time.
func (u Usage) CPU() time.Duration {
	return time.Duration(saturatingAdd(int64(u.User), int64(u.System)))
}

// Add adds the usage of a process that ran at the same time. It adds CPU times and blocks, and keeps the larger values
// of Wall and MaxRSS.
func (u *Usage) Add(other Usage) {
	u.User = time.Duration(saturatingAdd(int64(u.User), int64(other.User)))
	u.System = time.Duration(saturatingAdd(int64(u.System), int64(other.System)))
	u.Wall = max(u.Wall, other.Wall)
	u.MaxRSS = max(u.MaxRSS, other.MaxRSS)
	u.InBlocks, u.OutBlocks = saturatingAdd(u.InBlocks, other.InBlocks), saturatingAdd(u.OutBlocks, other.OutBlocks)
}

// An OrphanUsage is the usage of processes that have outlived their parents. Rank is the rank from which these
// processes descend, or -1 if the rank is unknown.
type OrphanUsage struct {
	Rank  int
	Usage Usage
}

// An Exit says how one rank ended.
type Exit struct {
	Rank       int
	Code       int  // exit code, if Signal is 0
	Signal     int  // the signal that killed it; 0: none
	Core       bool // it dumped core
	ToldToEnd  bool // mpiexec had asked it to end before
	PMI        PMIState
	Usage      Usage
	Hint       string   // the reason, if the node knows it; empty: unknown
	MPILibrary string   // MPI or PMIx library that the program is linked with; empty: none or not examined
	PMIOffer   PMIOffer // PMI versions offered to the rank; empty: not reported
	StdinRead  int64    // bytes that it read from its standard input, if the helper wrote that; -1: unknown

	// How far MPI_Finalize came, for a rank that mpiexec ended.
	FinalizeBarrier int    // number of the PMI barrier in which it waited, from 1; 0: none
	LibraryFault    string // a known fault of its MPI library that can make it wait forever (package mpifault); empty: none
}

// A PMIState says how far a rank has progressed in its use of PMI.
type PMIState int8

// These are the PMI states of a rank.
const (
	PMIUnused    PMIState = iota // it never initialized PMI
	PMIOpen                      // it initialized PMI and has not finalized it
	PMIFinalized                 // it finalized PMI
	PMIAborted                   // it requested an abort of the job
)

// A RankState is the state of a rank at one moment.
type RankState struct {
	Rank        int
	PID         int    // process ID; 0: it has no process
	Phase       string // "starting", "running", "over"
	PMI         PMIState
	Barrier     int           // number of the PMI barrier in which it waits, from 1; 0: none
	WaitsFor    string        // what else it waits for, in words; empty: nothing known
	CPU         time.Duration // CPU time of its process and of the children it waited for
	WaitChannel string        // kernel wait channel; empty: it runs, or the kernel does not say
	ProcState   string        // state letter of proc(5)
}

// Truncated returns r with each string cut to 256 bytes. It is applied to states that another user may have written.
func (r RankState) Truncated() RankState {
	for _, word := range []*string{&r.Phase, &r.WaitsFor, &r.WaitChannel, &r.ProcState} {
		*word = truncate(*word)
	}
	return r
}

func truncate(word string) string {
	const most = 256
	if len(word) <= most {
		return word
	}
	return strings.Clone(word[:most]) // a copy, so that the long text can be freed
}

// HasConnected reports whether the rank has connected to its helper's PMI server. If any rank of a job has
// connected, the program is an MPI program.
func (r RankState) HasConnected() bool { return r.PMI != PMIUnused }

// NotConnected describes the phase of a rank that should have initialized PMI but has not.
const NotConnected = "not yet connected"

// Describe returns a phrase that says what the rank is doing. connected is true if any rank of the job has connected to
// its helper.
func (r RankState) Describe(connected bool) string {
	switch {
	case r.Phase != "running":
		return r.Phase
	case r.ProcState == "T":
		return "stopped"
	case r.Barrier > 0:
		return fmt.Sprint("in barrier ", r.Barrier)
	case r.WaitsFor != "":
		return r.WaitsFor
	case connected && !r.HasConnected():
		return NotConnected
	case r.PMI == PMIFinalized:
		return "finalized"
	}
	return "running"
}

// A SoftLimit is a soft resource limit. Resource is the number of the resource in getrlimit(2). A negative Soft
// means no limit.
type SoftLimit struct {
	Resource int
	Soft     int64
}

// A Priority contains the settings by which the kernel prefers one process over another, such as niceness. If Known
// is false, the other fields have no meaning.
type Priority struct {
	Known    bool
	Nice     int // niceness, from -20 to 19; a higher value leaves more CPU time to others
	IO       int // I/O priority as in ioprio_set(2): class and level; 0: it follows from Nice
	OOMScore int // OOM score adjustment, from -1000 to 1000; a higher value is killed earlier when memory runs out
}

// A KernelLimit is a limit that the kernel enforces on each process of a rank. Max is in bytes, in nanoseconds, or
// a count. If Max is limits.Unlimited, an existing limit is removed.
type KernelLimit struct {
	Resource limits.Resource
	Max      int64
}

// Status returns the exit code of the rank as a shell would report it, which is Code, or 128 + Signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return Signal(e.Signal).Status()
	}
	return e.Code
}

// Failed reports whether the rank ended in a way that may affect other ranks: with a nonzero exit code, by a
// signal, or without finalizing PMI.
func (e Exit) Failed() bool { return e.Status() != 0 || e.PMI == PMIOpen || e.PMI == PMIAborted }

// These are the kinds of Leftover, as in pmi-drafts.md 3.
const (
	LeftoverSysVShm  = "sysvshm"  // a segment of System V
	LeftoverPosixShm = "posixshm" // a file in /dev/shm
	LeftoverSysVSem  = "sysvsem"  // a semaphore set of System V
)

// A Leftover is shared memory, or a semaphore set, that a rank has left behind and that the job had to remove. The
// helper has removed it, unless Err is set.
type Leftover struct {
	Node  string // name of the node in the plan
	Kind  string
	ID    string // the number of a segment or set, or the path of a file
	Bytes int64  // 0 for a semaphore set
	Rank  int    // -1: a rank of the node, not known which
	Err   string // why it could not be removed; empty: it was removed
}

// A Result says how a job ended.
type Result struct {
	Code        int    // exit code for mpiexec (cli.md section 7)
	Cause       string // what ended the job, in one line; empty: it ended by itself
	Reason      string // the same in one word (RM-53): ok, exit, signal, limit, start, host_lost, user, rm, move, internal
	Connections []ConnectResult
	Starts      iter.Seq[RankStart] // in the order in which helpers reported them; nil: none
	Exits       []*Exit             // in the order of their reports; the usage of orphans is included
	NodeTotals  []NodeTotal         // in the order of the plan
	Usage       JobUsage
	Gang        *GangUsage // nil: it is no gang
	Attempts    []Attempt  // set if several attempts are allowed; all other fields are about the last attempt
	Leftovers   []Leftover // in the order in which helpers reported them
	Stacks      []StackRecord
}

// A GangUsage says how long a gang ran, and how long its ranks were stopped. They are stopped in the slices of other
// gangs, and while the job is suspended.
type GangUsage struct {
	Ran, Stopped time.Duration
	Switches     int // how often its ranks were stopped
}

// A ConnectResult is the result of connecting to one candidate host.
type ConnectResult struct {
	Node      string
	Host      string // the host name that it has on itself
	Took      time.Duration
	BytesSent int64  // bytes of our program that were sent to it
	Err       string // why it could not be reached; empty: it was reached

	InBatchAccounting *bool // whether the batch system accounts for the ranks there (RM-45); nil: unknown
}

// A RankStart reports the start of one rank, or the failure to start it.
type RankStart struct {
	Rank, PID  int
	Node       string
	SinceStart time.Duration // time since mpiexec ordered the ranks to start
	Err        string
}

// A NodeTotal is the usage of all ranks on one node. PeakRank is the rank that used the most memory, or -1 if
// unknown.
type NodeTotal struct {
	Node       string
	Ranks      int
	EndedRanks int // ranks whose end was reported
	Usage      Usage
	PeakRank   int

	KeptSessions []string // Open MPI session directories that were kept
}
