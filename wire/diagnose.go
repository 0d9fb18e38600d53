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
	   | Diagnose ------------------------------------->
	   | <----------------------------------- Diagnosed   what the node is like
	   | OpenProbePort -------------------------------->
	   | <----------------------------- ProbePortOpened   on a port of the kernel's choice
	   | ProbePeers ----------------------------------->  these ports of other helpers
	   | <--------------------------------- PeersProbed   who was reached, and how far

The port is open until Bye, and takes only callers that know the token.
*/

// Diagnose asks what the node is like. Dir and Program are what a job would need;
// empty: not known.
type Diagnose struct {
	Dir, Program, Path string
	Libraries          string // LD_LIBRARY_PATH of ranks
	Address            string // of the node, for its peers; empty: the helper knows
	Ledger             string // the directory of claims; empty: the default
	Brief              bool   // look at nothing but Dir, Program and the rules of the administrator
}

func (m *Diagnose) fields(c *codec) {
	c.text(&m.Dir, unboundedLength)
	c.text(&m.Program, unboundedLength)
	c.text(&m.Path, unboundedLength)
	c.text(&m.Libraries, unboundedLength)
	c.word(&m.Address, "address")
	c.text(&m.Ledger, pathLength)
	c.boolean(&m.Brief)
}

// Diagnosed answers Examine.
type Diagnosed struct{ Diagnosis job.NodeDiagnosis }

func (m *Diagnosed) fields(c *codec) { c.nodeDiagnosis(&m.Diagnosis) }

func (c *codec) nodeDiagnosis(e *job.NodeDiagnosis) {
	c.timestamp(&e.Clock, "clock")
	c.word(&e.Address, "address")
	c.word(&e.Interface, "interface")
	c.num(&e.MTU, sizeRange)
	list(c, &e.OwnAddresses, length{"addresses", 64}, func(c *codec, p *string) { c.word(p, "address") })
	c.sentence(&e.OwnNameErr, "error")
	c.num(&e.Online, sizeRange)
	list(c, &e.Limits, length{"limits", 64}, (*codec).rlimit)
	c.num64(&e.Cgroup.Memory, limitOrNone)
	c.num64(&e.Cgroup.Processes, limitOrNone)
	c.fileSystem(&e.DevShm)
	list(c, &e.TempDirs, length{"folders", 64}, (*codec).fileSystem)
	c.word(&e.Fabric, "device")
	c.num(&e.MaxStartups, sizeRange)
	c.num(&e.MaxSessions, sizeRange)
	c.defect(&e.Dir)
	c.defect(&e.Program)
	c.sentence(&e.DirName, "folder")
	c.sentence(&e.ProgramPath, "program")
	c.sentence(&e.PMIOffer, "offer")
	c.attributes(&e.Attributes)
	c.adminRules(&e.Rules)
	c.fileSystem(&e.Ledger)
	c.defect(&e.Home)
	c.defect(&e.Account)
	c.mpiLibrary(&e.MPILibrary)
}

func (c *codec) adminRules(r *job.AdminRules) {
	c.sentence(&r.Forbidden, "reason")
	c.boolean(&r.FileFault)
	c.num(&r.MaxRanks, valueRange{"count", -1, 1e6})
	c.warnings(&r.Warnings)
}

func (c *codec) mpiLibrary(l *job.MPILibrary) {
	c.word(&l.Family, "library")
	c.word(&l.File, "file")
	c.boolean(&l.UCX)
}

// OpenProbePort asks to open a port.
type OpenProbePort struct{ Address, Token string }

func (m *OpenProbePort) fields(c *codec) {
	c.word(&m.Address, "address")
	c.word(&m.Token, "token")
}

// ProbePortOpened answers Listen. Port 0: none could be opened.
type ProbePortOpened struct {
	Port int
	Err  string
}

func (m *ProbePortOpened) fields(c *codec) {
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

func (c *codec) rlimit(l *job.Rlimit) {
	c.word(&l.Name, "limit")
	c.word(&l.Flag, "flag")
	c.num64(&l.Soft, limitOrNone)
	c.num64(&l.Hard, limitOrNone)
}

func (c *codec) fileSystem(s *job.FileSystem) {
	c.sentence(&s.Path, "folder")
	c.num64(&s.Total, bytesRange)
	c.num64(&s.Free, bytesRange)
	c.boolean(&s.NoExec)
	c.sentence(&s.Err, "error")
}

func (c *codec) defect(d *job.Defect) {
	c.word(&d.Code, "code")
	c.sentence(&d.Text, "text")
	c.sentence(&d.Remedy, "remedy")
}

func (c *codec) peerProbe(p *job.PeerProbe) {
	c.word(&p.Peer, "node")
	c.word(&p.Stage, "stage")
	c.sentence(&p.Err, "error")
}
