package wire

import (
	"remshell/job"
)

/*
What a plan needs, and what it takes. Prepare is in prepare.go.

	mpiexec                                      helper
	   | Lay ------------------------------------->   to one of two that seem to be one machine
	   | <------------------------------------ Laid
	   | Seek ------------------------------------>   to the other
	   | <---------------------------------- Sought
	   | Survey ---------------------------------->
	   | <-------------------------------- Surveyed   what live jobs hold, load, speed
	   | Prepare --------------------------------->   ranks, environment, claim
	   | <-------------------------------- Prepared   ready, or
	   | <--------------------------------- Refused   why not, or
	   | <----------------------------------- Taken   that another job was faster
	   | Release --------------------------------->   plan again
	   | Yield ----------------------------------->   the job waits: what an earlier attempt of it claimed goes
*/

// Lay asks to lay a word open where only the same machine and name spaces can see it: in the
// directory of shared memory. So two names are shown to be one machine, which nobody is believed
// by his word alone (TRUST-6).
type Lay struct{ Tag, Word string }

func (m *Lay) fields(c *codec) {
	c.text(&m.Tag, aMark)
	c.text(&m.Word, aMark)
}

// Laid answers Lay, and says why that could not be.
type Laid struct{ Err string }

func (m *Laid) fields(c *codec) { c.sentence(&m.Err, "error") }

// Seek asks for the words that lie open under a tag.
type Seek struct{ Tag string }

func (m *Seek) fields(c *codec) { c.text(&m.Tag, aMark) }

// Sought answers Seek.
type Sought struct{ Words []string }

func (m *Sought) fields(c *codec) { c.texts(&m.Words, length{"words", MaxMarks}, aMark) }

// Survey asks what live jobs hold of the node. What belongs to the job Inside, and to
// those it is inside of itself, does not count; nor what belongs to the job Own.
type Survey struct {
	Ledger string
	Inside job.ID
	Own    job.ID

	Without []int // users, by number, whose claims do not count either (TRUST-18)

	RM string // the batch system's job that we are a part of: what is outside of it is told apart (RM-20)

	Traits bool // what sets of nodes are made by is wanted too (which-hosts.md 2.1)
}

func (m *Survey) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Inside), "job")
	c.word((*string)(&m.Own), "job")
	c.nums(&m.Without, length{"uids", maxEntries}, aUID)
	c.word(&m.RM, "batch job")
	c.flag(&m.Traits)
}

// Surveyed answers Survey. Inside says that the job named there runs here indeed, and
// has all that the helper could use. With Notice the ledger cannot be used: jobs on this node are not kept apart.
// Barred says why the node's administrator lets nothing of ours run there, and if it is
// Limited he lets so many ranks of all jobs run at most. Warnings are about his file. Traits are void unless they were asked for.
type Surveyed struct {
	Inside   bool
	Barred   string
	Limited  bool
	Most     int
	Use      job.Use
	Beyond   job.Use // with Survey.RM: of jobs outside of it, which Use does not count then
	Load     [3]float64
	Notice   string
	Traits   job.Traits
	Warnings []string
}

func (m *Surveyed) fields(c *codec) {
	c.flag(&m.Inside)
	c.sentence(&m.Barred, "reason")
	c.flag(&m.Limited)
	c.num(&m.Most, aCount)
	c.use(&m.Use)
	c.use(&m.Beyond)
	c.load(&m.Load)
	c.sentence(&m.Notice, "notice")
	c.traits(&m.Traits)
	c.warnings(&m.Warnings)
}

func (c *codec) warnings(p *[]string) {
	list(c, p, length{"warnings", job.MaxWarnings}, func(c *codec, p *string) { c.sentence(p, "warning") })
}

func (c *codec) use(u *job.Use) {
	c.num(&u.Procs, aCount)
	c.num(&u.Seated, aCount)
	c.cpus(&u.Busy)
	c.cpus(&u.Shared)
	c.flag(&u.Taken)
	c.texts(&u.BusyGPUs, length{"addresses", maxGPUs}, aBusAddress)
	c.word(&u.Who, "user")
	c.num(&u.WhoUID, aUID)
	c.word((*string)(&u.WhoJob), "job")
	c.num(&u.WhoPID, aPID)
	c.moment(&u.Since, "time")
	c.flag(&u.Idle)
	c.flag(&u.Movable)
}

// Prepared says that everything that can fail before a start is done. With Notice there
// is no claim: other jobs may use the same CPUs. Where rank 0 is and torch's variables
// are wanted, Meet is where all ranks can meet: an address and a free port.
type Prepared struct{ Group, Notice, Meet string }

func (m *Prepared) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Notice, "notice")
	c.word(&m.Meet, "meeting point")
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
	c.num(&m.Code, aCode)
	c.sentence(&m.Reason, "reason")
	c.sentence(&m.Hint, "hint")
}

// Taken answers Prepare when another job has, meanwhile, what the plan gives this
// one. Nothing is claimed.
type Taken struct{ Group, Reason string }

func (m *Taken) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Reason, "reason")
}

// Release takes a Prepare back: another node had been taken.
type Release struct{ Group string }

func (m *Release) fields(c *codec) { c.word(&m.Group, "group") }

// Yield gives up what the helper claims since Renew, or as a spare: the job waits for its turn, and who
// waits holds nothing (survive.md SV-5).
type Yield struct{}

func (m *Yield) fields(*codec) {}
