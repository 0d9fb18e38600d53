package wire

import (
	"math"

	"remshell/job"
)

/*
These messages serve --doctor (DIAG-5). Every helper looks at its own machine first, then
all open a port, and then each probes those of others: nothing else tells whether the ranks of
an MPI program will reach one another.

	mpiexec                                      helper
	   | Examine -------------------------------------->
	   | <------------------------------------ Examined   what the node is like
	   | Listen --------------------------------------->
	   | <----------------------------------- Listening   on a port of the kernel's choice
	   | ProbePeers ----------------------------------->  these ports of other helpers
	   | <--------------------------------- PeersProbed   who was reached, and how far

The port is open until Bye, and takes only callers that know the token.
*/

// Examine asks what the node is like. Dir and Program are what a job would need;
// empty: not known.
type Examine struct {
	Dir, Program, Path string
	Libraries          string // LD_LIBRARY_PATH of ranks
	Address            string // of the node, for its peers; empty: the helper knows
	Ledger             string // the directory of claims; empty: the default
	Brief              bool   // look at nothing but Dir, Program and the rules of the administrator
}

func (m *Examine) fields(c *codec) {
	c.text(&m.Dir, anyText)
	c.text(&m.Program, anyText)
	c.text(&m.Path, anyText)
	c.text(&m.Libraries, anyText)
	c.word(&m.Address, "address")
	c.text(&m.Ledger, aPath)
	c.flag(&m.Brief)
}

// Examined answers Examine.
type Examined struct{ Exam job.Exam }

func (m *Examined) fields(c *codec) { c.exam(&m.Exam) }

func (c *codec) exam(e *job.Exam) {
	c.moment(&e.Clock, "clock")
	c.word(&e.Address, "address")
	c.word(&e.Interface, "interface")
	c.num(&e.MTU, aSize)
	list(c, &e.OwnName, length{"addresses", 64}, func(c *codec, p *string) { c.word(p, "address") })
	c.sentence(&e.NameErr, "error")
	c.num(&e.Online, aSize)
	list(c, &e.Limits, length{"limits", 64}, (*codec).limit)
	c.num64(&e.Group.Memory, aLimit)
	c.num64(&e.Group.Processes, aLimit)
	c.space(&e.Shared)
	list(c, &e.Folders, length{"folders", 64}, (*codec).space)
	c.word(&e.Fabric, "device")
	c.num(&e.MaxStartups, aSize)
	c.num(&e.MaxSessions, aSize)
	c.defect(&e.Dir)
	c.defect(&e.Program)
	c.sentence(&e.DirName, "folder")
	c.sentence(&e.Found, "program")
	c.sentence(&e.Offer, "offer")
	c.traits(&e.Traits)
	c.rules(&e.Rules)
	c.space(&e.Ledger)
	c.defect(&e.Home)
	c.defect(&e.Account)
	c.library(&e.Library)
}

func (c *codec) rules(r *job.NodeRules) {
	c.sentence(&r.Barred, "reason")
	c.flag(&r.Faulty)
	c.num(&r.Most, valueRange{"count", -1, 1e6})
	c.warnings(&r.Warnings)
}

func (c *codec) library(l *job.Library) {
	c.word(&l.Family, "library")
	c.word(&l.File, "file")
	c.flag(&l.UCX)
}

// Listen asks to open a port.
type Listen struct{ Address, Token string }

func (m *Listen) fields(c *codec) {
	c.word(&m.Address, "address")
	c.word(&m.Token, "token")
}

// Listening answers Listen. Port 0: none could be opened.
type Listening struct {
	Port int
	Err  string
}

func (m *Listening) fields(c *codec) {
	c.num(&m.Port, valueRange{"port", 0, math.MaxUint16})
	c.sentence(&m.Err, "error")
}

// ProbePeers asks to reach ports of other nodes.
type ProbePeers struct{ Ports []ProbePort }

func (m *ProbePeers) fields(c *codec) {
	list(c, &m.Ports, length{"peers", maxPeers}, (*codec).probePort)
}

// A ProbePort is an open port of another node.
type ProbePort struct{ Node, Address, Token string }

func (c *codec) probePort(p *ProbePort) {
	c.word(&p.Node, "node")
	c.word(&p.Address, "address")
	c.word(&p.Token, "token")
}

// PeersProbed answers ProbePeers, port by port.
type PeersProbed struct{ Probes []job.PeerProbe }

func (m *PeersProbed) fields(c *codec) {
	list(c, &m.Probes, length{"peers", maxPeers}, (*codec).peerProbe)
}

// maxPeers is how many one helper probes.
const maxPeers = 1 << 14

func (c *codec) limit(l *job.Limit) {
	c.word(&l.Name, "limit")
	c.word(&l.Flag, "flag")
	c.num64(&l.Soft, aLimit)
	c.num64(&l.Hard, aLimit)
}

func (c *codec) space(s *job.Space) {
	c.sentence(&s.Path, "folder")
	c.num64(&s.Total, aMemory)
	c.num64(&s.Free, aMemory)
	c.flag(&s.NoExec)
	c.sentence(&s.Err, "error")
}

func (c *codec) defect(d *job.Defect) {
	c.word(&d.Code, "code")
	c.sentence(&d.Text, "text")
	c.sentence(&d.Remedy, "remedy")
}

func (c *codec) peerProbe(p *job.PeerProbe) {
	c.word(&p.At, "node")
	c.word(&p.Stage, "stage")
	c.sentence(&p.Err, "error")
}
