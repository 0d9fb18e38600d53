package job

import (
	"slices"
	"time"

	"remshell/idset"
)

// This file has the types for claims and tickets, as nodes' ledgers record them.

// An Occupancy says which CPUs and GPUs of a node are in use by running jobs, according to the jobs' claims on the
// node.
type Occupancy struct {
	Ranks           int        // ranks of these jobs
	BoundRanks      int        // of Ranks, those whose CPUs are all in BusyCPUs
	BusyCPUs        []int      // claimed CPUs, if they are known
	SharedCPUs      []int      // of BusyCPUs, those that are claimed only by jobs with Claim.Shares
	ExclusivelyHeld bool       // one job has claimed the whole node
	GangCPUs        []GangCPUs // of BusyCPUs, those that are claimed only by gangs, for each gang
	GangMemory      int64      // bytes that gangs may need (Gang.Memory)
	OwnRanks        int        // number of Ranks that belong to the requesting job itself, when it spawns

	BusyGPUs []string // PCI addresses of claimed GPUs

	TopUser string    // name of the user with the most CPUs, as the claim gives it (not verified); empty: no user
	TopUID  int       // owner of this user's claim files
	TopJob  ID        // one of this user's jobs
	TopPID  int       // process of this user's oldest claim, as the claim gives it (not verified); 0: unknown
	Since   time.Time // time of this user's oldest claim
	Idle    bool      // no rank of TopJob is running

	Movable bool // TopJob can be moved, as its claim says
}

// Union returns the occupancy of a node by the jobs of u and v together. The fields about the top user, from
// TopUser to Movable, come from the one of u and v in which more CPUs are busy.
func (u Occupancy) Union(v Occupancy) Occupancy {
	top := u
	if len(v.BusyCPUs) > len(u.BusyCPUs) || u.TopUser == "" {
		top = v
	}
	return Occupancy{u.Ranks + v.Ranks, u.BoundRanks + v.BoundRanks, idset.New(slices.Concat(u.BusyCPUs, v.BusyCPUs)...), sharedCPUs(u, v), u.ExclusivelyHeld || v.ExclusivelyHeld,
		gangCPUs(u, v), u.GangMemory + v.GangMemory, u.OwnRanks + v.OwnRanks,
		append(slices.Clone(u.BusyGPUs), v.BusyGPUs...), top.TopUser, top.TopUID, top.TopJob, top.TopPID, top.Since, top.Idle, top.Movable}
}

// sharedCPUs returns the CPUs on which all jobs of u and v were started with --oversubscribe, so that others may share
// these CPUs.
func sharedCPUs(u, v Occupancy) (shared []int) {
	alone := func(u Occupancy, cpu int) bool {
		return idset.Set(u.BusyCPUs).Has(cpu) && !idset.Set(u.SharedCPUs).Has(cpu)
	}
	for _, cpu := range idset.New(slices.Concat(u.SharedCPUs, v.SharedCPUs)...) {
		if !alone(u, cpu) && !alone(v, cpu) {
			shared = append(shared, cpu)
		}
	}
	return shared
}

// A Claim records the CPUs and GPUs that a job has claimed on one node. It is stored in the node's ledger
// (placement.md 6.4). The helper that makes the claim writes all fields except UID. Only UID, the owner of the
// file, can be trusted.
type Claim struct {
	Job          ID            `json:"job"`
	ParentJob    ID            `json:"inside,omitempty"` // the job that started this one's mpiexec from one of its ranks; empty: none
	UID          int           `json:"uid"`              // the owner of the file
	User         string        `json:"user"`
	LauncherHost string        `json:"from"` // host on which its mpiexec runs
	Node         string        `json:"node"` // the node's name in the job
	Nodes        int           `json:"nodes"`
	Size         int           `json:"size"` // ranks of the whole job
	Ranks        []ClaimedRank `json:"ranks"`
	Exclusive    bool          `json:"exclusive,omitempty"`
	Since        time.Time     `json:"since"`
	Command      string        `json:"command"`
	RM           string        `json:"rm,omitempty"` // RM.ID of the batch job that it runs in; empty: none

	Shares bool  `json:"shares,omitempty"` // other jobs with Shares may use its CPUs (--oversubscribe)
	Gang   *Gang `json:"gang,omitempty"`   // other gangs may use its CPUs in turns (--gang); nil: it is no gang

	Class   string `json:"class,omitempty"`
	NodeSet string `json:"node_set,omitempty"` // NodeChoice.SetName of the job, cut if long

	CPUsPerRank  int `json:"depth,omitempty"` // CPUs per rank, the most of all app contexts; 0: one
	ExactPerNode int `json:"shape,omitempty"` // exact number of ranks per node, the most of all app contexts; 0: not requested

	PID         int `json:"pid,omitempty"`      // process ID of the helper; 0: unknown
	LauncherPID int `json:"launcher,omitempty"` // process ID of its mpiexec on LauncherHost; 0: unknown

	Suspended bool `json:"-"` // its ranks are stopped for another reason than the turns of gangs, as the helper shows in the ledger

	Reported []int64 `json:"-"` // values that the node's helper reports of the job, in the order of column.All; nil: not read

	Movable bool `json:"movable,omitempty"` // the job accepts requests to move it (survive.md SV-17)

	IdleReason IdleReason `json:"idle,omitempty"` // why no rank is running on purpose; empty: ranks should be running
}

