package wire

import (
	"math"
	"time"

	"remshell/job"
	"remshell/pmiserver/spawn"
)

// Prepare hands over what this node has to start: its part of a group of ranks. Ranks are
// numbered from 0 in each group; in all other messages they are numbered through the whole
// job.
type Prepare struct {
	Job         job.ID
	Group       Group          // of ranks, to which those of this node belong
	Node        GroupNode      // what this node is in it
	Apps        []job.App      // the number of each is that of its ranks in the group
	Ranks       []job.RankPlan // those of this node
	Process     Process
	Streams     Streams
	PMI         PMISetup
	Supervision Supervision
	Claim       Claim
}

func (m *Prepare) fields(c *codec) {
	c.word((*string)(&m.Job), "job")
	m.Group.fields(c)
	m.Node.fields(c)
	list(c, &m.Apps, length{"sections", maxFromLauncher}, (*codec).app)
	list(c, &m.Ranks, length{"ranks", maxFromLauncher}, (*codec).rank)
	m.Process.fields(c)
	m.Streams.fields(c)
	m.PMI.fields(c)
	m.Supervision.fields(c)
	m.Claim.fields(c)
	m.checkRanks(c)
}

// checkRanks refuses ranks that have no program, or are not of the group.
func (m *Prepare) checkRanks(c *codec) {
	for i := range m.Apps {
		c.require(len(m.Apps[i].Argv) > 0, "section %d without a program", i)
	}
	for _, r := range m.Ranks {
		c.require(r.App < len(m.Apps), "section %d", r.App)
		c.require(r.Rank < m.Group.Size, "rank %d of %d", r.Rank, m.Group.Size)
	}
}

// A Group is one MPI_COMM_WORLD: that of the command line, or one that was spawned.
type Group struct {
	Name       string // of the group, and of its key-value space
	Number     int    // of the group in the job: 0 is that of the command line, then spawns are counted
	Parent     string // the group that has spawned this one; empty: none
	ParentRank int    // the rank of Parent that has asked
	PMIx       bool   // it has asked by PMIx, which this group is to speak, too
	First      int    // number of the group's rank 0 in the job; 0: it is the first group
	Size       int    // ranks
	NodeCount  int    // nodes that have some of them
}

func (g *Group) fields(c *codec) {
	c.word(&g.Name, "group")
	c.num(&g.Number, sizeRange)
	c.word(&g.Parent, "parent")
	c.num(&g.ParentRank, rankRange)
	c.boolean(&g.PMIx)
	c.num(&g.First, rankRange)
	c.num(&g.Size, sizeRange)
	c.num(&g.NodeCount, sizeRange)
}

// A GroupNode is what a node is in a group.
type GroupNode struct {
	Index         int    // among the nodes of the group
	OnlyNode      bool   // the job has no other node
	SharedMachine bool   // its machine plays other nodes, too
	Name          string // as the user wrote it
	Address       string // for its peers; empty: unknown
	Interface     string // whose address the ranks are told: a name or a prefix; empty: no matter
	Slots         int    // of the whole node, S of placement.md section 0
	EarlierRanks  int    // ranks that groups of the job with lower numbers have had there
}

func (n *GroupNode) fields(c *codec) {
	c.num(&n.Index, sizeRange)
	c.boolean(&n.OnlyNode)
	c.boolean(&n.SharedMachine)
	c.word(&n.Name, "name")
	c.word(&n.Address, "address")
	c.word(&n.Interface, "interface")
	c.num(&n.Slots, sizeRange)
	c.num(&n.EarlierRanks, rankRange)
}

// A Process is what each rank's process inherits, besides what its section says.
type Process struct {
	BaseEnv            job.Env
	Compat             []string          // other launchers whose variables it gets too: job.Request
	Umask              int               // of the launcher; negative: leave the node's
	SoftLimits         []job.SoftLimit   // as far as the node's hard limits allow
	KernelLimits       []job.KernelLimit // which have to be set before the program runs
	OMPPlaces          job.OMPPlaces     // where OpenMP's threads of bound ranks run; empty: nothing is told
	BindingRequired    bool              // a binding to CPUs was asked for: a rank that cannot have it does not start
	BindingUnspecified bool              // nobody has said how ranks are bound
}

func (p *Process) fields(c *codec) {
	c.env(&p.BaseEnv)
	c.texts(&p.Compat, length{"names", 64}, nameLength)
	c.num(&p.Umask, valueRange{"umask", -1, 0o777})
	list(c, &p.SoftLimits, length{"limits", 64}, (*codec).softLimit)
	list(c, &p.KernelLimits, length{"limits", 64}, (*codec).kernelLimit)
	c.word((*string)(&p.OMPPlaces), "places")
	c.boolean(&p.BindingRequired)
	c.boolean(&p.BindingUnspecified)
}

