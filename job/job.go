/*
Package job defines the types that all parts of mpiexec share: what the user requested (Request), what the
probes found (Snapshot), which rank runs where (Plan) and how the job ended (Result).

	Request + Snapshot --plan.Make--> Plan --launch.Run--> Result

The package makes no decisions and performs no I/O. A node is a machine, a host is a name to connect to, and a rank
is a process of the job. An app context is the part of the command line between two colons. A helper is the process
that mpiexec starts on a node.
*/
package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/gpu"
	"remshell/limits"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// An ID identifies a job. It is unique across launching machines and over time. It consists of at most 40 bytes of
// [A-Za-z0-9_.-], and is also the KVS name (key-value space) of the job's PMI group.
type ID string

// GroupName returns the name of one of the job's groups of ranks, as PMI uses it. Group 0 consists of the ranks of the
// command line, and its name is the job's ID. Each spawn creates another group. These groups are numbered from 1.
func (id ID) GroupName(number int) string {
	if number == 0 {
		return string(id)
	}
	return fmt.Sprintf("%s_%d", id, number)
}

// GroupNumber returns the number of the group with this name; it is the inverse of GroupName. It returns -1
// if group is not a name of a group of this job.
func (id ID) GroupNumber(group string) int {
	if group == string(id) {
		return 0
	}
	text, of := strings.CutPrefix(group, string(id)+"_")
	number, err := strconv.Atoi(text)
	if !of || err != nil || number < 1 || id.GroupName(number) != group {
		return -1
	}
	return number
}

// A Request describes the job that a user wants to run. All defaults that do not depend on the nodes are
// filled in.
type Request struct {
	Job         ID
	User        User
	Apps        []App     // app contexts, at least one
	Nodes       []NodeDef // candidates, each once
	HostEntries []int     // indices into Nodes in the user's order, with repeats; nil: each once
	Placement
	FixedPlacements []FixedPlacement // the node of each rank, if the user fixed it; nil: not fixed
	LocalOnly       bool             // only this machine, without a batch system: too few CPUs are shared instead of refused
	AllHosts        bool             // no -n, and the user named the hosts: each gets ranks, unless SkipUnreachable is set
	SkipUnreachable bool             // --skip-unreachable: start without candidates that cannot be reached
	MinNodes        int              // --min-nodes: start if at least this number of nodes is left; 0: all are needed
	PMIPort         bool             // -pmi-port: ranks connect to their PMI server by TCP
	Universe        int              // universe size reported to MPI programs; 0: not reported, SystemSize: all slots
	Queue           Queue
	ResourceLimits  limits.Map     // limits of the job, of its hosts and of its ranks
	LimitOrigins    limits.Origins // where each limit was set
	TimeLimits      TimeLimits
	Streams         Streams
	Interface       string   // network interface whose address ranks are given: a name or prefix; empty: any
	Compat          []string // launchers as in --env-compat: ranks also get the variables that these set
	OMPPlaces       OMPPlaces
	BaseEnv         Env      // for every rank: the launcher's environment
	GlobalEnv       []string // NAME=VALUE for every rank, applied after BaseEnv and the node's NodeDef.Env: -genv
	EndPolicy       EndPolicy
	SignalPolicy    SignalPolicy
	SoftLimits      []SoftLimit // resource limits set for ranks on other hosts (ENV-8)
	Priority        Priority    // priority set for ranks on other hosts (ENV-8)
	SpawnHosts      SpawnHosts
	RM              *RM          // the batch job that granted the hosts; nil: none
	StagedFiles     []StagedFile // files to copy to the nodes (--stage); names are unique
	NeedsOtherHosts bool         // the job may connect to hosts that are no candidates, or open a second helper on this machine
	WantAttributes  bool         // probes must report Node.ProbedAttributes
	Restart         RestartPolicy
	Attempt         int // number of the attempt, from 0
	Checkpoint      CheckpointPolicy
}

// SpawnHosts says on which hosts ranks may spawn processes (rule TRUST-9). The zero value allows the
// job's candidate hosts.
type SpawnHosts struct {
	None   bool      // spawning is not allowed
	Job    bool      // only nodes that run ranks of the job already
	Any    bool      // every host except the launching machine
	List   []NodeDef // these hosts, in addition to the candidates
	Option string    // the option that set this; empty: the default
}

// SystemSize, as the value of Request.Universe, stands for the number of slots of all candidate hosts.
const SystemSize = -1

