package wire

import (
	"remshell/job"
)

/*
What a plan needs, and what it takes. Prepare is in prepare.go.

	mpiexec                                      helper
	   | WriteMark ------------------------------->   to one of two that seem to be one machine
	   | <----------------------------- MarkWritten
	   | ReadMarks ------------------------------->   to the other
	   | <------------------------------- MarksRead
	   | Survey ---------------------------------->
	   | <-------------------------------- Surveyed   what live jobs hold, load, speed
	   | Prepare --------------------------------->   ranks, environment, claim
	   | <-------------------------------- Prepared   ready, or
	   | <--------------------------------- Refused   why not, or
	   | <--------------------------- ClaimConflict   that another job was faster
	   | CancelPrepare --------------------------->   plan again
	   | ReleaseClaims --------------------------->   the job waits: what an earlier attempt of it claimed goes
*/

// WriteMark asks to lay a word open where only the same machine and name spaces can see it: in the
// directory of shared memory. So two names are shown to be one machine, which nobody is believed
// by his word alone (TRUST-6).
type WriteMark struct{ Tag, Mark string }

func (m *WriteMark) fields(c *codec) {
	c.text(&m.Tag, markLength)
	c.text(&m.Mark, markLength)
}

// MarkWritten answers Lay, and says why that could not be.
type MarkWritten struct{ Err string }

func (m *MarkWritten) fields(c *codec) { c.sentence(&m.Err, "error") }

// ReadMarks asks for the words that lie open under a tag.
type ReadMarks struct{ Tag string }

func (m *ReadMarks) fields(c *codec) { c.text(&m.Tag, markLength) }

// MarksRead answers Seek.
type MarksRead struct{ Marks []string }

func (m *MarksRead) fields(c *codec) { c.texts(&m.Marks, length{"words", MaxMarks}, markLength) }

// Survey asks what live jobs hold of the node. What belongs to the job Inside, and to
// those it is inside of itself, does not count; nor what belongs to the job Own.
type Survey struct {
	Ledger    string
	ParentJob job.ID
	OwnJob    job.ID

	IgnoredUsers []int // users, by number, whose claims do not count either (TRUST-18)

	RM string // the batch system's job that we are a part of: what is outside of it is told apart (RM-20)

	WantAttributes bool // what sets of nodes are made by is wanted too (which-hosts.md 2.1)
}

func (m *Survey) fields(c *codec) {
	c.text(&m.Ledger, pathLength)
	c.word((*string)(&m.ParentJob), "job")
	c.word((*string)(&m.OwnJob), "job")
	c.nums(&m.IgnoredUsers, length{"uids", maxEntries}, uidRange)
	c.word(&m.RM, "batch job")
	c.boolean(&m.WantAttributes)
}

// Surveyed answers Survey. Inside says that the job named there runs here indeed, and
// has all that the helper could use. With Notice the ledger cannot be used: jobs on this node are not kept apart.
// Barred says why the node's administrator lets nothing of ours run there, and if it is
// Limited he lets so many ranks of all jobs run at most. Warnings are about his file. Traits are void unless they were asked for.
type Surveyed struct {
	InParentJob      bool
	Forbidden        string
	Limited          bool
	MaxRanks         int
	Occupancy        job.Occupancy
	OutsideOccupancy job.Occupancy // with Survey.RM: of jobs outside of it, which Use does not count then
	Load             [3]float64
	Notice           string
	Attributes       job.Attributes
	Warnings         []string
}

func (m *Surveyed) fields(c *codec) {
	c.boolean(&m.InParentJob)
	c.sentence(&m.Forbidden, "reason")
	c.boolean(&m.Limited)
	c.num(&m.MaxRanks, countRange)
	c.occupancy(&m.Occupancy)
	c.occupancy(&m.OutsideOccupancy)
	c.load(&m.Load)
	c.sentence(&m.Notice, "notice")
	c.attributes(&m.Attributes)
	c.warnings(&m.Warnings)
}

func (c *codec) warnings(p *[]string) {
	list(c, p, length{"warnings", job.MaxWarnings}, func(c *codec, p *string) { c.sentence(p, "warning") })
}

func (c *codec) occupancy(u *job.Occupancy) {
	c.num(&u.Ranks, countRange)
	c.num(&u.BoundRanks, countRange)
	c.cpus(&u.BusyCPUs)
	c.cpus(&u.SharedCPUs)
	c.boolean(&u.ExclusivelyHeld)
	c.texts(&u.BusyGPUs, length{"addresses", maxGPUs}, busAddressLength)
	c.word(&u.TopUser, "user")
	c.num(&u.TopUID, uidRange)
	c.word((*string)(&u.TopJob), "job")
	c.num(&u.TopPID, pidRange)
	c.timestamp(&u.Since, "time")
	c.boolean(&u.Idle)
	c.boolean(&u.Movable)
}

// Prepared says that everything that can fail before a start is done. With Notice there
// is no claim: other jobs may use the same CPUs. Where rank 0 is and torch's variables
// are wanted, Meet is where all ranks can meet: an address and a free port.
type Prepared struct{ Group, Notice, Rendezvous string }

func (m *Prepared) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Notice, "notice")
	c.word(&m.Rendezvous, "meeting point")
}

// Refused says why this node cannot take its ranks. Code is the exit code of
// cli.md section 7 that fits: 126, 127 or 125.
type Refused struct {
	Group  string
	Code   int
	Reason string
	Hint   string
}

func (m *Refused) fields(c *codec) {
	c.word(&m.Group, "group")
	c.num(&m.Code, codeRange)
	c.sentence(&m.Reason, "reason")
	c.sentence(&m.Hint, "hint")
}

// ClaimConflict answers Prepare when another job has, meanwhile, what the plan gives this
// one. Nothing is claimed.
type ClaimConflict struct{ Group, Reason string }

func (m *ClaimConflict) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Reason, "reason")
}

// CancelPrepare takes a Prepare back: another node had been taken.
type CancelPrepare struct{ Group string }

func (m *CancelPrepare) fields(c *codec) { c.word(&m.Group, "group") }

// ReleaseClaims gives up what the helper claims since Renew, or as a spare: the job waits for its turn, and who
// waits holds nothing (survive.md SV-5).
type ReleaseClaims struct{}

func (m *ReleaseClaims) fields(*codec) {}
