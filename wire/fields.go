package wire

// The fields of each message, in the order in which they travel.

func (m *Hello) fields(c *codec) {
	c.num(&m.Version)
	c.text(&m.Build)
	c.text(&m.Release)
	c.text(&m.Host)
	c.num(&m.PID)
}

func (m *Node) fields(c *codec) {
	c.probe(&m.Probe)
	c.text(&m.Err)
}

func (m *Prepare) fields(c *codec) {
	c.text((*string)(&m.Job))
	c.text(&m.Group)
	c.num(&m.First)
	c.num(&m.Size)
	c.num(&m.Nodes)
	c.num(&m.Index)
	c.flag(&m.Alone)
	c.text(&m.Name)
	c.text(&m.Mapping)
	c.text(&m.Address)
	c.env(&m.Base)
	list(c, &m.Apps, (*codec).app)
	list(c, &m.Ranks, (*codec).rank)
	c.nums(&m.Stdin)
	c.num(&m.Window)
	c.flag(&m.Merge)
	c.nums(&m.PTY)
	c.num(&m.Rows)
	c.num(&m.Cols)
	c.time(&m.Grace)
	c.time(&m.Silence)
	c.num(&m.Umask)
	c.num(&m.Slots)
	c.flag(&m.Report)
	c.text(&m.Ledger)
	c.claim(&m.Claim)
	c.num(&m.Most)
	c.flag(&m.Shares)
	list(c, &m.Soft, (*codec).softLimit)
	c.flag(&m.Leader)
	c.flag(&m.Children)
	c.flag(&m.Port)
	c.flag(&m.Trace)
	c.num(&m.Universe)
	c.text(&m.Parent)
	list(c, &m.Preputs, (*codec).pair)
	c.text(&m.Iface)
	c.texts(&m.Compat)
}

func (m *Prepared) fields(c *codec) {
	c.text(&m.Group)
	c.text(&m.Notice)
	c.text(&m.Meet)
}

func (m *Refused) fields(c *codec) {
	c.text(&m.Group)
	c.num(&m.Code)
	c.text(&m.Reason)
	c.text(&m.Hint)
}

func (m *Taken) fields(c *codec) {
	c.text(&m.Group)
	c.text(&m.Reason)
}

func (m *Release) fields(c *codec) { c.text(&m.Group) }

func (m *Gate) fields(c *codec) {
	c.text(&m.Ledger)
	c.flag(&m.Alone)
}

func (m *Gated) fields(c *codec) {
	c.num(&m.Ahead)
	c.text(&m.Notice)
}

func (m *Ungate) fields(*codec) {}

func (m *Survey) fields(c *codec) {
	c.text(&m.Ledger)
	c.text((*string)(&m.Inside))
	c.text((*string)(&m.Own))
	c.nums(&m.Without)
}

func (m *Surveyed) fields(c *codec) {
	c.flag(&m.Inside)
	c.num(&m.Use.Procs)
	c.num(&m.Use.Seated)
	c.nums(&m.Use.Busy)
	c.flag(&m.Use.Taken)
	c.texts(&m.Use.BusyGPUs)
	c.text(&m.Use.Who)
	c.num(&m.Use.WhoUID)
	c.text((*string)(&m.Use.WhoJob))
	c.num(&m.Use.WhoPID)
	c.moment(&m.Use.Since)
	c.flag(&m.Use.Idle)
	c.load(&m.Load)
	c.text(&m.Notice)
}

func (m *Enqueue) fields(c *codec) {
	c.text(&m.Ledger)
	c.ticket(&m.Ticket)
}

func (m *Queued) fields(c *codec) {
	c.num(&m.Ahead)
	c.num(&m.Total)
	c.text(&m.Err)
	c.ticket(&m.Head)
}

func (m *Pass) fields(c *codec) {
	c.num(&m.UID)
	c.num64(&m.Number)
}

func (m *Evict) fields(c *codec) {
	c.text(&m.Ledger)
	c.text((*string)(&m.Job))
}