// A Placement contains the settings about where ranks run that apply to the whole job (placement.md 1.3).
type Placement struct {
	Sort            string // sort.Mode; empty: the order of HostEntries
	Overbook        bool   // allow more ranks than slots; implies Exclusive, except with LocalOnly
	Oversubscribe   bool   // allow more ranks than free slots, also on CPUs of other jobs that share (--oversubscribe)
	NoOversubscribe bool   // --nooversubscribe: never more ranks than slots, whatever the default
	ShareOwnCPUs    bool   // of a spawn: may share the CPUs that the job itself claims
	FreeCPUsFirst   bool   // of a spawn: ignore Oversubscribe until all hosts were tried for free CPUs
	Gang            bool   // share CPUs with other gangs, in turns (--gang)
	JobGang         *Gang  // of a spawn: the gang of its job, whose party it has; nil: the plan chooses a party
	Exclusive       bool   // use idle nodes only, and keep other jobs off them
	RoundRobin      bool   // consecutive ranks on different nodes
	Wait            bool   // wait in the queue if nodes are not free now
	CPUMap          []int  // the user's CPU map; nil: each node's own
	CPUMapOrigin    string // the option or variable that set CPUMap
	NoPin           bool
	NoMemBind       bool
	Layout          pin.Layout // --map-by, --rank-by, --bind-to
	NoSharedHosts   bool       // no node has ranks of two app contexts (--no-share-hosts)
	NodeSelection
}

// A FixedPlacement is the node, and optionally the CPUs, that the user chose for one rank.
type FixedPlacement struct {
	Node     int            // index into Request.Nodes
	Picks    []pin.CPURange // its CPUs there; nil: the next free ones
	Position SourcePosition
}

// A SourcePosition is a position in a user's file or option, for error messages.
type SourcePosition struct {
	File             string // the file, or the option if a list on the command line is meant
	Line, Col, Width int    // Col and Width count characters; Line is 0 for a list
	Source           string // text of the whole line
}

// A Queue says where a job waits. It names the host that keeps the queue. It also names the ledger (directory of
// claims) in which jobs on the same nodes find each other's claims (placement.md 6).
type Queue struct {
	Host             *NodeDef  // the host that keeps the queue; nil: the candidate with the lowest ID
	StandbyHosts     []NodeDef // keep the queue if Host cannot be reached, tried in this order
	Required         bool      // fail if no host that keeps the queue can be reached
	Strict           bool      // fail where claims cannot be made: queueRequired is set to yes
	LedgerDir        string    // directory of claims and tickets on every node; empty: the default
	ClusterLedgerDir string    // the directory of the cluster file, if LedgerDir differs from it; empty: it does not
	ParentJob        ID        // the job that has this mpiexec as a rank; empty: none
	LauncherHost     string    // the host of this mpiexec, for listings
}

// A User is the user who starts the job. The numeric IDs are those on the machine where mpiexec runs.
type User struct {
	Name     string // for listings
	UID, GID int
	GIDs     []int // supplementary groups
}

// QueueHosts returns the hosts that can keep the queue, in the order in which mpiexec tries them. If it returns
// nil, one of the candidate hosts keeps the queue.
func (q Queue) QueueHosts() []NodeDef {
	if q.Host == nil {
		return nil
	}
	return append([]NodeDef{*q.Host}, q.StandbyHosts...)
}

// InGroup reports whether group is the user's primary group or a supplementary one.
func (u User) InGroup(group int) bool { return u.GID == group || slices.Contains(u.GIDs, group) }

// An App is an app context: one part of the command line, between colons.
type App struct {
	N            int      // number of ranks; 0: one per slot
	Soft         []int    // allowed numbers of ranks, descending: if N is 0, the largest that fits is taken; nil: any
	Argv         []string // the program as the user wrote it, and its arguments
	Dir          string   // working directory on the node; a relative path starts at the home directory
	SearchBefore []string // directories searched for the program before PATH
	SearchAfter  []string // directories searched after PATH; relative paths start at Dir
	Env          Env      // applied after Request.BaseEnv
	StagedFile   string   // name of the staged file that is the program; empty: none
	PMIOffer     PMIOffer // PMI versions by which its ranks can connect to their helper
	DefaultEnv   []string // NAME=VALUE, set where NodeDef.Env of the rank's node does not set NAME
	Hosts        []string // names of the only nodes that its ranks may use; nil: all
	RankNeeds
}

