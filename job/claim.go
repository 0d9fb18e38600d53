package job

import (
	"slices"
	"time"

	"remshell/idset"
)

// This file is what jobs hold of nodes, as the ledgers of those have it.

// A Use is what live jobs hold of a node.
type Use struct {
	Procs  int   // their ranks
	Seated int   // of those, ranks whose CPUs are all in Busy
	Busy   []int // their CPUs, as far as they are known
	Shared []int // of Busy, CPUs that are held only by jobs which share CPUs (Claim.Shares)
	Taken  bool  // one of them has the node for itself
	Own    int   // of Procs, those of the job itself, which is to grow

	BusyGPUs []string // the addresses of theirs

	Who    string    // the user who has most of it, by his own word; empty: nobody
	WhoUID int       // the owner of his entries
	WhoJob ID        // one of his jobs
	WhoPID int       // the process of his oldest claim, by his own word; 0: unknown
	Since  time.Time // when that began
	Idle   bool      // none of its ranks lives

	Movable bool // WhoJob can be moved, as it says
}

// And is what two jobs hold together.
func (u Use) And(v Use) Use {
	who := u
	if len(v.Busy) > len(u.Busy) || u.Who == "" {
		who = v
	}
	return Use{u.Procs + v.Procs, u.Seated + v.Seated, idset.Of(slices.Concat(u.Busy, v.Busy)...), sharedBy(u, v), u.Taken || v.Taken, u.Own + v.Own,
		append(slices.Clone(u.BusyGPUs), v.BusyGPUs...), who.Who, who.WhoUID, who.WhoJob, who.WhoPID, who.Since, who.Idle, who.Movable}
}

// sharedBy returns the CPUs that one of u and v shares and the other does not hold alone.
func sharedBy(u, v Use) (shared []int) {
	alone := func(u Use, cpu int) bool { return idset.Set(u.Busy).Has(cpu) && !idset.Set(u.Shared).Has(cpu) }
	for _, cpu := range idset.Of(slices.Concat(u.Shared, v.Shared)...) {
		if !alone(u, cpu) && !alone(v, cpu) {
			shared = append(shared, cpu)
		}
	}
	return shared
}

// A Claim is what one live job holds of one node, as the node's ledger has it
// (placement.md 6.4, job files). All of it but UID is what the claimant says.
type Claim struct {
	Job       ID            `json:"job"`
	Inside    ID            `json:"inside,omitempty"` // the job in whose rank its launcher runs
	UID       int           `json:"uid"`              // the owner of the file
	User      string        `json:"user"`
	From      string        `json:"from"` // the host of its mpiexec
	Node      string        `json:"node"` // as the job calls it
	Nodes     int           `json:"nodes"`
	Size      int           `json:"size"` // ranks of the whole job
	Ranks     []ClaimedRank `json:"ranks"`
	Exclusive bool          `json:"exclusive,omitempty"`
	Since     time.Time     `json:"since"`
	Command   string        `json:"command"`
	RM        string        `json:"rm,omitempty"` // RM.ID of the batch system's job it is a part of

	Shares bool `json:"shares,omitempty"` // other jobs with Shares may use its CPUs (--oversubscribe)

	Class   string `json:"class,omitempty"`
	NodeSet string `json:"node_set,omitempty"` // Choice.SetName of the job, the beginning of a long one

	Depth int `json:"depth,omitempty"` // CPUs of each rank; 0: one; of several sections the most
	Shape int `json:"shape,omitempty"` // ranks on each node, exactly, likewise; 0: nothing was said

	PID      int  `json:"pid,omitempty"`      // of the process that has the ranks; 0: unknown
	Launcher int  `json:"launcher,omitempty"` // the process ID of its mpiexec, on From; 0: unknown
	Idle     bool `json:"-"`                  // none of its ranks lives (TRUST-16)
	Stopped  bool `json:"-"`                  // some of its ranks live, and the kernel runs none of them

	Movable bool `json:"movable,omitempty"` // it can be moved, by whom it obeys (survive.md SV-17)

	Resting Resting `json:"idle,omitempty"` // why none of its ranks is meant to live; empty: they are
}

// Resting is why a job holds what nobody uses, on purpose (survive.md SV-2).
type Resting string

// The reasons. What else a ledger says is none.
const (
	Restarting Resting = "restarting" // between two attempts
	Spare      Resting = "spare"      // for an attempt that may come (SV-7)
)

// Known reports whether it is one of the reasons.
func (r Resting) Known() bool { return r == Restarting || r == Spare }

// A Whose tells jobs apart: others can make claims in the name of one.
type Whose struct {
	Job ID
	UID int // the owner of the entry
}

// Whose is the job whose claim it is.
func (c Claim) Whose() Whose { return Whose{c.Job, c.UID} }

// A ClaimedRank is one rank of a claim with the CPUs of its slots.
type ClaimedRank struct {
	Rank int   `json:"rank"`
	CPUs []int `json:"cpus"` // kernel numbers, ascending; none: not known

	GPUs []string `json:"gpus,omitempty"` // the addresses of its GPUs
}

// A Ticket is a place in the queue (placement.md 6.4, tickets).
type Ticket struct {
	Number  int64     `json:"number"` // from 1
	Job     ID        `json:"job"`
	UID     int       `json:"uid"` // the owner of the file
	User    string    `json:"user"`
	From    string    `json:"from"` // the host of its mpiexec
	Size    int       `json:"size"` // ranks wanted; 0: as many as there are slots
	Since   time.Time `json:"since"`
	Summary string    `json:"summary"`

	// What it wants, so that others can see whether there is room for it (TRUST-18).
	CPUs      int    `json:"cpus,omitempty"` // of each rank; 0: one
	Exclusive bool   `json:"exclusive,omitempty"`
	PerNode   int    `json:"pernode,omitempty"` // ranks at most; 0: no limit
	Shares    bool   `json:"shares,omitempty"`  // CPUs, so that any number fits where one does
	Nodes     string `json:"nodes,omitempty"`   // the host names of the nodes, folded; empty: not said
	PID       int    `json:"pid,omitempty"`     // of the process that holds it

	Shape   int    `json:"shape,omitempty"`    // as a claim has it
	NodeSet string `json:"node_set,omitempty"` // the sets it asks for, in their canonical form

	Delay int       `json:"delay,omitempty"` // seconds that it may insist on a node set at the head
	Until time.Time `json:"until,omitzero"`  // the end of that, if it is known
}

// A Page is what the ledger of one node holds.
type Page struct {
	Where   string // the directory, and what the node's entries in it begin with
	Node    string // as the user calls it
	Queue   bool   // it keeps the queue, in Tickets
	UID     int    // of who has looked
	Claims  []Claim
	Tickets []Ticket
	States  []RankState // of the job that was asked about
	Err     string      // why it cannot be read; empty: it was
	Notice  string      // whose entries are left out, and why; empty: nobody's
}
