package wire

import (
	"math"

	"remshell/job"
)

// The fields of each message, in the order in which they travel, and what each may be.

func (m *Hello) fields(c *codec) {
	c.num(&m.Version, span{"version", 0, math.MaxInt32})
	c.word(&m.Build, "build")
	c.word(&m.Release, "release")
	c.word(&m.Host, "host name")
	c.num(&m.PID, aPID)
}

func (m *Node) fields(c *codec) {
	c.probe(&m.Probe)
	c.sentence(&m.Err, "error")
}

func (m *Prepared) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Notice, "notice")
	c.word(&m.Meet, "meeting point")
}

func (m *Refused) fields(c *codec) {
	c.word(&m.Group, "group")
	c.num(&m.Code, aCode)
	c.sentence(&m.Reason, "reason")
	c.sentence(&m.Hint, "hint")
}

func (m *Taken) fields(c *codec) {
	c.word(&m.Group, "group")
	c.sentence(&m.Reason, "reason")
}

func (m *Release) fields(c *codec) { c.word(&m.Group, "group") }

func (m *Gate) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.flag(&m.Alone)
}

func (m *Gated) fields(c *codec) {
	c.num(&m.Ahead, aSize)
	c.sentence(&m.Notice, "notice")
}

func (m *Ungate) fields(*codec) {}

func (m *Survey) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Inside), "job")
	c.word((*string)(&m.Own), "job")
	c.nums(&m.Without, maxEntries, aUID)
}

func (m *Surveyed) fields(c *codec) {
	c.flag(&m.Inside)
	c.sentence(&m.Barred, "reason")
	c.flag(&m.Limited)
	c.num(&m.Most, aCount)
	c.use(&m.Use)
	c.load(&m.Load)
	c.sentence(&m.Notice, "notice")
}

func (c *codec) use(u *job.Use) {
	c.num(&u.Procs, aCount)
	c.num(&u.Seated, aCount)
	c.cpus(&u.Busy)
	c.flag(&u.Taken)
	c.texts(&u.BusyGPUs, maxGPUs, aBusAddress)
	c.word(&u.Who, "user")
	c.num(&u.WhoUID, aUID)
	c.word((*string)(&u.WhoJob), "job")
	c.num(&u.WhoPID, aPID)
	c.moment(&u.Since, "time")
	c.flag(&u.Idle)
}

func (m *Enqueue) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.ticket(&m.Ticket)
}

func (m *Queued) fields(c *codec) {
	c.num(&m.Ahead, aSize)
	c.num(&m.Total, aSize)
	c.sentence(&m.Err, "error")
	c.ticket(&m.Head)
}

func (m *Pass) fields(c *codec) {
	c.num(&m.UID, aUID)
	c.num64(&m.Number, aTicket)
}

func (m *Evict) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
}

func (m *Evicted) fields(c *codec) {
	list(c, &m.Done, length{"deeds", maxEntries}, func(c *codec, p *string) { c.sentence(p, "deed") })
	c.flag(&m.Left)
	c.sentence(&m.Err, "error")
}

func (m *Dequeue) fields(*codec) {}
func (m *Watch) fields(c *codec) { c.text(&m.Ledger, aPath) }
func (m *Changed) fields(*codec) {}
func (m *List) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
}

func (m *Listed) fields(c *codec) {
	c.text(&m.Where, aPath)
	list(c, &m.Claims, length{"claims", maxEntries}, (*codec).claim)
	list(c, &m.Tickets, length{"tickets", maxEntries - len(m.Claims)}, (*codec).ticket)
	list(c, &m.States, length{"ranks", maxOnNode}, (*codec).rankState)
	c.sentence(&m.Err, "error")
}

func (m *Alert) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
	c.num(&m.Number, aSignal)
}

func (m *Alerted) fields(c *codec) {
	c.num(&m.Ranks, aSize)
	c.sentence(&m.Err, "error")
}

func (m *Start) fields(c *codec) {
	c.word(&m.Group, "group")
	c.word(&m.Meet, "meeting point")
}

func (m *Prune) fields(c *codec) { c.word(&m.Group, "group") }