// A RankNeeds says which resources of a node each rank of an app context needs.
type RankNeeds struct {
	PerNode           int      // most ranks of this app context per node; 0: no limit
	CPUsPerRank       int      // CPUs per rank; 0: 1
	CPUsPerRankOrigin string   // the option or variable that set CPUsPerRank; empty: none
	AllCPUs           bool     // the ranks on a node divide all its free CPUs evenly, with at least CPUsPerRank for each
	Features          []string // features that every node must have
	ProbedFeatures    []string // those of ProbedFeatures that the probe of every node must have found
	Arch              string   // architecture that every node must have, as in GOARCH; empty: any
	GPUs              int      // GPUs per rank; 0: not requested, NoGPUs: hide all GPUs from ranks
	ExactPerNode      int      // exact number of ranks on every node that is used; 0: not requested
	NUMA              pin.Confinement
	HWThreads         int // hardware threads per core that count as CPUs; 0: a core is one CPU, AllThreads: every thread is
}

// ProbedFeatures lists the features that helpers can find on their nodes. If the cluster file or the host file gives a
// feature to any node, --nodetype ignores what helpers have found about this feature.
var ProbedFeatures = []string{"ethernet", "infiniband", "omnipath", "roce", "slingshot", "nvidia", "amd", "intel"}

// NoGPUs is a value of RankNeeds.GPUs. It hides the node's GPUs from the ranks.
const NoGPUs = -1

// An Env says how a rank's environment differs from that of its helper.
type Env struct {
	Minimal bool     // inherit only the variables of cli.md ENV-3
	DirVars []string // NAME=DIRECTORY; set before Set, if the directory exists on the node
	Set     []string // NAME=VALUE; later assignments win
	Unset   []string // names; a trailing * matches any rest
}

// EndPolicy says how the end of a rank affects other ranks and the exit code of mpiexec.
type EndPolicy struct {
	KeepOnExit      bool   // a rank that exits with a code other than 0 does not end the job
	KeepAll         bool   // only MPI_Abort in a rank ends the others (-disable-auto-cleanup)
	StatusRule      string // "first" (also ""), "max", "rank0" or "or" (cli.md EXIT-3)
	StacksOnTimeout bool   // send SIGQUIT before ending ranks at -timeout, so that they print stacks
	LeaveChildren   bool   // do not end processes that ranks leave behind (--leave-children)
	KeepSessions    bool   // keep Open MPI's session directories (--keep-session)
	ReportExitCodes bool   // print the exit code of every rank
	InBatchJob      bool   // a batch system granted the hosts
	ErrorCode       int    // exit code for failures of mpiexec itself; 0: 125
}

// SignalPolicy says what mpiexec does with received signals that do not end the job.
type SignalPolicy struct {
	Forward     []int // signals forwarded to the ranks; nil: the default ones, empty: none
	ProcessOnly bool  // forward to the rank's process only, not to its process group
}

// An EndWarning is a signal that all ranks receive some time before the job must end (rule RM-58). Signal is the
// signal's number on this machine. The zero value means that there is no such signal.
type EndWarning struct {
	Signal int
	Before time.Duration
}

// TimeLimits are the time limits of the job. A zero duration means no limit.
type TimeLimits struct {
	Warn   EndWarning
	Margin time.Duration // --batch-option margin=: how long before the batch job's end mpiexec ends the job
	Run    time.Duration // -timeout: of the whole run
	Start  time.Duration // --start-timeout: until every rank runs
	Wait   time.Duration // --wait=TIME: of waiting in the queue
	Grace  time.Duration // --kill-grace: between SIGTERM and SIGKILL
}

