package wire

import (
	"math"
	"time"

	"remshell/job"
	"remshell/pmiserver/spawn"
)

// Prepare contains the node's part of a group of ranks, which the helper then prepares. Only in this message are
// ranks numbered from 0 within their group. All other messages use the numbers of ranks in the whole job.
type Prepare struct {
	AnsweredBy[PrepareReply]

	Job         job.ID
	Group       Group          // the group that the node's ranks belong to
	Node        GroupNode      // this node's part in the group
	Apps        []job.App      // indexed by RankPlan.App
	Ranks       []job.RankPlan // the ranks on this node
	Process     Process
	Streams     Streams
	PMI         PMISetup
	Supervision Supervision
	Claim       Claim
	Settings    []Setting // of features; the same for all groups of a job
}

func (m *Prepare) Fields(c *Codec) {
	c.Word((*string)(&m.Job), "job")
	m.Group.fields(c)
	m.Node.fields(c)
	List(c, &m.Apps, Length{"app contexts", maxFromLauncher}, (*Codec).app)
	List(c, &m.Ranks, Length{"ranks", maxFromLauncher}, (*Codec).rank)
	m.Process.fields(c)
	m.Streams.fields(c)
	m.PMI.fields(c)
	m.Supervision.fields(c)
	m.Claim.fields(c)
	c.settings(&m.Settings)
	m.checkRanks(c)
}

// checkRanks makes the message invalid if a rank has no program or does not belong to the group.
func (m *Prepare) checkRanks(c *Codec) {
	for i := range m.Apps {
		c.Require(len(m.Apps[i].Argv) > 0, "app context %d has no program", i)
	}
	for _, r := range m.Ranks {
		c.Require(r.App < len(m.Apps), "app context %d", r.App)
		c.Require(r.Rank < m.Group.Size, "rank %d of %d", r.Rank, m.Group.Size)
	}
}

// A Group is the set of ranks of one MPI_COMM_WORLD: the ranks of the command line, or the ranks of one spawn.
type Group struct {
	Name       string // name of the group and of its key-value space
	Number     int    // number of the group in the job: 0 is the command line's, spawns follow
	Parent     string // the group that spawned this one; empty: none
	ParentRank int    // the rank of Parent that requested the spawn
	PMIx       bool   // the spawn was requested by PMIx, so this group is offered PMIx too
	First      int    // job-wide number of the group's rank 0; 0: it is the first group
	Size       int    // number of ranks
	NodeCount  int    // number of nodes that have some of the ranks
}

func (g *Group) fields(c *Codec) {
	c.Word(&g.Name, "group")
	c.Num(&g.Number, SizeRange)
	c.Word(&g.Parent, "parent")
	c.Num(&g.ParentRank, RankRange)
	c.Bool(&g.PMIx)
	c.Num(&g.First, RankRange)
	c.Num(&g.Size, SizeRange)
	c.Num(&g.NodeCount, SizeRange)
}

// A GroupNode describes one node of a group.
type GroupNode struct {
	Index         int    // index among the nodes of the group
	OnlyNode      bool   // the job has no other node
	SharedMachine bool   // other nodes of the job are on the same machine
	Name          string // as the user wrote it
	Address       string // address for other nodes; empty: unknown
	Interface     string // network interface whose address ranks are given: a name or prefix; empty: any
	Slots         int    // of the whole node, S of placement.md section 0
	EarlierRanks  int    // ranks on the node of groups with lower numbers
}

func (n *GroupNode) fields(c *Codec) {
	c.Num(&n.Index, SizeRange)
	c.Bool(&n.OnlyNode)
	c.Bool(&n.SharedMachine)
	c.Word(&n.Name, "name")
	c.Word(&n.Address, "address")
	c.Word(&n.Interface, "interface")
	c.Num(&n.Slots, SizeRange)
	c.Num(&n.EarlierRanks, RankRange)
}

// A Process contains what the process of each rank inherits, in addition to the settings in its App.
type Process struct {
	BaseEnv            job.Env
	Compat             []string          // other launchers whose variables it gets too, see job.Request
	Umask              int               // umask of mpiexec; negative: keep the node's
	SoftLimits         []job.SoftLimit   // set as far as the node's hard limits allow
	Priority           job.Priority      // set as far as the node allows; not Known: the helper's
	KernelLimits       []job.KernelLimit // set before the program runs
	OMPPlaces          job.OMPPlaces     // where OpenMP threads of bound ranks run; empty: not set
	BindingRequired    bool              // a binding to CPUs was requested: a rank that cannot be bound does not start
	BindingUnspecified bool              // no option or file says how ranks are bound
}

