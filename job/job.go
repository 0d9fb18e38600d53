/*
Package job holds the nouns of Remshell: what was asked (Request), what was seen
(Snapshot), what will be done (Plan) and what came of it (Result).

	Request + Snapshot --plan.Make--> Plan --launch.Run--> Result

Nothing here decides, reads or prints anything. A node is a machine, a host a
name one connects to, a rank a process of the job, a section the part of the
command line between two colons, and the helper our own process on a node.
*/
package job

import (
	"time"

	"remshell/pin"
)

// An ID names a job. It is unique over launchers and time, at most 40 bytes of
// [A-Za-z0-9_.-], and serves as key-value space name of the job's PMI group.
type ID string

// A Request is everything the user asked for, with all defaults filled in that
// do not depend on the nodes.
type Request struct {
	Job      ID
	Apps     []App     // at least one; several for ":" sections
	Nodes    []NodeDef // candidates in the user's order
	PerNode  int       // most ranks per node; 0: no limit
	Overbook bool      // more ranks than slots are welcome
	Forbid   bool      // --nooversubscribe: no overbooking, whatever the default
	Nameless bool      // nothing named any host: a try-out on this machine
	Sort     string    // sort.Mode; empty: the order of Nodes
	Skip     bool      // --skip-unreachable: go on without lost candidates
	Limits   Limits
	Base     Env // for every rank: the launcher's environment and -genv
	Ends     Ends
}

// An App is what one section of the command line starts.
type App struct {
	N       int      // ranks; 0: as many as there are slots
	Argv    []string // the program as the user wrote it, and its arguments
	Dir     string   // working directory on the node
	Env     Env      // on top of Request.Base
	Hosts   []string // names of the nodes this section is confined to; nil: all
	PerNode int      // as Request.PerNode, for this section; 0: the job's
}

// An Env says how the environment of a rank differs from that of its helper.
type Env struct {
	Bare  bool     // start from the few variables of cli.md ENV-3, not from all
	Set   []string // NAME=VALUE; later ones win
	Unset []string // names; a trailing * matches any rest
}

// Ends says what the end of a rank means for the others, and for our exit code.
type Ends struct {
	KeepOnExit   bool   // a rank that exits with a code other than 0 does not end the job
	KeepOnSignal bool   // nor does one that dies by a signal
	Status       string // "first" (also ""), "max", "rank0" or "or" (cli.md EXIT-3)
}

// Limits are the times the job must keep. Zero means no limit.
type Limits struct {
	Run   time.Duration // -timeout: the whole run
	Start time.Duration // --start-timeout: until every rank runs
	Grace time.Duration // --kill-grace: between SIGTERM and SIGKILL
}

// A NodeDef is a candidate as it was named, before anybody looked at it.
type NodeDef struct {
	ID       int    // position of first mention, from 0
	Name     string // as the user wrote it; the label in every message
	Slots    int    // as the user wrote it; 0: as many as the node has CPUs
	MaxSlots int    // no overbooking beyond it (HOST-11); 0: no limit
	Origin   string // where it was named: "-host", "hosts.txt:3"
	User     string // login name, when the entry has one
	Host     string // as the entry names it: the alias that SSH looks up
	Address  string // where to connect instead, when the entry says so
	Port     int    // 0: as configured
	Local    bool   // this machine: reached without SSH
}

// A Node is a candidate and what its probe found.
type Node struct {
	NodeDef
	Probe
}

// A Probe is what a helper tells of its machine.
type Probe struct {
	Hostname string
	Arch     string // as in GOARCH
	Kernel   string
	Identity string // equal on two helpers exactly if they share one machine (HOST-8)
	Topology pin.Topology
	Load     [3]float64 // of 1, 5 and 15 minutes; negative: unknown
}

// A Failure is a candidate that could not be used, with the reason in words
// that do not repeat the host's name.
type Failure struct {
	Node   string
	Origin string
	Err    error
}

// A Snapshot is what the probes of all candidates found at one time.
type Snapshot struct {
	Nodes  []Node
	Failed []Failure
}

// A Plan is the decision: which rank runs where.
type Plan struct {
	Job     ID
	Size    int
	Nodes   []NodePlan // only nodes with ranks, in the order they were filled
	Mapping string     // PMI_process_mapping; empty: better not told
	Notes   []Note
}

// A NodePlan is the part of a plan that one helper carries out.
type NodePlan struct {
	Node  int // index into Snapshot.Nodes
	Name  string
	Ranks []RankPlan // ascending by rank
}

// A RankPlan is one rank of the plan.
type RankPlan struct {
	Rank, Local, App int
}

// A Note has a code for programs and a sentence for people.
type Note struct{ Code, Node, Text string }

// Usage is what a rank and its waited-for children consumed.
type Usage struct {
	Wall, User, System time.Duration
	MaxRSS             int64 // bytes
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
}

// A PMIState is how far a rank came with its process manager interface.
type PMIState int

// The states at a rank's end.
const (
	PMINever     PMIState = iota // it never said init: no MPI program of ours
	PMIOpen                      // init, and no finalize
	PMIFinalized                 // finalize
)

// Status is the exit code a shell would show: the code, or 128 and the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

// A Result is what came of a job.
type Result struct {
	Code  int  // exit code for mpiexec (cli.md section 7)
	Ours  bool // Code is mpiexec's own failure, and not that of a rank
	Exits []Exit
}