// A NodeDef is a candidate node as the user and the cluster file describe it, before a helper has examined the
// node.
type NodeDef struct {
	ID           int    // position at which it is first named, from 0
	Name         string // as the user wrote it; used in messages
	Slots        int    // as the user wrote it; 0: as many as the node has CPUs
	MaxSlots     int    // most ranks with overbooking (HOST-11); 0: no limit
	Tasks        int    // number of tasks that the batch system assigned to it; 0: unknown
	Origin       string // where the user named it: "-host", "hosts.txt:3"
	User         string // login name of its host entry; empty: none
	Host         string // name in its host entry: the alias that ssh looks up in its configuration
	Address      string // address to connect to instead, if the host entry has one
	Port         int    // 0: as configured in ssh_config
	Local        bool   // this machine: no ssh is needed
	Aliases      []string
	Interface    string       // as Request.Interface, for this node
	SeparateNode bool         // a node of its own, even if another name is the same machine (alias=)
	Env          []string     // NAME=VALUE for ranks on this node, applied after Request.BaseEnv (env=)
	Bind         *pin.Binding // overrides the job's binding (binding=); nil: the job's
	HelperPath   string       // path of our program on the node, which is then not sent (path=); empty: found or sent
	Tier         int          // nodes of lower tiers are filled first, whatever the sort key
	ExcludedWhy  string       // why the job no longer uses it; empty: it does
	GrantedCPUs  pin.CPUGrant // CPUs that the batch system granted, if no cpuset confines ranks to them
	GrantedGPUs  string       // numbers of the GPUs that the batch system granted, "0,2"; empty: unknown
	BatchDir     BatchDir     // directory that the batch system made for the job on this node
	NodePolicy
}

// IsSameNode reports whether n and other are the same candidate host. It compares the names, which are unique.
func (n NodeDef) IsSameNode(other NodeDef) bool { return n.Name == other.Name }

// A NodePolicy contains an administrator's rules for a node (placement.md 1.8). The zero value stands for the
// defaults.
type NodePolicy struct {
	NoJobs       bool
	ClosedWhy    string // why the node's own administrator allows no jobs; empty: jobs are allowed
	Drained      bool   // ClosedWhy says that root has drained the node
	Users        []int  // users who may use it; nil: all, empty: only root
	Groups       []int  // groups that may use it; nil: all, empty: only root
	MaxProcs     *int   // most ranks at a time; nil: no limit
	Features     []string
	NoOverbook   bool
	NoExclusive  bool
	CPUMap       []int // core numbers in the order of slots; nil: ascending
	UserCPUMap   bool  // the user may override CPUMap
	NoPin        bool
	NoMemBind    bool
	CountThreads bool // every hardware thread counts as a CPU

	Classes    []string           // job classes that may use it; nil: any
	Attributes nodeset.Attributes // site-defined attributes, and values that override the probe's
	Networks   []string           // labels added to the probe's; "-ethernet" removes one
	InAllSets  bool               // belongs to every node set by FEATURE
	Flavors    []string           // ap, os, su; nil: only ap
	Reserve    int                // number of CPUs that ranks never get
}

// A Node is a candidate host with the result of its probe.
type Node struct {
	NodeDef
	Probe
	Occupancy
	ProbedAttributes Attributes // attributes for node sets, from the probe; zero unless Request.WantAttributes is set
	CountedHWThreads int        // hardware threads per core that count as CPUs, unless CountThreads is set; 0: a core is one CPU, AllThreads: all
	OutsideOccupancy Occupancy  // claims of jobs outside our batch job; they refuse nothing (RM-20)
	Down             string     // why there is no current probe; the topology may still be known from an earlier one
	Gang             GangTerms  // how gangs take turns there; zero unless Request.Gang is set
	ShareableCPUs    []int      // busy CPUs that the job may share: its own, if it spawns
	Confined         bool       // an unbound rank may use only the CPUs granted to the job, not all CPUs of its helper (RM-6)
}

// SlotCount returns the number of slots of the whole node (S in placement.md 0).
func (n Node) SlotCount() int {
	if n.Slots > 0 {
		return n.Slots
	}
	return n.CPUs()
}

// CPUs returns the number of cores (or hardware threads) of the node without the reserved ones, limited by the CPU
// quota. The node has as many slots, unless the user has set the number of slots.
func (n Node) CPUs() int {
	all := max(0, n.countUnits(n.Topology)-n.Reserve)
	if n.CPUQuota > 0 {
		return min(all, n.CPUQuota)
	}
	return all
}

// A Probe is a helper's description of its machine.
type Probe struct {
	Hostname     string
	Arch         string // as in GOARCH
	Kernel       string
	Identity     string // equal for two helpers if and only if they run on the same machine (HOST-8)
	Topology     pin.Topology
	Load         [3]float64 // load averages of 1, 5 and 15 minutes; negative: unknown
	Memory       Memory
	NodeTime     time.Time // the node's clock at the time of the probe; zero: unknown
	Model        string    // CPU model, for comparison with other nodes; empty: unknown
	GPUs         []gpu.GPU // GPUs that the helper may use
	WithheldGPUs int       // number of GPUs that it may not use
	Fabric       bool      // it has a fast network that bypasses the kernel's IP stack
	CPUQuota     int       // CPUs that its control group may use at a time, at least 1; 0: no limit
	Holder       string    // name of the batch system's process that is an ancestor of the helper (RM-45); empty: none known
}

