package wire

import (
	"time"

	"remshell/job"
)

/*
Messages that collect the data for a plan, and reserve what it uses. Prepare is in prepare.go.

	mpiexec                                      helper
	   | WriteMark ------------------------------->   to one of two nodes that may be the same machine
	   | <----------------------------- MarkWritten
	   | ReadMarks ------------------------------->   to the other node
	   | <------------------------------- MarksRead
	   | Survey ---------------------------------->
	   | <-------------------------------- Surveyed   claims of running jobs, load, speed
	   | Prepare --------------------------------->   ranks, environment, claim
	   | <-------------------------------- Prepared   ready, or
	   | <--------------------------------- Refused   why not, or
	   | <--------------------------- ClaimConflict   another job claimed the CPUs first
	   | CancelPrepare --------------------------->   plan again
	   | ReleaseClaims --------------------------->   the job has to wait: remove the claim of its last attempt
*/

// WriteMark requests that the helper write a mark, which is a random string, into the shared-memory directory /dev/shm.
// Only a helper in the same namespaces of the same machine can read the mark. So mpiexec need not trust what either of
// two nodes reports to know that they are one machine (rule TRUST-6).
type WriteMark struct {
	AnsweredBy[*MarkWritten]

	Tag, Mark string
}

func (m *WriteMark) Fields(c *Codec) {
	c.Text(&m.Tag, markLength)
	c.Text(&m.Mark, markLength)
}

// MarkWritten is the reply to WriteMark. Err says why the helper could not write the mark. It is empty on success.
type MarkWritten struct{ Err string }

func (m *MarkWritten) Fields(c *Codec) { c.Sentence(&m.Err, "error") }

// ReadMarks asks the helper for all marks (see WriteMark) with the given tag.
type ReadMarks struct {
	AnsweredBy[*MarksRead]

	Tag string
}

func (m *ReadMarks) Fields(c *Codec) { c.Text(&m.Tag, markLength) }

// MarksRead is the reply to ReadMarks. It contains the marks with the tag.
type MarksRead struct{ Marks []string }

func (m *MarksRead) Fields(c *Codec) { c.Texts(&m.Marks, Length{"marks", MaxMarks}, markLength) }

// Survey requests the claims of running jobs on the node, and the load of the node. The reply leaves out the claims of
// OwnJob, of ParentJob, and of the jobs in which ParentJob runs.
type Survey struct {
	AnsweredBy[*Surveyed]

	Ledger    string
	ParentJob job.ID
	OwnJob    job.ID

	IgnoredUsers []int // IDs of users whose claims do not count either (TRUST-18)

	RM string // the job's batch job: claims outside of it are reported separately (RM-20)

	WantAttributes bool // Attributes are wanted (which-hosts.md 2.1)
	WantGang       bool // the job is a gang: Gang is wanted
}

func (m *Survey) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Word((*string)(&m.ParentJob), "job")
	c.Word((*string)(&m.OwnJob), "job")
	c.Nums(&m.IgnoredUsers, Length{"uids", maxEntries}, uidRange)
	c.Word(&m.RM, "batch job")
	c.Bool(&m.WantAttributes)
	c.Bool(&m.WantGang)
}

// Surveyed is the reply to Survey. InParentJob confirms that ParentJob runs on this node and has claimed all CPUs
// that the helper may use. If Notice is set, it says why the helper cannot use the ledger, and jobs on this node
// may share CPUs. Forbidden says why the node's administrator does not allow this user to run ranks, and is empty
// if the user may run ranks. Drained is set if the reason is that root has drained the node. If Limited is set,
// MaxRanks is the maximum number of ranks of all jobs together. Warnings are about the administrator's file.
type Surveyed struct {
	InParentJob      bool
	Forbidden        string
	Drained          bool
	Limited          bool
	MaxRanks         int
	Occupancy        job.Occupancy
	OutsideOccupancy job.Occupancy // with Survey.RM: claims of jobs outside of it, which Occupancy then leaves out
	Load             [3]float64
	Notice           string
	Attributes       job.Attributes // zero unless Survey.WantAttributes was set
	Warnings         []string
	Gang             job.GangTerms // of this node; zero unless Survey.WantGang was set
	Clock            time.Time     // of this node; zero unless Survey.WantGang was set
}

