package wire

import "remshell/job"

/*
These messages serve --doctor (DIAG-5). Every helper looks at its own machine first, then
all open a port, and then each knocks at others: nothing else tells whether the ranks of
an MPI program will reach one another.

	mpiexec                                      helper
	   | Examine -------------------------------------->
	   | <------------------------------------ Examined   what the node is like
	   | Listen --------------------------------------->
	   | <----------------------------------- Listening   on a port of the kernel's choice
	   | Knock ---------------------------------------->  at these ports of other helpers
	   | <------------------------------------- Knocked   who was reached, and how far

The port is open until Bye, and takes only callers that know the token.
*/
type (
	// Examine asks what the node is like. Dir and Program are what a job would need;
	// empty: not known.
	Examine struct {
		Dir, Program, Path string
		Address            string // of the node, for its peers; empty: the helper knows
	}

	// Examined answers Examine.
	Examined struct{ Exam job.Exam }

	// Listen asks to open a port.
	Listen struct{ Address, Token string }

	// Listening answers Listen. Port 0: none could be opened.
	Listening struct {
		Port int
		Err  string
	}

	// Knock asks to reach doors of other nodes.
	Knock struct{ Doors []Door }

	// A Door is an open port of another node.
	Door struct{ Node, Address, Token string }

	// Knocked answers Knock, door by door.
	Knocked struct{ Knocks []job.Knock }
)

func (m *Examine) fields(c *codec) {
	c.text(&m.Dir)
	c.text(&m.Program)
	c.text(&m.Path)
	c.text(&m.Address)
}

func (m *Examined) fields(c *codec) {
	e := &m.Exam
	c.moment(&e.Clock)
	c.text(&e.Address)
	c.text(&e.Interface)
	c.num(&e.MTU)
	c.texts(&e.OwnName)
	c.text(&e.NameErr)
	c.num(&e.Online)
	list(c, &e.Limits, (*codec).limit)
	c.num64(&e.Group.Memory)
	c.num64(&e.Group.Processes)
	c.space(&e.Shared)
	list(c, &e.Folders, (*codec).space)
	c.text(&e.Fabric)
	c.num(&e.MaxStartups)
	c.num(&e.MaxSessions)
	c.defect(&e.Dir)
	c.defect(&e.Program)
	c.text(&e.DirName)
	c.text(&e.Found)
}

func (m *Listen) fields(c *codec) {
	c.text(&m.Address)
	c.text(&m.Token)
}

func (m *Listening) fields(c *codec) {
	c.num(&m.Port)
	c.text(&m.Err)
}

func (m *Knock) fields(c *codec)   { list(c, &m.Doors, (*codec).door) }
func (m *Knocked) fields(c *codec) { list(c, &m.Knocks, (*codec).knock) }

func (c *codec) limit(l *job.Limit) {
	c.text(&l.Name)
	c.text(&l.Flag)
	c.num64(&l.Soft)
	c.num64(&l.Hard)
}

func (c *codec) space(s *job.Space) {
	c.text(&s.Path)
	c.num64(&s.Total)
	c.num64(&s.Free)
	c.flag(&s.NoExec)
	c.text(&s.Err)
}

func (c *codec) defect(d *job.Defect) {
	c.text(&d.Code)
	c.text(&d.Text)
	c.text(&d.Remedy)
}

func (c *codec) door(d *Door) {
	c.text(&d.Node)
	c.text(&d.Address)
	c.text(&d.Token)
}

func (c *codec) knock(k *job.Knock) {
	c.text(&k.At)
	c.text(&k.Stage)
	c.text(&k.Err)
}