// An IdleReason says why a job keeps a claim on a node on which it runs no ranks (survive.md SV-2).
type IdleReason string

// These are the reasons why a job keeps a claim without running ranks. Any other value counts as no reason.
const (
	IdleRestarting IdleReason = "restarting" // in the pause between two attempts
	IdleStandby    IdleReason = "spare"      // standby node for a later attempt (SV-7)
)

// IsKnown reports whether r is IdleRestarting or IdleStandby.
func (r IdleReason) IsKnown() bool { return r == IdleRestarting || r == IdleStandby }

// A Key identifies a job by ID and uid. An ID alone could be forged by another user.
type Key struct {
	Job ID
	UID int // owner of the claim file
}

// Key returns the key of the job that made the claim.
func (c Claim) Key() Key { return Key{c.Job, c.UID} }

// A ClaimedRank is one rank of a claim, with its CPUs and GPUs.
type ClaimedRank struct {
	Rank int   `json:"rank"`
	CPUs []int `json:"cpus"` // kernel numbers, ascending; empty: unknown

	GPUs []string `json:"gpus,omitempty"` // PCI addresses
}

// A Ticket is a job's place in the queue (placement.md 6.4, tickets).
type Ticket struct {
	Number       int64     `json:"number"` // from 1
	Job          ID        `json:"job"`
	UID          int       `json:"uid"` // the owner of the file
	User         string    `json:"user"`
	LauncherHost string    `json:"from"` // host on which its mpiexec runs
	Size         int       `json:"size"` // ranks requested; 0: one per slot
	Since        time.Time `json:"since"`
	Summary      string    `json:"summary"`

	// What the job needs, so that other jobs can check whether it fits (rule TRUST-18).
	CPUs      int    `json:"cpus,omitempty"` // per rank; 0: one
	Exclusive bool   `json:"exclusive,omitempty"`
	PerNode   int    `json:"pernode,omitempty"` // most ranks per node; 0: no limit
	Shares    bool   `json:"shares,omitempty"`  // it shares CPUs, so any number of ranks fits where one fits
	Nodes     string `json:"nodes,omitempty"`   // host names of the nodes in compressed form, "n[1-4]"; empty: not given
	PID       int    `json:"pid,omitempty"`     // process ID of the ticket's holder

	ExactPerNode int    `json:"shape,omitempty"`    // as in Claim
	NodeSet      string `json:"node_set,omitempty"` // the node sets requested, in canonical form

	MaxSetDelay int       `json:"delay,omitempty"` // how many seconds it may wait at the head of the queue for a node set
	SetDelayEnd time.Time `json:"until,omitzero"`  // when that time ends; zero: unknown
}

// A LedgerListing lists the claims and tickets in one node's ledger. A claim records the CPUs of a job, and a
// ticket records its place in the queue.
type LedgerListing struct {
	Path       string // the directory, and the prefix of the node's entries in it
	Node       string // the node's name in the user's host list
	KeepsQueue bool   // this node keeps the queue; Tickets has its contents
	ReaderUID  int    // user ID of the process that read the ledger
	Claims     []Claim
	Tickets    []Ticket
	States     []RankState  // of the requested job
	Stacks     *StackReport // of the ranks of the requested job; nil: not requested
	Err        string       // why the ledger could not be read; empty: it was read
	Notice     string       // which users' entries were skipped and why; empty: none

	Settings NodeSettings // the node's settings at run time
}
