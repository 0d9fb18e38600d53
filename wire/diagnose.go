package wire

import (
	"math"

	"remshell/job"
)

/*
Messages of --doctor (DIAG-5). Every helper first examines its own machine. Then all helpers
open a port, and each connects to those of the others. Only this shows whether the ranks of
an MPI program can reach each other.

	mpiexec                                      helper
	   | Diagnose ------------------------------------->
	   | <----------------------------------- Diagnosed   the result
	   | OpenProbePort -------------------------------->
	   | <----------------------------- ProbePortOpened   a port chosen by the kernel
	   | ProbePeers ----------------------------------->  ports of other helpers
	   | <--------------------------------- PeersProbed   the result for each

The port stays open until Bye. It accepts only callers with the token.
*/

// Diagnose requests an examination of the node. Dir and Program are the working directory and the program of
// a job; empty: unknown.
type Diagnose struct {
	Dir, Program, Path string
	Libraries          string // LD_LIBRARY_PATH of the ranks
	Address            string // address of the node for other nodes; empty: the helper finds it
	Ledger             string // the directory of claims; empty: the default
	Brief              bool   // examine only Dir, Program and the administrator's rules
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

// Diagnosed answers Diagnose.
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

// OpenProbePort requests a port for the probes of other helpers.
type OpenProbePort struct{ Address, Token string }

func (m *OpenProbePort) fields(c *codec) {
	c.word(&m.Address, "address")
	c.word(&m.Token, "token")
}

// ProbePortOpened answers OpenProbePort. If Port is 0, no port could be opened.
type ProbePortOpened struct {
	Port int
	Err  string
}

func (m *ProbePortOpened) fields(c *codec) {
	c.num(&m.Port, valueRange{"port", 0, math.MaxUint16})
	c.sentence(&m.Err, "error")
}

// ProbePeers requests connections to the probe ports of other nodes.
type ProbePeers struct{ Ports []ProbePort }

func (m *ProbePeers) fields(c *codec) {
	list(c, &m.Ports, length{"peers", maxPeers}, (*codec).probePort)
}

// A ProbePort is a port that the helper of another node opened.
type ProbePort struct{ Node, Address, Token string }

func (c *codec) probePort(p *ProbePort) {
	c.word(&p.Node, "node")
	c.word(&p.Address, "address")
	c.word(&p.Token, "token")
}

// PeersProbed answers ProbePeers, with one result per port.
type PeersProbed struct{ Probes []job.PeerProbe }

func (m *PeersProbed) fields(c *codec) {
	list(c, &m.Probes, length{"peers", maxPeers}, (*codec).peerProbe)
}

// maxPeers is the most peers that one helper probes.
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