// DepthAndShape returns the largest number of CPUs per rank (depth) and the largest exact number of ranks per node
// (shape) that an app context requests (aprun.md 7). A result is 0 if no app context requests such a number. A request
// for one CPU per rank is ignored.
func DepthAndShape(apps []App) (depth, shape int) {
	for _, app := range apps {
		if shape = max(shape, app.ExactPerNode); app.CPUsPerRank > 1 {
			depth = max(depth, app.CPUsPerRank)
		}
	}
	return depth, shape
}

// A Memory describes the memory of a whole node in bytes. A zero field means unknown.
type Memory struct {
	Total     int64 // memory managed by the kernel, somewhat less than the installed memory
	Available int64 // memory that new processes can get without swapping

	HugePages HugePages
}

// A Failure is a candidate host that cannot be used, with the reason. The text of Err does not contain the host's name.
type Failure struct {
	Node   string
	Origin string
	Err    error
}

// A Snapshot contains the results of examining all candidate hosts at one time.
type Snapshot struct {
	Nodes  []Node
	Failed []Failure
	Ahead  int // number of requests before this one in the queue

	Waited time.Duration // time since this request reached the head of the queue
}

// A Plan says on which node each rank runs, and with which resources.
type Plan struct {
	Job        ID
	Size       int
	Nodes      []NodePlan  // only nodes with ranks, in the order they were filled
	Mapping    string      // PMI_process_mapping; empty: not set for ranks
	FillOrder  []string    // names of the usable host entries in filling order, with repeats
	Sort       string      // canonical name of the sort key of FillOrder
	Exclusive  bool        // no other job may use the nodes
	Overbooked bool        // ranks share CPUs
	Gang       *Gang       // how it takes turns with other gangs; nil: it is no gang
	Rejected   []Note      // candidate hosts that cannot be used now, in their order, with the reasons
	Notes      []Note      // for the user
	Choice     *NodeChoice // how the nodes were chosen; nil: the user and the cluster file set no rules

	GangCompetitors []GangJob // the gangs with which it shares CPUs
}

// A NodePlan is the part of a plan that one node's helper carries out.
type NodePlan struct {
	Node  int // index into Snapshot.Nodes
	Name  string
	ID    int
	Ranks []RankPlan // ascending by rank
}

// Names returns the names of the nodes, in the order of p.Nodes.
func (p Plan) Names() (names []string) {
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// CPUs returns the number of CPUs that the ranks of the node claim.
func (p NodePlan) CPUs() (cpus int) {
	for _, r := range p.Ranks {
		cpus += len(r.ClaimedCPUs)
	}
	return cpus
}

// A RankPlan is the placement of one rank.
type RankPlan struct {
	Rank, Local, App int

	*RankResources // never nil in a finished plan

	GPUs []gpu.GPU // GPUs assigned to it, all of one vendor, ascending by number
}

// RankResources are the resources of a node that a rank uses, except GPUs. To save memory, ranks with equal resources
// on equal nodes share one value. This value must not be changed.
type RankResources struct {
	Slots       []int // slots of the node, ascending (placement.md 7.2); also set if the rank is not pinned
	ClaimedCPUs []int // CPUs of its slots, ascending; no other job may claim them
	CPUs        []int // affinity mask: kernel numbers, ascending; nil: not pinned
	Mems        []int // NUMA nodes that its memory may come from, ascending; nil: not bound

	MemMode pin.MemMode // memory policy for Mems; empty: memory comes from Mems only
}

// A Note is a remark about a node or a plan. Code is for programs, and Text is for people.
type Note struct {
	Code, Node, Text string
	ID               int // ID of Node; meaningless if Node is empty
}

// maxCommandText is the maximum length in bytes of a command line in a listing of jobs.
const maxCommandText = 200

// Command returns the command line of the job's programs for listings of jobs, cut to maxCommandText bytes.
func (r Request) Command() string {
	var parts []string
	for _, app := range r.Apps {
		parts = append(parts, strings.Join(app.Argv, " "))
	}
	text := strings.Join(parts, " : ")
	if len(text) > maxCommandText {
		text = strings.ToValidUTF8(text[:maxCommandText], "") + "..."
	}
	return text
}