func (p *Process) fields(c *Codec) {
	c.env(&p.BaseEnv)
	c.Texts(&p.Compat, Length{"names", 64}, nameLength)
	c.Num(&p.Umask, Range{"umask", -1, 0o777})
	List(c, &p.SoftLimits, Length{"limits", 64}, (*Codec).softLimit)
	c.priority(&p.Priority)
	List(c, &p.KernelLimits, Length{"limits", 64}, (*Codec).kernelLimit)
	c.Word((*string)(&p.OMPPlaces), "places")
	c.Bool(&p.BindingRequired)
	c.Bool(&p.BindingUnspecified)
}

// Streams describes the standard streams of the node's ranks.
type Streams struct {
	Stdin       []int // ranks whose stdin comes as Data
	Window      int   // most bytes of an output stream sent without Credit
	MergeStderr bool  // ranks write stderr to stdout
	PTY         []int // ranks that have a pseudo-terminal
	Rows, Cols  int   // size of the terminal; 0: unknown
}

func (s *Streams) fields(c *Codec) {
	c.Nums(&s.Stdin, Length{"ranks", maxFromLauncher}, RankRange)
	c.Num(&s.Window, BytesRange)
	c.Bool(&s.MergeStderr)
	c.Nums(&s.PTY, Length{"ranks", maxFromLauncher}, RankRange)
	c.Num(&s.Rows, terminalSizeRange)
	c.Num(&s.Cols, terminalSizeRange)
}

// A PMISetup is the configuration of the PMI server for the group's ranks on the node.
type PMISetup struct {
	Mapping      string       // PMI_process_mapping: which rank is on which node
	Universe     int          // universe size: how many processes fit; 0: unknown
	Slots        int          // slots of all hosts that the job may use
	NoFabric     bool         // no node of the job at its start has a fast network or a GPU
	ExplainOffer bool         // log why an app context is offered its PMI versions
	Preputs      []spawn.Pair // initial contents of the group's key-value space
	Port         bool         // ranks connect to the PMI server by TCP
	Token        string       // authenticates ranks to their PMIx server (PMIX-19); the same on all nodes
}

func (p *PMISetup) fields(c *Codec) {
	c.Text(&p.Mapping, unboundedLength)
	c.Num(&p.Universe, SizeRange)
	c.Num(&p.Slots, SizeRange)
	c.Bool(&p.NoFabric)
	c.Bool(&p.ExplainOffer)
	List(c, &p.Preputs, Length{"preputs", maxFromLauncher}, (*Codec).pair)
	c.Bool(&p.Port)
	c.Word(&p.Token, "token")
}

// Supervision says how the helper handles signals and a silent connection while ranks run, and how it ends the ranks.
type Supervision struct {
	ProcessOnly       bool          // Signal goes to the rank's process only, not to its process group
	KeepAll           bool          // the end of a rank does not end the others (job.EndPolicy)
	LeaveChildren     bool          // do not end processes that ranks leave behind
	KeepSessions      bool          // keep Open MPI's session directories
	BatchStarted      bool          // a batch system's launcher started the helper, see HelperSignaled
	BatchSignalsRanks bool          // the batch system's signals to the helper also reach the ranks
	Grace             time.Duration // between SIGTERM and SIGKILL
	Silence           time.Duration // how long the connection may be silent before the job ends
}

func (s *Supervision) fields(c *Codec) {
	c.Bool(&s.ProcessOnly)
	c.Bool(&s.KeepAll)
	c.Bool(&s.LeaveChildren)
	c.Bool(&s.KeepSessions)
	c.Bool(&s.BatchStarted)
	c.Bool(&s.BatchSignalsRanks)
	c.Duration(&s.Grace, "grace")
	c.Duration(&s.Silence, "silence")
}

// A Claim says which CPUs and GPUs the helper claims for the job in the node's ledger (directory of claims). It
// also says which claims of other jobs may exist at the same time. On a standby node, which is reserved for
// restarts (survive.md SV-7), the helper makes the claim and prepares no ranks.
type Claim struct {
	Entry         job.Claim // the claim; its ranks are those of Prepare.Ranks
	Ledger        string    // directory of the ledger; empty: the default
	ClusterLedger string    // the cluster file's ledger directory, if Ledger differs from it; empty: it does not
	MaxProcs      int       // most processes of all jobs on the node; negative: no limit
	IgnoreOthers  bool      // claim even CPUs that other jobs have claimed, for a test run
	KeepUntilBye  bool      // keep the claim until Bye or NextAttempt, even if all ranks have ended: another attempt may follow
}

func (p *Claim) fields(c *Codec) {
	c.claim(&p.Entry)
	c.Text(&p.Ledger, pathLength)
	c.Text(&p.ClusterLedger, pathLength)
	c.Num(&p.MaxProcs, Range{"limit on processes", math.MinInt32, math.MaxInt32})
	c.Bool(&p.IgnoreOthers)
	c.Bool(&p.KeepUntilBye)
}
