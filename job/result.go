package job

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"remshell/limits"
)

// This file is what came of a job and of its ranks.

// Usage is what a rank and its descendants consumed: those it waited for, and orphans as
// far as it can be told whose they were. MaxRSS is the largest resident set that any one of
// these processes ever had, in bytes; the kernel counts what it had before its exec too, so
// it is never below the helper's own. Blocks are of 512 bytes, read from disks and written to them (getrusage(2)).
type Usage struct {
	Wall, User, System  time.Duration
	MaxRSS              int64
	InBlocks, OutBlocks int64
}

// CPU is the time of both kinds.
func (u Usage) CPU() time.Duration {
	return time.Duration(saturatingAdd(int64(u.User), int64(u.System)))
}

// Add counts what another process consumed at the same time.
func (u *Usage) Add(other Usage) {
	u.User = time.Duration(saturatingAdd(int64(u.User), int64(other.User)))
	u.System = time.Duration(saturatingAdd(int64(u.System), int64(other.System)))
	u.Wall = max(u.Wall, other.Wall)
	u.MaxRSS = max(u.MaxRSS, other.MaxRSS)
	u.InBlocks, u.OutBlocks = saturatingAdd(u.InBlocks, other.InBlocks), saturatingAdd(u.OutBlocks, other.OutBlocks)
}

// An OrphanUsage is what processes consumed that outlived their parents. Rank is -1 where
// nobody can tell whose they were.
type OrphanUsage struct {
	Rank  int
	Usage Usage
}

// An Exit is the end of one rank.
type Exit struct {
	Rank       int
	Code       int  // exit code, when Signal is 0
	Signal     int  // the signal that killed it
	Core       bool // a core was dumped
	ToldToEnd  bool // it had been told to end before
	PMI        PMIState
	Usage      Usage
	Hint       string   // what the node knows about the reason; empty: nothing
	MPILibrary string   // the library for MPI or PMIx that the program is linked with; empty: none, or not looked
	PMIOffer   PMIOffer // by what the rank could have found us; empty: not told
	StdinRead  int64    // how many bytes of its standard input it has read, if we have written that; -1: unknown

	// How far MPI_Finalize came, of a rank that we ended.
	FinalizeBarrier int    // of PMI, from 1, in which it waited; 0: in none
	LibraryFault    string // of its library, as package mpifault has it, by which it may have waited for ever; empty: none is known
}

// A PMIState is how far a rank came with its process manager interface.
type PMIState int8

// The states at a rank's end.
const (
	PMIUnused    PMIState = iota // it never said init: no MPI program of ours
	PMIOpen                      // init, and no finalize
	PMIFinalized                 // finalize
	PMIAborted                   // it asked for the end of the job
)

// A RankState is what a rank is doing at one moment.
type RankState struct {
	Rank        int
	PID         int    // of its process; 0: it has none
	Phase       string // "starting", "running", "over"
	PMI         PMIState
	Barrier     int           // the barrier in which it waits, from 1; 0: none
	WaitsFor    string        // for what else it waits, in words; empty: for nothing that is known
	CPU         time.Duration // of its process and the children it waited for
	WaitChannel string        // kernel wait channel; empty: it runs, or the kernel does not tell
	ProcState   string        // state letter of proc(5)
	Stack       string        // by whom it is told, and where it is, line by line; empty: it is not told
}

// Truncated returns the state without its stack and with words of 256 bytes at most, as what another user has written is read.
func (r RankState) Truncated() RankState {
	r.Stack = ""
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
	return strings.Clone(word[:most]) // the whole is not kept
}

// HasConnected reports whether a rank has come to its helper. If any of a job has, that is no plain program.
func (r RankState) HasConnected() bool { return r.PMI != PMIUnused }

// NotConnected is what a rank is doing that is to say init, and has not.
const NotConnected = "not yet connected"

// Describe says in words what a rank is doing, of a job of which some rank has come to its helper, or none.
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

// A SoftLimit is a soft resource limit, by its number of getrlimit(2). Below 0: no limit.
type SoftLimit struct {
	Resource int
	Soft     int64
}

// A KernelLimit is a limit that the kernel enforces in each process of a rank, in bytes, ns or a count;
// limits.Unlimited: there shall be none.
type KernelLimit struct {
	Resource limits.Resource
	Max      int64
}

// Status is the exit code a shell would show: the code, or 128 and the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return Signal(e.Signal).Status()
	}
	return e.Code
}

// Failed reports whether a rank ended in a way from which others may suffer: by a code, by a signal, or
// without having left MPI.
func (e Exit) Failed() bool { return e.Status() != 0 || e.PMI == PMIOpen || e.PMI == PMIAborted }

// Kinds of a Remnant, as pmi-drafts.md 3 has them.
const (
	LeftoverSysVShm  = "sysvshm"  // a segment of System V
	LeftoverPosixShm = "posixshm" // a file in /dev/shm
)

// A Leftover is shared memory that a rank has left which did not end well. Its node has freed it.
type Leftover struct {
	Node  string // as the plan has it
	Kind  string
	ID    string // of a segment its number, of a file its path
	Bytes int64
	Rank  int    // -1: some of the node's; which, nobody knows
	Err   string // why it is still there; empty: it is not
}

// A Result is what came of a job.
type Result struct {
	Code        int    // exit code for mpiexec (cli.md section 7)
	Cause       string // what ended the job, in one line; empty: nothing did
	Reason      string // the same in a word (RM-53): ok, exit, signal, limit, start, host_lost, user, internal
	Connections []ConnectResult
	Starts      iter.Seq[RankStart] // in the order in which they were told; nil: none was
	Exits       []*Exit             // as they were told; orphans are counted in
	NodeTotals  []NodeTotal         // in the order of the plan
	Usage       JobUsage
	Attempts    []Attempt  // if there may have been several; the rest is about the last
	Leftovers   []Leftover // in the order in which they were told
}

// A ConnectResult is how a candidate was reached.
type ConnectResult struct {
	Node      string
	Host      string // its own name for itself
	Took      time.Duration
	BytesSent int64  // bytes of our program
	Err       string // why it was not; empty: it was

	InBatchAccounting *bool // the batch system holds what runs there (RM-45); nil: nobody knows
}

// A RankStart is a rank that runs, or why it does not.
type RankStart struct {
	Rank, PID  int
	Node       string
	SinceStart time.Duration // since ranks were let go
	Err        string
}

// A NodeTotal is what the ranks of one node consumed together. Peak is the rank that had most
// memory; -1: none.
type NodeTotal struct {
	Node       string
	Ranks      int
	EndedRanks int // of them, those of whose end was told
	Usage      Usage
	PeakRank   int

	KeptSessions []string // directories of Open MPI's files that stay there
}
