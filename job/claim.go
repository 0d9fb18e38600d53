package job

import (
	"slices"
	"time"

	"remshell/idset"
)

// This file is what jobs hold of nodes, as the ledgers of those have it.

// An Occupancy is what live jobs hold of a node.
type Occupancy struct {
	Ranks           int   // their ranks
	BoundRanks      int   // of those, ranks whose CPUs are all in Busy
	BusyCPUs        []int // their CPUs, as far as they are known
	SharedCPUs      []int // of Busy, CPUs that are held only by jobs which share CPUs (Claim.Shares)
	ExclusivelyHeld bool  // one of them has the node for itself
	OwnRanks        int   // of Procs, those of the job itself, which is to grow

	BusyGPUs []string // the addresses of theirs

	TopUser string    // the user who has most of it, by his own word; empty: nobody
	TopUID  int       // the owner of his entries
	TopJob  ID        // one of his jobs
	TopPID  int       // the process of his oldest claim, by his own word; 0: unknown
	Since   time.Time // when that began
	Idle    bool      // none of its ranks lives

	Movable bool // WhoJob can be moved, as it says
}

// Union is what two jobs hold together.
func (u Occupancy) Union(v Occupancy) Occupancy {
	who := u
	if len(v.BusyCPUs) > len(u.BusyCPUs) || u.TopUser == "" {
		who = v
	}
	return Occupancy{u.Ranks + v.Ranks, u.BoundRanks + v.BoundRanks, idset.New(slices.Concat(u.BusyCPUs, v.BusyCPUs)...), sharedCPUs(u, v), u.ExclusivelyHeld || v.ExclusivelyHeld, u.OwnRanks + v.OwnRanks,
		append(slices.Clone(u.BusyGPUs), v.BusyGPUs...), who.TopUser, who.TopUID, who.TopJob, who.TopPID, who.Since, who.Idle, who.Movable}
}

// sharedCPUs returns the CPUs that one of u and v shares and the other does not hold alone.
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

// A Claim is what one live job holds of one node, as the node's ledger has it
// (placement.md 6.4, job files). All of it but UID is what the claimant says.
type Claim struct {
	Job          ID            `json:"job"`
	ParentJob    ID            `json:"inside,omitempty"` // the job in whose rank its launcher runs
	UID          int           `json:"uid"`              // the owner of the file
	User         string        `json:"user"`
	LauncherHost string        `json:"from"` // the host of its mpiexec
	Node         string        `json:"node"` // as the job calls it
	Nodes        int           `json:"nodes"`
	Size         int           `json:"size"` // ranks of the whole job
	Ranks        []ClaimedRank `json:"ranks"`
	Exclusive    bool          `json:"exclusive,omitempty"`
	Since        time.Time     `json:"since"`
	Command      string        `json:"command"`
	RM           string        `json:"rm,omitempty"` // RM.ID of the batch system's job it is a part of

	Shares bool `json:"shares,omitempty"` // other jobs with Shares may use its CPUs (--oversubscribe)

	Class   string `json:"class,omitempty"`
	NodeSet string `json:"node_set,omitempty"` // Choice.SetName of the job, the beginning of a long one

	CPUsPerRank  int `json:"depth,omitempty"` // CPUs of each rank; 0: one; of several sections the most
	ExactPerNode int `json:"shape,omitempty"` // ranks on each node, exactly, likewise; 0: nothing was said

	PID         int  `json:"pid,omitempty"`      // of the process that has the ranks; 0: unknown
	LauncherPID int  `json:"launcher,omitempty"` // the process ID of its mpiexec, on From; 0: unknown
	Idle        bool `json:"-"`                  // none of its ranks lives (TRUST-16)
	Stopped     bool `json:"-"`                  // some of its ranks live, and the kernel runs none of them

	Movable bool `json:"movable,omitempty"` // it can be moved, by whom it obeys (survive.md SV-17)

	IdleReason IdleReason `json:"idle,omitempty"` // why none of its ranks is meant to live; empty: they are
}

// IdleReason is why a job holds what nobody uses, on purpose (survive.md SV-2).
type IdleReason string

// The reasons. What else a ledger says is none.
const (
	IdleRestarting IdleReason = "restarting" // between two attempts
	IdleStandby    IdleReason = "spare"      // for an attempt that may come (SV-7)
)

// IsKnown reports whether it is one of the reasons.
func (r IdleReason) IsKnown() bool { return r == IdleRestarting || r == IdleStandby }

// A Key tells jobs apart: others can make claims in the name of one.
type Key struct {
	Job ID
	UID int // the owner of the entry
}

// Key is the job whose claim it is.
func (c Claim) Key() Key { return Key{c.Job, c.UID} }

// A ClaimedRank is one rank of a claim with the CPUs of its slots.
type ClaimedRank struct {
	Rank int   `json:"rank"`
	CPUs []int `json:"cpus"` // kernel numbers, ascending; none: not known

	GPUs []string `json:"gpus,omitempty"` // the addresses of its GPUs
}

// A Ticket is a place in the queue (placement.md 6.4, tickets).
type Ticket struct {
	Number       int64     `json:"number"` // from 1
	Job          ID        `json:"job"`
	UID          int       `json:"uid"` // the owner of the file
	User         string    `json:"user"`
	LauncherHost string    `json:"from"` // the host of its mpiexec
	Size         int       `json:"size"` // ranks wanted; 0: as many as there are slots
	Since        time.Time `json:"since"`
	Summary      string    `json:"summary"`

	// What it wants, so that others can see whether there is room for it (TRUST-18).
	CPUs      int    `json:"cpus,omitempty"` // of each rank; 0: one
	Exclusive bool   `json:"exclusive,omitempty"`
	PerNode   int    `json:"pernode,omitempty"` // ranks at most; 0: no limit
	Shares    bool   `json:"shares,omitempty"`  // CPUs, so that any number fits where one does
	Nodes     string `json:"nodes,omitempty"`   // the host names of the nodes, folded; empty: not said
	PID       int    `json:"pid,omitempty"`     // of the process that holds it

	ExactPerNode int    `json:"shape,omitempty"`    // as a claim has it
	NodeSet      string `json:"node_set,omitempty"` // the sets it asks for, in their canonical form

	MaxSetDelay int       `json:"delay,omitempty"` // seconds that it may insist on a node set at the head
	SetDelayEnd time.Time `json:"until,omitzero"`  // the end of that, if it is known
}

// A LedgerListing is what the ledger of one node holds.
type LedgerListing struct {
	Path       string // the directory, and what the node's entries in it begin with
	Node       string // as the user calls it
	KeepsQueue bool   // it keeps the queue, in Tickets
	ReaderUID  int    // of who has looked
	Claims     []Claim
	Tickets    []Ticket
	States     []RankState // of the job that was asked about
	Err        string      // why it cannot be read; empty: it was
	Notice     string      // whose entries are left out, and why; empty: nobody's
}