func (m *Evicted) fields(c *codec) {
	c.texts(&m.Done)
	c.flag(&m.Left)
	c.text(&m.Err)
}

func (m *Dequeue) fields(*codec) {}
func (m *Watch) fields(c *codec) { c.text(&m.Ledger) }
func (m *Changed) fields(*codec) {}
func (m *List) fields(c *codec)  { c.text(&m.Ledger) }

func (m *Listed) fields(c *codec) {
	list(c, &m.Claims, (*codec).claim)
	list(c, &m.Tickets, (*codec).ticket)
	c.text(&m.Err)
}

func (m *Alert) fields(c *codec) {
	c.text(&m.Ledger)
	c.text((*string)(&m.Job))
	c.num(&m.Number)
}

func (m *Alerted) fields(c *codec) {
	c.num(&m.Ranks)
	c.text(&m.Err)
}

func (m *Start) fields(c *codec) {
	c.text(&m.Group)
	c.text(&m.Meet)
}

func (m *Prune) fields(c *codec) { c.text(&m.Group) }

func (m *Started) fields(c *codec) {
	c.num(&m.Rank)
	c.num(&m.PID)
	c.num(&m.Code)
	c.text(&m.Err)
	c.text(&m.Hint)
	c.nums(&m.CPUs)
	c.nums(&m.Mems)
}

func (m *Data) fields(c *codec) {
	c.num(&m.Rank)
	c.num((*int)(&m.Stream))
	c.bytes(&m.Bytes)
}

func (m *Credit) fields(c *codec) {
	c.num(&m.Rank)
	c.num((*int)(&m.Stream))
	c.num(&m.Bytes)
}

func (m *Fence) fields(c *codec) {
	c.text(&m.ID)
	c.bytes(&m.Blob)
}

func (m *Fenced) fields(c *codec) {
	c.text(&m.ID)
	list(c, &m.Blobs, (*codec).bytes)
	c.text(&m.Err)
	c.num(&m.Size)
	c.bytes(&m.Packed)
}

func (m *Resize) fields(c *codec) {
	c.num(&m.Rows)
	c.num(&m.Cols)
}

func (m *Signal) fields(c *codec) { c.num(&m.Number) }

func (m *End) fields(c *codec) {
	c.time(&m.Linger)
	c.time(&m.Grace)
}

func (m *PMI) fields(c *codec) {
	c.num(&m.Rank)
	c.num((*int)(&m.Event))
	c.num(&m.Code)
	c.text(&m.Text)
}

func (m *Name) fields(c *codec) {
	c.num(&m.ID)
	c.num((*int)(&m.Op))
	c.text(&m.Service)
	c.text(&m.Port)
}

func (m *Named) fields(c *codec) {
	c.num(&m.ID)
	c.flag(&m.Yes)
	c.text(&m.Port)
	c.text(&m.Err)
}

func (m *Trace) fields(c *codec) {
	c.num(&m.Rank)
	c.text(&m.Line)
}

func (m *Spawn) fields(c *codec) {
	c.num(&m.ID)
	c.text(&m.Request.Group)
	c.num(&m.Request.Rank)
	list(c, &m.Request.Commands, (*codec).command)
	list(c, &m.Request.Preputs, (*codec).pair)
	c.text(&m.Fault)
}

func (m *Spawned) fields(c *codec) {
	c.num(&m.ID)
	c.text(&m.Group)
	c.nums(&m.Codes)
	c.text(&m.Err)
}

func (m *Exited) fields(c *codec)  { c.exit(&m.Exit) }
func (m *Drained) fields(c *codec) { list(c, &m.Orphans, (*codec).orphan) }
func (m *Emptied) fields(*codec)   {}
func (m *Log) fields(c *codec)     { c.bytes(&m.Line) }
func (m *Ping) fields(*codec)      {}
func (m *Bye) fields(*codec)       {}
func (m *Inspect) fields(*codec)   {}
func (m *States) fields(c *codec)  { list(c, &m.Ranks, (*codec).rankState) }