// Streams are those of the node's ranks.
type Streams struct {
	Stdin       []int // ranks whose stdin comes as Data
	Window      int   // bytes of an output stream under way without Credit
	MergeStderr bool  // stderr goes where stdout goes
	PTY         []int // ranks that have a pseudo-terminal
	Rows, Cols  int   // of that; 0: unknown
}

func (s *Streams) fields(c *codec) {
	c.nums(&s.Stdin, length{"ranks", maxFromLauncher}, rankRange)
	c.num(&s.Window, bytesRange)
	c.boolean(&s.MergeStderr)
	c.nums(&s.PTY, length{"ranks", maxFromLauncher}, rankRange)
	c.num(&s.Rows, terminalSizeRange)
	c.num(&s.Cols, terminalSizeRange)
}

// A PMISetup is what the PMI server of the group's ranks on the node starts with.
type PMISetup struct {
	Mapping      string       // which rank is on which node
	Universe     int          // processes that would fit; 0: unknown
	Slots        int          // of all hosts that ranks of the job may be on
	NoFabric     bool         // that no node with which the job began has a fast one, nor a GPU
	ExplainOffer bool         // why a section is offered what it is
	Preputs      []spawn.Pair // that the group finds in its key-value space
	Port         bool         // ranks connect by TCP
	Trace        bool         // of what they say
	Token        string       // by which ranks are known to their PMIx server (PMIX-19); the same on all nodes
}

func (p *PMISetup) fields(c *codec) {
	c.text(&p.Mapping, unboundedLength)
	c.num(&p.Universe, sizeRange)
	c.num(&p.Slots, sizeRange)
	c.boolean(&p.NoFabric)
	c.boolean(&p.ExplainOffer)
	list(c, &p.Preputs, length{"preputs", maxFromLauncher}, (*codec).pair)
	c.boolean(&p.Port)
	c.boolean(&p.Trace)
	c.word(&p.Token, "token")
}

// Supervision is what is told of ranks that run, and how they end.
type Supervision struct {
	ReportBindings    bool          // Started shall tell of bindings
	SampleSmallRanks  bool          // the memory of small ranks is looked for, too
	SampleUsage       bool          // Sampled is wanted
	SampleOften       bool          // and as often as may be: there is a limit
	ProcessOnly       bool          // Signal goes to the ranks alone, not to their process groups
	KeepAll           bool          // nothing that happens to a rank ends the others (job.EndPolicy)
	LeaveChildren     bool          // what ranks leave behind may stay
	KeepSessions      bool          // and so may the directories of Open MPI's files
	CleanIPC          string        // whose shared memory is freed: failed (or empty), always, no
	BatchStarted      bool          // the starter of a batch system has started the helper: see Caught
	BatchSignalsRanks bool          // its signals to the helper go to the ranks as well
	Grace             time.Duration // between SIGTERM and SIGKILL
	Silence           time.Duration // how long the link may be dead before the job is
}

func (s *Supervision) fields(c *codec) {
	c.boolean(&s.ReportBindings)
	c.boolean(&s.SampleSmallRanks)
	c.boolean(&s.SampleUsage)
	c.boolean(&s.SampleOften)
	c.boolean(&s.ProcessOnly)
	c.boolean(&s.KeepAll)
	c.boolean(&s.LeaveChildren)
	c.boolean(&s.KeepSessions)
	c.word(&s.CleanIPC, "value of --clean-ipc")
	c.boolean(&s.BatchStarted)
	c.boolean(&s.BatchSignalsRanks)
	c.duration(&s.Grace, "grace")
	c.duration(&s.Silence, "silence")
}

// A Claim is what is to be entered into the node's ledger, and what others may hold beside it. An entry
// that rests is that of a spare (survive.md SV-7): it is claimed, and nothing is made ready.
type Claim struct {
	Entry         job.Claim // its ranks are those of Ranks
	Ledger        string    // directory of the ledger; empty: the default
	ClusterLedger string    // directory of the cluster file's ledger, if the user names another; empty: he does not
	MaxProcs      int       // processes of all jobs that the node allows; negative: no limit
	IgnoreOthers  bool      // others' CPUs are no obstacle: a try-out
	KeepUntilBye  bool      // until Bye or Renew, also when all ranks are over: another attempt may follow
}

func (p *Claim) fields(c *codec) {
	c.claim(&p.Entry)
	c.text(&p.Ledger, pathLength)
	c.text(&p.ClusterLedger, pathLength)
	c.num(&p.MaxProcs, valueRange{"limit of processes", math.MinInt32, math.MaxInt32})
	c.boolean(&p.IgnoreOthers)
	c.boolean(&p.KeepUntilBye)
}