func (m *Surveyed) Fields(c *Codec) {
	c.Bool(&m.InParentJob)
	c.Sentence(&m.Forbidden, "reason")
	c.Bool(&m.Drained)
	c.Bool(&m.Limited)
	c.Num(&m.MaxRanks, CountRange)
	c.occupancy(&m.Occupancy)
	c.occupancy(&m.OutsideOccupancy)
	c.load(&m.Load)
	c.Sentence(&m.Notice, "notice")
	c.attributes(&m.Attributes)
	c.warnings(&m.Warnings)
	c.gangTerms(&m.Gang)
	c.Time(&m.Clock, "clock")
}

func (c *Codec) warnings(p *[]string) {
	List(c, p, Length{"warnings", job.MaxWarnings}, func(c *Codec, p *string) { c.Sentence(p, "warning") })
}

func (c *Codec) occupancy(u *job.Occupancy) {
	c.Num(&u.Ranks, CountRange)
	c.Num(&u.BoundRanks, CountRange)
	c.CPUs(&u.BusyCPUs)
	c.CPUs(&u.SharedCPUs)
	c.Bool(&u.ExclusivelyHeld)
	List(c, &u.GangCPUs, Length{"gangs", maxGangs}, func(c *Codec, g *job.GangCPUs) {
		c.Word((*string)(&g.Job), "job")
		c.Num(&g.Party, Range{"party", 0, job.MaxParties - 1})
		c.CPUs(&g.CPUs)
	})
	c.Num64(&u.GangMemory, BytesRange)
	c.Texts(&u.BusyGPUs, Length{"addresses", maxGPUs}, busAddressLength)
	c.Word(&u.TopUser, "user")
	c.Num(&u.TopUID, uidRange)
	c.Word((*string)(&u.TopJob), "job")
	c.Num(&u.TopPID, pidRange)
	c.Time(&u.Since, "time")
	c.Bool(&u.Idle)
	c.Bool(&u.Movable)
}

// Prepared reports that the helper has done everything that can fail before a start. If Notice is set, there is no
// claim, and other jobs may use the same CPUs. Rendezvous is an address and a free port on this node, for the
// variables of PyTorch. It is set only on the node of rank 0, and only if the job asks for these variables.
type Prepared struct{ Group, Notice, Rendezvous string }

func (m *Prepared) Fields(c *Codec) {
	c.Word(&m.Group, "group")
	c.Sentence(&m.Notice, "notice")
	c.Word(&m.Rendezvous, "meeting point")
}

// Refused says why this node cannot run its ranks. Code is the resulting exit code of mpiexec: 125, 126 or
// 127 (cli.md section 7).
type Refused struct {
	Group  string
	Code   int
	Reason string
	Hint   string
}

func (m *Refused) Fields(c *Codec) {
	c.Word(&m.Group, "group")
	c.Num(&m.Code, codeRange)
	c.Sentence(&m.Reason, "reason")
	c.Sentence(&m.Hint, "hint")
}

// ClaimConflict is the reply to Prepare if another job has claimed some of the planned CPUs since the survey. The
// helper has then claimed nothing.
type ClaimConflict struct{ Group, Reason string }

func (m *ClaimConflict) Fields(c *Codec) {
	c.Word(&m.Group, "group")
	c.Sentence(&m.Reason, "reason")
}

// CancelPrepare withdraws a Prepare, for example because another node has sent Refused or ClaimConflict.
type CancelPrepare struct{ Group string }

func (m *CancelPrepare) Fields(c *Codec) { c.Word(&m.Group, "group") }

// ReleaseClaims makes the helper remove claims that it keeps for the next attempt of the job, or for a
// standby node. mpiexec sends it when the job begins to wait in the queue, because waiting jobs must not
// claim anything (survive.md SV-5).
type ReleaseClaims struct{}

func (m *ReleaseClaims) Fields(*Codec) {}
