/*
Package job holds the nouns of Remshell: what was asked (Request), what was seen
(Snapshot), what will be done (Plan) and what came of it (Result).

	Request + Snapshot --plan.Make--> Plan --launch.Run--> Result

Nothing here decides, reads or prints anything. A node is a machine, a host a
name one connects to, a rank a process of the job, a section the part of the
command line between two colons, and the helper our own process on a node.
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

// An ID names a job. It is unique over launchers and time, at most 40 bytes of
// [A-Za-z0-9_.-], and serves as key-value space name of the job's PMI group.
type ID string

// GroupName names a group of the job by its number: 0 is that of the command line, which is called as
// the job; then spawns are counted.
func (id ID) GroupName(number int) string {
	if number == 0 {
		return string(id)
	}
	return fmt.Sprintf("%s_%d", id, number)
}

// GroupNumber is the number of a group that Group has named; -1: it has named none so.
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

// A Request is everything the user asked for, with all defaults filled in that
// do not depend on the nodes.
type Request struct {
	Job         ID
	User        User
	Apps        []App     // at least one; several for ":" sections
	Nodes       []NodeDef // candidates, each once
	HostEntries []int     // indices into Nodes in the user's order, with repeats; nil: each once
	Placement
	FixedPlacements []FixedPlacement // where each rank goes, if that was written down; nil: it was not
	LocalOnly       bool             // this machine alone, which nobody manages: its CPUs are shared rather than missed
	AllHosts        bool             // no -n, and the user named the hosts: each gets ranks, unless Skip is set
	SkipUnreachable bool             // --skip-unreachable: go on without lost candidates
	MinNodes        int              // --min-nodes: as long as so many nodes are left
	PMIPort         bool             // -pmi-port: ranks connect to their PMI server by TCP
	Universe        int              // processes that MPI programs are told would fit; 0: nothing, SystemSize: all slots
	Queue           Queue
	ResourceLimits  limits.Map     // what the job, its hosts and its ranks may use at most
	LimitOrigins    limits.Origins // who has set them
	TimeLimits      TimeLimits
	Streams         Streams
	Interface       string   // whose address ranks are told: a name or a prefix; empty: no matter
	Compat          []string // launchers, as --env-compat names them: ranks get variables as those would set
	OMPPlaces       OMPPlaces
	BaseEnv         Env      // for every rank: the launcher's environment
	GlobalEnv       []string // NAME=VALUE for every rank, on top of Base and of what its node's entry says: -genv
	EndPolicy       EndPolicy
	SignalPolicy    SignalPolicy
	SoftLimits      []SoftLimit // resource limits that ranks on other hosts shall have (ENV-8)
	SpawnHosts      SpawnHosts
	RM              *RM          // the batch system whose hosts these are; nil: they are not
	StagedFiles     []StagedFile // files that go to the nodes (--stage); names are unique
	WantAttributes  bool         // Node.Traits are wanted
	Restart         RestartPolicy
	Attempt         int // of the job, from 0
	Checkpoint      CheckpointPolicy
}

// SpawnHosts says to which hosts ranks may spawn others (TRUST-9); the zero value: to the
// candidates of the job.
type SpawnHosts struct {
	None   bool      // to none
	Job    bool      // to nodes alone that have ranks of the job already
	Any    bool      // to every host but the launching machine
	List   []NodeDef // to these, beside the candidates
	Option string    // the option that said so; empty: none did
}

// SystemSize as Universe stands for the slots of all candidates.
const SystemSize = -1

// A Placement is what was said of the job as a whole about where its ranks go
// (placement.md 1.3).
type Placement struct {
	Sort            string // sort.Mode; empty: the order of Turns
	Overbook        bool   // more ranks than slots are welcome; implies Exclusive, but at home
	Oversubscribe   bool   // more ranks than free slots are welcome, also on CPUs of jobs that share too (--oversubscribe)
	NoOversubscribe bool   // --nooversubscribe: no overbooking, whatever the default
	ShareOwnCPUs    bool   // of a spawn: what the job itself holds may be shared
	FreeCPUsFirst   bool   // of a spawn that has not asked all hosts for free CPUs yet: Oversubscribe does not count
	Exclusive       bool   // idle nodes only, and nobody else on them
	RoundRobin      bool   // consecutive ranks on different nodes
	Wait            bool   // queue for what is not there now
	CPUMap          []int  // the user's CPU map; nil: the nodes' own
	CPUMapOrigin    string // the flag or variable it came from
	NoPin           bool
	NoMemBind       bool
	Layout          pin.Layout // --map-by, --rank-by, --bind-to
	NoSharedHosts   bool       // no two sections have a node in common (--no-share-hosts)
	NodeSelection
}

// A FixedPlacement is where one rank was told to go.
type FixedPlacement struct {
	Node     int            // index into Request.Nodes
	Picks    []pin.CPURange // its CPUs there; nil: the next ones that are free
	Position SourcePosition
}

// A SourcePosition is a place in what somebody wrote, for messages about it.
type SourcePosition struct {
	File             string // the option, for a list
	Line, Col, Width int    // in characters; Line is 0 for a list
	Source           string // the whole line
}

// A Queue is where jobs that share nodes learn of one another (placement.md 6).
type Queue struct {
	Host             *NodeDef  // keeps the queue; nil: the candidate with the lowest ID
	StandbyHosts     []NodeDef // keep it where Host cannot be reached, in this order
	Required         bool      // no start without it
	Strict           bool      // no start where jobs are not kept apart: queueRequired was said to be yes
	LedgerDir        string    // directory of claims and tickets on every node; empty: the default
	ClusterLedgerDir string    // the directory of the cluster file, if Ledger is another; empty: it is not
	ParentJob        ID        // the job whose rank this mpiexec is; empty: it is none
	LauncherHost     string    // the host of this mpiexec, for listings
}

// A User is who asks, in numbers of the launching host.
type User struct {
	Name     string // for listings
	UID, GID int
	GIDs     []int // supplementary groups
}

// QueueHosts are the hosts that may keep the queue, the first one first; none: a candidate does.
func (q Queue) QueueHosts() []NodeDef {
	if q.Host == nil {
		return nil
	}
	return append([]NodeDef{*q.Host}, q.StandbyHosts...)
}

// InGroup reports whether the user belongs to a group.
func (u User) InGroup(group int) bool { return u.GID == group || slices.Contains(u.GIDs, group) }

// An App is what one section of the command line starts.
type App struct {
	N            int      // ranks; 0: as many as there are slots
	Soft         []int    // descending; if N is 0, the largest for which there are slots; nil: any
	Argv         []string // the program as the user wrote it, and its arguments
	Dir          string   // working directory on the node; a relative one begins in its home
	SearchBefore []string // folders in which the program is looked for before PATH
	SearchAfter  []string // the same behind PATH; relative ones begin in Dir
	Env          Env      // on top of Request.Base
	StagedFile   string   // the name of the parcel that is the program; empty: none is
	PMIOffer     PMIOffer // by which its ranks find their helper
	DefaultEnv   []string // NAME=VALUE beside that, where the entry of the rank's node says nothing of NAME
	Hosts        []string // names of the nodes this section is confined to; nil: all
	RankNeeds
}

// A RankNeeds is what the ranks of one section need of a node.
type RankNeeds struct {
	PerNode           int      // most ranks of this section per node; 0: no limit
	CPUsPerRank       int      // CPUs per rank; 0: 1
	CPUsPerRankOrigin string   // the flag or variable that said so; empty: none
	AllCPUs           bool     // the ranks on a node have all of its free CPUs, each an even part and at least Threads
	Features          []string // features every node must have
	Arch              string   // of every node, as in GOARCH; empty: any
	GPUs              int      // for each rank; 0: nothing was said, NoGPUs: it is to see none
	ExactPerNode      int      // exactly so many ranks on every used node; 0: nothing was said
	NUMA              pin.Confinement
	HWThreads         int // of each core that are CPUs; 0: a core is one, AllThreads
}

// NoGPUs as Share.GPUs hides those there are.
const NoGPUs = -1

// An Env says how the environment of a rank differs from that of its helper.
type Env struct {
	Minimal bool     // start from the few variables of cli.md ENV-3, not from all
	DirVars []string // NAME=DIRECTORY; set before the others, where there is such a directory
	Set     []string // NAME=VALUE; later ones win
	Unset   []string // names; a trailing * matches any rest
}

// EndPolicy says what the end of a rank means for the others, and for our exit code.
type EndPolicy struct {
	KeepOnExit       bool   // a rank that exits with a code other than 0 does not end the job
	KeepAll          bool   // nothing that happens to a rank ends the others, but MPI_Abort (-disable-auto-cleanup)
	StatusRule       string // "first" (also ""), "max", "rank0" or "or" (cli.md EXIT-3)
	StacksOnTimeout  bool   // SIGQUIT before the end when -timeout strikes
	LeaveChildren    bool   // what ranks leave behind may stay (--leave-children)
	KeepSessions     bool   // and the directories of Open MPI's files (--keep-session)
	CleanIPC         string // whose shared memory is freed after its end: of ranks that "failed" (also ""), "always", "no" (PD-16)
	ReportExitCodes  bool   // tell every exit code
	UsageReport      string // tell what the job consumed: "hosts", "rank", "lines" or "application"; empty: do not
	SampleUsage      bool   // look at all processes now and then: somebody wants to know (RM-51)
	InBatchJob       bool   // a batch system has granted the hosts
	SampleSmallRanks bool   // look for the memory of small processes, too: somebody wants to know
	ErrorCode        int    // exit code of our own failures; 0: 125
}

// SignalPolicy says what becomes of those that mpiexec gets and that do not end the job.
type SignalPolicy struct {
	Forward     []int // those passed on to the ranks; nil: the usual ones, empty: none
	ProcessOnly bool  // to the rank alone, and not to its process group
}

// An EndWarning is a signal to all ranks, by its number on this machine, so long before the job has to end
// (RM-58). The zero value is none.
type EndWarning struct {
	Signal int
	Before time.Duration
}

// TimeLimits are the times the job must keep. Zero means no limit.
type TimeLimits struct {
	Warn   EndWarning
	Margin time.Duration // --batch-option margin=: to end before the batch system does it
	Run    time.Duration // -timeout: the whole run
	Start  time.Duration // --start-timeout: until every rank runs
	Wait   time.Duration // --wait=TIME: in the queue
	Grace  time.Duration // --kill-grace: between SIGTERM and SIGKILL
}

// A NodeDef is a candidate as it was named, before anybody looked at it.
type NodeDef struct {
	ID           int    // position of first mention, from 0
	Name         string // as the user wrote it; the label in every message
	Slots        int    // as the user wrote it; 0: as many as the node has CPUs
	MaxSlots     int    // no overbooking beyond it (HOST-11); 0: no limit
	Tasks        int    // how many ranks a batch system meant it for; 0: nothing is said
	Origin       string // where it was named: "-host", "hosts.txt:3"
	User         string // login name, when the entry has one
	Host         string // as the entry names it: the alias that SSH looks up
	Address      string // where to connect instead, when the entry says so
	Port         int    // 0: as configured
	Local        bool   // this machine: reached without SSH
	Aliases      []string
	Interface    string       // as in Request, for this node
	SeparateNode bool         // a node of its own, even if another name is the same machine (alias=)
	Env          []string     // NAME=VALUE for ranks here, on top of Request.Base (env=)
	Bind         *pin.Binding // takes the place of the job's (binding=); nil: that holds
	HelperPath   string       // our program there, which is not sent then (path=); empty: it is found or sent
	Tier         int          // it is filled behind all of lower tiers, whatever the sort key
	ExcludedWhy  string       // why the job does not want it any more; empty: it does
	GrantedCPUs  pin.CPUGrant // which of its CPUs a batch system gave the job, where nothing else confines ranks to them
	GrantedGPUs  string       // likewise, the numbers of its GPUs, "0,2"; empty: nothing is said
	BatchDir     BatchDir     // the job's own, which it made here
	NodePolicy
}

// IsSameNode reports whether two candidates are one: names are unique.
func (n NodeDef) IsSameNode(other NodeDef) bool { return n.Name == other.Name }

// A NodePolicy is what the administrator says of a node (placement.md 1.8). The zero
// value has the defaults.
type NodePolicy struct {
	NoJobs       bool
	ClosedWhy    string // why the node's own administrator lets nothing run there; empty: he does
	Users        []int  // who may use it; nil: anybody, empty: root alone
	Groups       []int  // the same for groups
	MaxProcs     *int   // most processes at a time; nil: no limit
	Features     []string
	NoOverbook   bool
	NoExclusive  bool
	CPUMap       []int // core numbers in the order of slots; nil: ascending
	UserCPUMap   bool  // the user may give another map
	NoPin        bool
	NoMemBind    bool
	CountThreads bool // hardware threads are CPUs

	Classes    []string           // of the jobs it serves; nil: any
	Attributes nodeset.Attributes // local ones, and those that take the place of the probe's
	Networks   []string           // labels beside those of the probe; "-ethernet": one that is taken away
	InAllSets  bool               // member of every set of FEATURE
	Flavors    []string           // ap, os, su; nil: ap alone
	Reserve    int                // CPUs that ranks never get
}

// A Node is a candidate and what its probe found.
type Node struct {
	NodeDef
	Probe
	Occupancy
	ProbedAttributes Attributes // of which sets are made, as its probe found them; void unless Request.Traits asked for them
	CountedHWThreads int        // of each core that count as CPUs, where not all do by the cluster file; 0: a core is one CPU, AllThreads
	OutsideOccupancy Occupancy  // what jobs outside of our batch system's job hold, which refuses nothing (RM-20)
	Down             string     // why there is no valid probe now; the topology may be known all the same
	ShareableCPUs    []int      // of the busy CPUs, those that the job may share: its own, if it is to grow
	Confined         bool       // a rank that is not bound has the CPUs that may be used, not all that its helper has (RM-6)
}

// SlotCount is S of placement.md section 0: the slots of the whole node.
func (n Node) SlotCount() int {
	if n.Slots > 0 {
		return n.Slots
	}
	return n.CPUs()
}

// CPUs is how many slots the machine is good for: its cores, or threads, but for those in reserve,
// as far as a quota of CPU time lets them be used.
func (n Node) CPUs() int {
	all := max(0, n.countUnits(n.Topology)-n.Reserve)
	if n.CPUQuota > 0 {
		return min(all, n.CPUQuota)
	}
	return all
}

// A Probe is what a helper tells of its machine.
type Probe struct {
	Hostname     string
	Arch         string // as in GOARCH
	Kernel       string
	Identity     string // equal on two helpers exactly if they share one machine (HOST-8)
	Topology     pin.Topology
	Load         [3]float64 // of 1, 5 and 15 minutes; negative: unknown
	Memory       Memory
	NodeTime     time.Time // the node's own, when it was looked at; zero: unknown
	Model        string    // the type of its CPUs, to be compared with others'; empty: unknown
	GPUs         []gpu.GPU // that the helper may use
	WithheldGPUs int       // GPUs that it may not
	Fabric       bool      // it has a fast network: one that does not go by the kernel's IP
	CPUQuota     int       // CPUs that its control group may use at a time, at least 1; 0: no limit
	Holder       string    // the process of a batch system that the helper descends from (RM-45); empty: none is known
}

// DepthAndShape is how wide the ranks of some sections are, and how many are on each node, as far as that was said (aprun.md 7):
// of several sections the largest. One CPU is no depth.
func DepthAndShape(apps []App) (depth, shape int) {
	for _, app := range apps {
		if shape = max(shape, app.ExactPerNode); app.CPUsPerRank > 1 {
			depth = max(depth, app.CPUsPerRank)
		}
	}
	return depth, shape
}

// A Memory is that of a whole node, in bytes. Zero means unknown.
type Memory struct {
	Total     int64 // what the kernel manages, less than what is built in
	Available int64 // what new processes can have without swapping

	HugePages HugePages
}

// A Failure is a candidate that could not be used, with the reason in words
// that do not repeat the host's name.
type Failure struct {
	Node   string
	Origin string
	Err    error
}

// A Snapshot is what the probes of all candidates found at one time.
type Snapshot struct {
	Nodes  []Node
	Failed []Failure
	Ahead  int // requests that wait in the queue before this one

	Waited time.Duration // since the first attempt at the head of the queue
}

// A Plan is the decision: which rank runs where.
type Plan struct {
	Job        ID
	Size       int
	Nodes      []NodePlan  // only nodes with ranks, in the order they were filled
	Mapping    string      // PMI_process_mapping; empty: better not told
	FillOrder  []string    // names of the usable turns in filling order, with repeats
	Sort       string      // the canonical key of that order
	Exclusive  bool        // nobody else may use the nodes
	Overbooked bool        // ranks share CPUs
	Rejected   []Note      // candidates that cannot be used now, in their order
	Notes      []Note      // for the user
	Choice     *NodeChoice // nil: nothing was said of which nodes
}

// A NodePlan is the part of a plan that one helper carries out.
type NodePlan struct {
	Node  int // index into Snapshot.Nodes
	Name  string
	ID    int
	Ranks []RankPlan // ascending by rank
}

// Names are those of the nodes, in their order.
func (p Plan) Names() (names []string) {
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// CPUs is how many the part claims.
func (p NodePlan) CPUs() (cpus int) {
	for _, r := range p.Ranks {
		cpus += len(r.ClaimedCPUs)
	}
	return cpus
}

// A RankPlan is one rank of the plan.
type RankPlan struct {
	Rank, Local, App int

	*RankResources // of a plan: never nil

	GPUs []gpu.GPU // its own, of one vendor, in the order of their numbers
}

// A RankResources is what a rank has of its node but for GPUs. Ranks that have the same of equal nodes have one
// in common, since the hosts of large jobs are alike: nobody changes it.
type RankResources struct {
	Slots       []int // of the node, ascending (placement.md 7.2); reserved also when not pinned
	ClaimedCPUs []int // the CPUs of its slots, ascending, which no other job may have
	CPUs        []int // the affinity mask, in kernel numbers, ascending; nil: not pinned
	Mems        []int // the NUMA nodes memory may come from, ascending; nil: not bound

	MemMode pin.MemMode // what they mean; empty: memory comes from them alone
}

// A Note has a code for programs and a sentence for people.
type Note struct {
	Code, Node, Text string
	ID               int // of the node, if there is one
}

// maxCommandText bounds what a listing says of a command, in bytes.
const maxCommandText = 200

// Command is the command line of a job's programs, for listings.
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
