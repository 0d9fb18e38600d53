package wire

import (
	"math"

	"remshell/job"
)

/*
Messages of --doctor (rule DIAG-5). Every helper first examines its own machine. Then all helpers
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

// Diagnose asks the helper to examine its node. Dir and Program are the working directory and program of a
// job, or empty.
type Diagnose struct {
	AnsweredBy[*Diagnosed]

	Dir, Program, Path string
	Libraries          string // LD_LIBRARY_PATH of the ranks
	Address            string // address of the node for other nodes; empty: the helper finds it
	Ledger             string // the directory of claims; empty: the default
	Brief              bool   // examine only Dir, Program and the administrator's rules
}

func (m *Diagnose) Fields(c *Codec) {
	c.Text(&m.Dir, unboundedLength)
	c.Text(&m.Program, unboundedLength)
	c.Text(&m.Path, unboundedLength)
	c.Text(&m.Libraries, unboundedLength)
	c.Word(&m.Address, "address")
	c.Text(&m.Ledger, pathLength)
	c.Bool(&m.Brief)
}

// Diagnosed is the reply to Diagnose. It contains the results of the examination.
type Diagnosed struct{ Diagnosis job.NodeDiagnosis }

func (m *Diagnosed) Fields(c *Codec) { c.nodeDiagnosis(&m.Diagnosis) }

func (c *Codec) nodeDiagnosis(e *job.NodeDiagnosis) {
	c.Time(&e.Clock, "clock")
	c.Word(&e.Address, "address")
	c.Word(&e.Interface, "interface")
	c.Num(&e.MTU, SizeRange)
	List(c, &e.OwnAddresses, Length{"addresses", 64}, func(c *Codec, p *string) { c.Word(p, "address") })
	c.Sentence(&e.OwnNameErr, "error")
	c.Num(&e.Online, SizeRange)
	List(c, &e.Limits, Length{"limits", 64}, (*Codec).rlimit)
	c.Num64(&e.Cgroup.Memory, limitOrNone)
	c.Num64(&e.Cgroup.Processes, limitOrNone)
	c.fileSystem(&e.DevShm)
	List(c, &e.TempDirs, Length{"folders", 64}, (*Codec).fileSystem)
	c.Word(&e.Fabric, "device")
	c.Num(&e.MaxStartups, SizeRange)
	c.Num(&e.MaxSessions, SizeRange)
	c.defect(&e.Dir)
	c.defect(&e.Program)
	c.Sentence(&e.DirName, "folder")
	c.Sentence(&e.ProgramPath, "program")
	c.Sentence(&e.PMIOffer, "offer")
	c.attributes(&e.Attributes)
	c.adminRules(&e.Rules)
	c.fileSystem(&e.Ledger)
	c.defect(&e.Home)
	c.defect(&e.Account)
	c.mpiLibrary(&e.MPILibrary)
}

func (c *Codec) adminRules(r *job.AdminRules) {
	c.Sentence(&r.Forbidden, "reason")
	c.Bool(&r.Drained)
	c.Bool(&r.FileFault)
	c.Num(&r.MaxRanks, Range{"count", -1, 1e6})
	c.warnings(&r.Warnings)
}

func (c *Codec) mpiLibrary(l *job.MPILibrary) {
	c.Word(&l.Family, "library")
	c.Word(&l.File, "file")
	c.Bool(&l.UCX)
}

// OpenProbePort asks the helper to open a port to which other helpers can connect, to test the network.
type OpenProbePort struct {
	AnsweredBy[*ProbePortOpened]

	Address, Token string
}

func (m *OpenProbePort) Fields(c *Codec) {
	c.Word(&m.Address, "address")
	c.Word(&m.Token, "token")
}

// ProbePortOpened is the reply to OpenProbePort. Port is 0 if the helper could not open a port.
type ProbePortOpened struct {
	Port int
	Err  string
}

func (m *ProbePortOpened) Fields(c *Codec) {
	c.Num(&m.Port, Range{"port", 0, math.MaxUint16})
	c.Sentence(&m.Err, "error")
}

// ProbePeers asks the helper to connect to the probe ports of other nodes, to test the network.
type ProbePeers struct {
	AnsweredBy[*PeersProbed]

	Ports []ProbePort
}

func (m *ProbePeers) Fields(c *Codec) {
	List(c, &m.Ports, Length{"peers", maxPeers}, (*Codec).probePort)
}

// A ProbePort is a port that the helper of another node has opened.
type ProbePort struct{ Node, Address, Token string }

func (c *Codec) probePort(p *ProbePort) {
	c.Word(&p.Node, "node")
	c.Word(&p.Address, "address")
	c.Word(&p.Token, "token")
}

// PeersProbed is the reply to ProbePeers. It contains one result for each port that was to be probed.
type PeersProbed struct{ Probes []job.PeerProbe }

func (m *PeersProbed) Fields(c *Codec) {
	List(c, &m.Probes, Length{"peers", maxPeers}, (*Codec).peerProbe)
}

// maxPeers is the maximum number of nodes that one helper probes.
const maxPeers = 1 << 14

func (c *Codec) rlimit(l *job.Rlimit) {
	c.Word(&l.Name, "limit")
	c.Word(&l.Flag, "flag")
	c.Num64(&l.Soft, limitOrNone)
	c.Num64(&l.Hard, limitOrNone)
}

func (c *Codec) fileSystem(s *job.FileSystem) {
	c.Sentence(&s.Path, "folder")
	c.Num64(&s.Total, BytesRange)
	c.Num64(&s.Free, BytesRange)
	c.Bool(&s.NoExec)
	c.Sentence(&s.Err, "error")
}

func (c *Codec) defect(d *job.Defect) {
	c.Word(&d.Code, "code")
	c.Sentence(&d.Text, "text")
	c.Sentence(&d.Remedy, "remedy")
}

func (c *Codec) peerProbe(p *job.PeerProbe) {
	c.Word(&p.Peer, "node")
	c.Word(&p.Stage, "stage")
	c.Sentence(&p.Err, "error")
}