func (m *Started) fields(c *codec) {
	c.num(&m.Rank, aRank)
	c.num(&m.PID, aPID)
	c.num(&m.Code, aCode)
	c.sentence(&m.Err, "error")
	c.sentence(&m.Hint, "hint")
	c.cpus(&m.CPUs)
	c.nums(&m.Mems, maxCPUs, aMem)
	c.sure(m.Err != "" || m.PID > 0, "pid %d", m.PID)
}

func (m *Data) fields(c *codec) {
	c.num(&m.Rank, aRank)
	c.num((*int)(&m.Stream), aStream)
	c.bytes(&m.Bytes, length{"data", Window})
}

func (m *Credit) fields(c *codec) {
	c.num(&m.Rank, aRank)
	c.num((*int)(&m.Stream), aStream)
	c.num(&m.Bytes, aMemory)
}

func (m *Fence) fields(c *codec) {
	c.word(&m.ID, "fence")
	c.blob(&m.Blob)
}

func (m *Fenced) fields(c *codec) {
	c.word(&m.ID, "fence")
	list(c, &m.Blobs, length{"blobs", maxBlobs}, (*codec).blob)
	c.sentence(&m.Err, "error")
	c.num(&m.Size, span{"bytes", 0, vast})
	c.blob(&m.Packed)
}

func (m *Resize) fields(c *codec) {
	c.num(&m.Rows, aLine)
	c.num(&m.Cols, aLine)
}

func (m *Signal) fields(c *codec) { c.num(&m.Number, aSignal) }

func (m *End) fields(c *codec) {
	c.time(&m.Linger, "time to linger")
	c.time(&m.Grace, "grace")
}

func (m *PMI) fields(c *codec) {
	c.num(&m.Rank, orNone)
	c.num((*int)(&m.Event), span{"event", int64(PMIAborted), int64(PMILost)})
	c.num(&m.Code, aCode)
	c.sentence(&m.Text, "text")
}

func (m *Name) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.num((*int)(&m.Op), span{"operation", int64(Publish), int64(Unpublish)})
	c.text(&m.Service, aName)
	c.text(&m.Port, aName)
}

func (m *Named) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.flag(&m.Yes)
	c.text(&m.Port, aName)
	c.sentence(&m.Err, "error")
}

func (m *Trace) fields(c *codec) {
	c.num(&m.Rank, aRank)
	c.prose(&m.Line, aLogLine)
}

func (m *Spawn) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.word(&m.Request.Group, "group")
	c.num(&m.Request.Rank, aRank)
	list(c, &m.Request.Commands, length{"commands", maxPairs}, (*codec).command)
	list(c, &m.Request.Preputs, length{"preputs", maxPairs}, (*codec).pair)
	c.sentence(&m.Fault, "fault")
}

func (m *Peers) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.word(&m.Group, "group")
}

func (m *Peered) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.texts(&m.Nodes, many, aName)
	c.nums(&m.Of, many, aSize)
}

func (m *Spawned) fields(c *codec) {
	c.num(&m.ID, aQuestion)
	c.word(&m.Group, "group")
	c.nums(&m.Codes, many, span{"code", math.MinInt32, math.MaxInt32})
	c.sentence(&m.Err, "error")
}

func (m *Exited) fields(c *codec) { c.exit(&m.Exit) }
func (m *Drained) fields(c *codec) {
	list(c, &m.Orphans, length{"orphans", maxOnNode}, (*codec).orphan)
}
func (m *Emptied) fields(*codec) {}
func (m *Ping) fields(*codec)    {}
func (m *Bye) fields(*codec)     {}
func (m *Lay) fields(c *codec) {
	c.text(&m.Tag, aMark)
	c.text(&m.Word, aMark)
}

func (m *Laid) fields(c *codec)   { c.sentence(&m.Err, "error") }
func (m *Seek) fields(c *codec)   { c.text(&m.Tag, aMark) }
func (m *Sought) fields(c *codec) { c.texts(&m.Words, MaxMarks, aMark) }

func (m *Inspect) fields(c *codec) { c.flag(&m.Stacks) }
func (m *States) fields(c *codec)  { list(c, &m.Ranks, length{"ranks", maxOnNode}, (*codec).rankState) }

func (m *Log) fields(c *codec) {
	c.flag(&m.Warning)
	c.prose(&m.Text, aLogLine)
}
