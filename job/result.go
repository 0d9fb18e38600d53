package job

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"remshell/limit"
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
func (u Usage) CPU() time.Duration { return time.Duration(plus(int64(u.User), int64(u.System))) }

// Add counts what another process consumed at the same time.
func (u *Usage) Add(other Usage) {
	u.User = time.Duration(plus(int64(u.User), int64(other.User)))
	u.System = time.Duration(plus(int64(u.System), int64(other.System)))
	u.Wall = max(u.Wall, other.Wall)
	u.MaxRSS = max(u.MaxRSS, other.MaxRSS)
	u.InBlocks, u.OutBlocks = plus(u.InBlocks, other.InBlocks), plus(u.OutBlocks, other.OutBlocks)
}

// An Orphan is what processes consumed that outlived their parents. Rank is -1 where
// nobody can tell whose they were.
type Orphan struct {
	Rank  int
	Usage Usage
}

// An Exit is the end of one rank.
type Exit struct {
	Rank   int
	Code   int  // exit code, when Signal is 0
	Signal int  // the signal that killed it
	Core   bool // a core was dumped
	Asked  bool // it had been told to end before
	PMI    PMIState
	Usage  Usage
	Hint   string // what the node knows about the reason; empty: nothing
	Built  string // the library for MPI or PMIx that the program is linked with; empty: none, or not looked
	Offer  Offer  // by what the rank could have found us; empty: not told
	Input  int64  // how many bytes of its standard input it has read, if we have written that; -1: unknown

	// How far MPI_Finalize came, of a rank that we ended.
	Barrier int    // of PMI, from 1, in which it waited; 0: in none
	Fault   string // of its library, as package mpifault has it, by which it may have waited for ever; empty: none is known
}

// A PMIState is how far a rank came with its process manager interface.
type PMIState int8

// The states at a rank's end.
const (
	PMINever     PMIState = iota // it never said init: no MPI program of ours
	PMIOpen                      // init, and no finalize
	PMIFinalized                 // finalize
	PMIAborted                   // it asked for the end of the job
)

// A RankState is what a rank is doing at one moment.
type RankState struct {
	Rank    int
	PID     int    // of its process; 0: it has none
	Life    string // "starting", "running", "over"
	PMI     PMIState
	Barrier int           // the barrier in which it waits, from 1; 0: none
	Waits   string        // for what else it waits, in words; empty: for nothing that is known
	CPU     time.Duration // of its process and the children it waited for
	Sleep   string        // kernel wait channel; empty: it runs, or the kernel does not tell
	Kind    string        // state letter of proc(5)
	Stack   string        // by whom it is told, and where it is, line by line; empty: it is not told
}

// Bounded returns the state without its stack and with words of 256 bytes at most, as what another user has written is read.
func (r RankState) Bounded() RankState {
	r.Stack = ""
	for _, word := range []*string{&r.Life, &r.Waits, &r.Sleep, &r.Kind} {
		*word = bounded(*word)
	}
	return r
}

func bounded(word string) string {
	const most = 256
	if len(word) <= most {
		return word
	}
	return strings.Clone(word[:most]) // the whole is not kept
}

// Connected reports whether a rank has come to its helper. If any of a job has, that is no plain program.
func (r RankState) Connected() bool { return r.PMI != PMINever }

// Unconnected is what a rank is doing that is to say init, and has not.
const Unconnected = "not yet connected"

// Doing says in words what a rank is doing, of a job of which some rank has come to its helper, or none.
func (r RankState) Doing(connected bool) string {
	switch {
	case r.Life != "running":
		return r.Life
	case r.Kind == "T":
		return "stopped"
	case r.Barrier > 0:
		return fmt.Sprint("in barrier ", r.Barrier)
	case r.Waits != "":
		return r.Waits
	case connected && !r.Connected():
		return Unconnected
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

// A Bound is a limit that the kernel enforces in each process of a rank, in bytes, ns or a count;
// limit.Unlimited: there shall be none.
type Bound struct {
	Resource limit.Resource
	Most     int64
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
	SysVShm  = "sysvshm"  // a segment of System V
	PosixShm = "posixshm" // a file in /dev/shm
)

// A Remnant is shared memory that a rank has left which did not end well. Its node has freed it.
type Remnant struct {
	Node  string // as the plan has it
	Kind  string
	ID    string // of a segment its number, of a file its path
	Bytes int64
	Rank  int    // -1: some of the node's; which, nobody knows
	Err   string // why it is still there; empty: it is not
}

// A Result is what came of a job.
type Result struct {
	Code     int    // exit code for mpiexec (cli.md section 7)
	Cause    string // what ended the job, in one line; empty: nothing did
	Reason   string // the same in a word (RM-53): ok, exit, signal, limit, start, host_lost, user, internal
	Connects []Connect
	Starts   iter.Seq[Start] // in the order in which they were told; nil: none was
	Exits    []*Exit         // as they were told; orphans are counted in
	Hosts    []Total         // in the order of the plan
	Used     Accounts
	Attempts []Attempt // if there may have been several; the rest is about the last
	Remnants []Remnant // in the order in which they were told
}

// A Connect is how a candidate was reached.
type Connect struct {
	Node string
	Host string // its own name for itself
	Took time.Duration
	Sent int64  // bytes of our program
	Err  string // why it was not; empty: it was

	Accounted *bool // the batch system holds what runs there (RM-45); nil: nobody knows
}

// A Start is a rank that runs, or why it does not.
type Start struct {
	Rank, PID int
	Node      string
	After     time.Duration // since ranks were let go
	Err       string
}

// A Total is what the ranks of one node consumed together. Peak is the rank that had most
// memory; -1: none.
type Total struct {
	Node  string
	Ranks int
	Ended int // of them, those of whose end was told
	Usage Usage
	Peak  int

	Sessions []string // directories of Open MPI's files that stay there
}
