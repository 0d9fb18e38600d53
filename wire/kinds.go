package wire

// The kinds of frames and the fields of each message. The numbers are the
// protocol: they never change their meaning within a Version.

func (*Hello) kind() byte    { return 1 }
func (*Node) kind() byte     { return 2 }
func (*Prepare) kind() byte  { return 3 }
func (*Prepared) kind() byte { return 4 }
func (*Refused) kind() byte  { return 5 }
func (*Start) kind() byte    { return 6 }
func (*Started) kind() byte  { return 7 }
func (*Data) kind() byte     { return 8 }
func (*Credit) kind() byte   { return 9 }
func (*Fence) kind() byte    { return 10 }
func (*Fenced) kind() byte   { return 11 }
func (*Signal) kind() byte   { return 12 }
func (*End) kind() byte      { return 13 }
func (*PMI) kind() byte      { return 14 }
func (*Exited) kind() byte   { return 15 }
func (*Drained) kind() byte  { return 16 }
func (*Log) kind() byte      { return 17 }
func (*Ping) kind() byte     { return 18 }
func (*Bye) kind() byte      { return 19 }
func (*Taken) kind() byte    { return 20 }
func (*Release) kind() byte  { return 21 }
func (*Gate) kind() byte     { return 22 }
func (*Gated) kind() byte    { return 23 }
func (*Ungate) kind() byte   { return 24 }
func (*Survey) kind() byte   { return 25 }
func (*Surveyed) kind() byte { return 26 }
func (*Enqueue) kind() byte  { return 27 }
func (*Queued) kind() byte   { return 28 }
func (*Dequeue) kind() byte  { return 29 }
func (*Watch) kind() byte    { return 30 }
func (*Changed) kind() byte  { return 31 }
func (*List) kind() byte     { return 32 }
func (*Listed) kind() byte   { return 33 }
func (*Alert) kind() byte    { return 34 }
func (*Alerted) kind() byte  { return 35 }
func (*Name) kind() byte     { return 36 }
func (*Named) kind() byte    { return 37 }
func (*Spawn) kind() byte    { return 38 }
func (*Spawned) kind() byte  { return 39 }
func (*Prune) kind() byte    { return 40 }
func (*Resize) kind() byte   { return 41 }
func (*Trace) kind() byte    { return 42 }
func (*Inspect) kind() byte  { return 50 }
func (*States) kind() byte   { return 51 }
func (*Emptied) kind() byte  { return 52 }

// blank returns an empty message of a kind, nil for an unknown one.
func blank(kind byte) Message {
	switch kind {
	case 1:
		return new(Hello)
	case 2:
		return new(Node)
	case 3:
		return new(Prepare)
	case 4:
		return new(Prepared)
	case 5:
		return new(Refused)
	case 6:
		return new(Start)
	case 7:
		return new(Started)
	case 8:
		return new(Data)
	case 9:
		return new(Credit)
	case 10:
		return new(Fence)
	case 11:
		return new(Fenced)
	case 12:
		return new(Signal)
	case 13:
		return new(End)
	case 14:
		return new(PMI)
	case 15:
		return new(Exited)
	case 16:
		return new(Drained)
	case 17:
		return new(Log)
	case 18:
		return new(Ping)
	case 19:
		return new(Bye)
	case 20:
		return new(Taken)
	case 21:
		return new(Release)
	case 22:
		return new(Gate)
	case 23:
		return new(Gated)
	case 24:
		return new(Ungate)
	case 25:
		return new(Survey)
	case 26:
		return new(Surveyed)
	case 27:
		return new(Enqueue)
	case 28:
		return new(Queued)
	case 29:
		return new(Dequeue)
	case 30:
		return new(Watch)
	case 31:
		return new(Changed)
	case 32:
		return new(List)
	case 33:
		return new(Listed)
	case 34:
		return new(Alert)
	case 35:
		return new(Alerted)
	case 36:
		return new(Name)
	case 37:
		return new(Named)
	case 38:
		return new(Spawn)
	case 39:
		return new(Spawned)
	case 40:
		return new(Prune)
	case 41:
		return new(Resize)
	case 42:
		return new(Trace)
	case 50:
		return new(Inspect)
	case 51:
		return new(States)
	case 52:
		return new(Emptied)
	}
	return blankExam(kind)
}

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
func (m *Gate) fields(c *codec)    { c.text(&m.Ledger) }

func (m *Gated) fields(c *codec) {
	c.num(&m.Ahead)
	c.text(&m.Notice)
}

func (m *Ungate) fields(*codec) {}

func (m *Survey) fields(c *codec) {
	c.text(&m.Ledger)
	c.text((*string)(&m.Inside))
	c.text((*string)(&m.Own))
}

func (m *Surveyed) fields(c *codec) {
	c.flag(&m.Inside)
	c.num(&m.Use.Procs)
	c.num(&m.Use.Seated)
	c.nums(&m.Use.Busy)
	c.flag(&m.Use.Taken)
	c.texts(&m.Use.BusyGPUs)
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
