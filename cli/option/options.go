package option

import (
	"cmp"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"remshell/pin"
)

// The three structs below are the option table: parser, help, manual page and
// completions are made of it and of nothing else. Which struct an option is in
// says how far it reaches (CLI-13). The zero value of a field means that the
// option was not given; defaults are not filled in here, since environment and
// configuration come between (CLI-12).
//
// Tags:
//
//	name     our spelling, with the dashes we write it with
//	also     other spellings; "-vv=2" is a switch that means -verbose=2
//	arg      what the value is called; switches have none
//	takes    "pair": NAME VALUE or NAME=VALUE; "attached": only after "="
//	implied  value of a switch, or of an option that may stand alone
//	words    the only values allowed
//	least    smallest number allowed (default 1; durations: default above 0)
//	zero     "skip": 0 is allowed too, to leave a section out
//	repeat   "last": may be given again, and the last one holds
//	topic    where help lists it; "" only in -help TOPIC, with what stands before it
//	under    the topic of such an option, if it is another
//	env      variables of other launchers that mean the same; "-": not even ours does
//	default  what holds if nobody says anything (--info)
//	help     one line
//	more     what else there is to say
//	hint     what to do about a bad value

// Own belong to the section they stand in (scope S).
type Own struct {
	N        int      `name:"-n" also:"-np --ntasks" arg:"N" zero:"skip" topic:"Where ranks run" help:"number of ranks" more:"Without it: as many as the hosts have slots. Each section of a line with several needs its own. A section of such a line with -n 0 is left out."`
	Wdir     string   `name:"-wdir" also:"-wd -dir --chdir -D" arg:"DIR" topic:"Environment" help:"working directory on the hosts" more:"Without it: the directory mpiexec was called in."`
	Env      []EnvVar `name:"-env" arg:"NAME VALUE" takes:"pair" topic:"Environment" help:"set a variable for this section" more:"Also NAME=VALUE. On top of what -genv says for the whole job."`
	X        []EnvVar `name:"-x" arg:"NAME[=VALUE]" topic:"Environment" help:"set, or take along, a variable" more:"NAME alone takes the value it has here, PRE_* all variables whose names begin so. For this section."`
	EnvList  EnvTake  `name:"-envlist" also:"-exports -envall=* -envnone=" env:"PSI_EXPORTS" arg:"A,B,PRE_*" topic:"" help:"variables this section takes from here; -envall, -envnone"`
	UnsetEnv []string `name:"--unset-env" arg:"NAME" topic:"" help:"take a variable away (PRE_* several)"`
	Path     string   `name:"-path" arg:"DIR[:DIR]" topic:"" help:"look for the program there first, on the hosts"`
	Soft     Soft     `name:"-soft" arg:"SPEC" topic:"" under:"Where ranks run" help:"as many ranks of SPEC as there is room for" more:"MPI's a,b:c,d:e:f: numbers, spans, spans with a step. The largest that fits holds. Instead of -n."`
	Arch     Arch     `name:"-arch" arg:"NAME" topic:"" under:"Where ranks run" help:"hosts of this architecture only, such as amd64" more:"x86_64 and aarch64 are other words for these two."`

	ConfigFile string `name:"-configfile" also:"--app -file" arg:"FILE" env:"-" topic:"" under:"Where ranks run" help:"read sections from FILE, one on each line" more:"Options, program and arguments as on the command line, split like a shell would; # begins a comment, a backslash at the end goes on in the next line. What stands before -configfile beats the first line."`
}

// Shared of the first section hold in every section that does not give
// the option itself (scope F).
type Shared struct {
	Host     []HostExpr `name:"-host" env:"I_MPI_HYDRA_HOSTS_GROUP" also:"-hosts -H --nodelist" arg:"LIST" topic:"Where ranks run" help:"hosts: n1,n2:4,user@node[01-16]" more:"HOST[:SLOTS[:USER[:ADDRESS]]] with commas between; ^HOST leaves one out. Together with -hostfile it selects among the hosts of the file. Inside of an allocation of a batch system +nK is its K-th host, from 0, +e all that are not named before, +e:K so many of these."`
	HostFile string     `name:"-hostfile" env:"HYDRA_HOST_FILE I_MPI_HYDRA_HOST_FILE WCOLL" also:"-f -machinefile" arg:"FILE" topic:"Where ranks run" help:"file with hosts; - is standard input" more:"The files of MPICH, Open MPI, Intel MPI, Slurm, PBS, Grid Engine and clush are understood. Behind a host: slots, max_slots, user, port, addr, iface, alias, type, binding, env=NAME:VALUE and path of our program there, each KEY=VALUE for this host alone. With - standard input is not passed to the ranks."`
	PPN      int        `name:"-ppn" env:"I_MPI_PERHOST" also:"-gppn -N -perhost -grr -npernode --ntasks-per-node -pernode=1" arg:"K" topic:"Where ranks run" help:"at most K ranks on each host, in blocks" more:"0 is no limit." least:"0" hint:"it counts ranks on each host; hosts are named with -host"`
	TPP      string     `name:"--tpp" default:"1" also:"-gtpp --threads-per-process --cpus-per-proc --cpus-per-rank --cpus-per-task --depth" arg:"T" topic:"Where ranks run" help:"CPUs for each rank" more:"Without it: PSI_TPP, else OMP_NUM_THREADS, else 1."`
	NodeType string     `name:"--nodetype" also:"-gnodetype --node-type" arg:"LIST" topic:"" help:"nodes with all these features only" more:"Features are listed in the cluster file, or by type= in a host file. Without it: PSI_HW_TYPE."`
	GPUs     GPUCount   `name:"-gpus-per-proc" also:"-g --gpus-per-task" arg:"N" topic:"" least:"0" help:"GPUs for each rank, its own; 0 hides them all" more:"Of NVIDIA, AMD or Intel: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or ZE_AFFINITY_MASK tells each rank its own, and its CPUs are near them if there is a choice. A host takes as many ranks as it has free GPUs; GPUs that other jobs have by this option are not free, and --overbook does not change that. Without it nothing is set." hint:"write how many GPUs a rank gets; kinds of them have no names here"`
}

// Job speak of the whole job wherever they stand (scope J).
type Job struct {
	Nodes       string `name:"--nodes" arg:"LIST" topic:"Where ranks run" help:"nodes of the cluster file by ID: 0-3,7" more:"Without it, and without -host and -hostfile: PSI_NODES, PSI_HOSTS, PSI_HOSTFILE or PSI_PEFILE, else all nodes of the cluster file."`
	Sort        string `name:"--sort" default:"proc; none for -host and -hostfile" also:"-S" arg:"KEY" topic:"Where ranks run" help:"fill first by proc, load, none, or other keys" more:"The least of it comes first: proc, load, load5, load15, proc+load. Also slots, -slots (more slots first), name, and none, the order of the list. Without it: none for -host and -hostfile; else PSI_NODES_SORT, the cluster file's PSINodesSort, or proc."`
	OrderNodes  string `name:"-order-nodes" arg:"UP|DOWN" words:"up,down" topic:"" help:"Hydra's: hosts with few, or many, slots first" more:"As --sort slots and --sort -slots."`
	Overbook    string `name:"--overbook" default:"no" also:"--overcommit --oversubscribe --nooversubscribe=no --no-overbook=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"allow more ranks than slots (--nooversubscribe)"`
	Exclusive   string `name:"--exclusive" default:"no" also:"--no-exclusive=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"idle nodes only, and nobody else on them" more:"Nodes on which another job of any user runs are left out, and no other job starts on those that get ranks. --no-exclusive beats PSI_EXCLUSIVE."`
	Loop        string `name:"--loop-nodes-first" also:"-rr -bynode -loopnodesfirst -F --no-loop-nodes-first=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"consecutive ranks on different nodes (-rr)"`
	Wait        Wait   `name:"--wait" default:"no" also:"--no-wait=no" arg:"TIME" takes:"attached" implied:"yes" topic:"Where ranks run" help:"queue for nodes that are busy; --wait=TIME at most" more:"Requests start in the order in which they came; while one waits, nobody passes it. --no-wait beats PSI_WAIT."`
	Ledger      string `name:"--ledger" arg:"DIR" topic:"" help:"directory in which jobs on a node learn of one another" more:"All users of a node must name the same. It belongs to root, and is sticky and writable for all. Without it: MPIEXEC_LEDGER, else ledger of the cluster file, else /var/tmp."`
	CPUMap      string `name:"--cpu-map" arg:"LIST" topic:"" help:"cores in the order of slots: 0-3,7-4" more:"Ranks take slots in ascending order, so the first rank of a node gets the first core of the map. Cores count from 0 in the order of their lowest CPU (--report-bindings tells them). Where the cluster file does not say allowUserMap it is ignored with a warning. Without it: __PSI_CPUMAP, else CPUmap of the cluster file, else ascending."`
	Pin         string `name:"--pin" default:"yes" also:"--no-pin=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"bind each rank to its CPUs (default; --no-pin)" more:"Threads and children of a rank are bound with it. Ranks that share CPUs are bound too, in turns. Without it: no if __PSI_NO_PINPROC is defined, else pinProcs of the cluster file, else yes."`
	MemBind     string `name:"--mem-bind" default:"yes" also:"--no-mem-bind=no" implied:"yes" words:"yes,no" topic:"" help:"memory of its NUMA nodes only (--no-mem-bind)" more:"The default. It does not depend on --pin. Without it: no if __PSI_NO_BINDMEM or __PSI_NO_MEMBIND is defined, else bindMem of the cluster file, else yes."`
	HostsUnique string `name:"--hosts-unique" also:"--no-hosts-unique=no" implied:"yes" words:"yes,no" topic:"" help:"a host named again in a host list or file is not another slot" more:"In PSI_HOSTFILE only neighbours count once, as in ParaStation."`
	Slots       int    `name:"--default-slots" arg:"N" topic:"" help:"slots of each host for which none were counted" more:"In a host list or file, and of this machine if no host is named. Without it: as many as CPUs. It counts as if it were written behind each host; Hydra's rule is --default-slots 1 --overbook."`
	RankFile    string `name:"-rankfile" also:"-rf" arg:"FILE" topic:"" help:"file with the host and CPUs of each rank" more:"Lines: rank N=HOST slot=CPUS, or rank N-M. HOST may be +nK, the K-th of the host list from 0. CPUS: 0-3,6 counts cores by package; 1:0-2 or 1:* are cores of package 1; p8 is the kernel's CPU 8; * is all. Without -n the file says how many ranks there are. Ranks share CPUs only with --overbook."`
	RankMap     string `name:"-rankmap" arg:"LIST" topic:"" help:"the node of each rank: 0,0,1,1 or (start,nodes,ranks)" more:"Nodes count from 0 in the order of the host list. A block puts so many ranks on each of so many nodes, the first of which is start."`
	Cluster     string `name:"--cluster" arg:"FILE" topic:"Where ranks run" help:"cluster file: nodes and their attributes" more:"Without it: MPIEXEC_CLUSTER, else ~/.config/remshell/cluster.toml, else /etc/remshell/cluster.toml."`

	MapBy     pin.Mapping `name:"--map-by" default:"slot" env:"HYDRA_MAPPING" also:"--mapby -byslot=slot -bysocket=socket -bycore=core" arg:"POLICY" topic:"Where ranks run" help:"deal ranks to node, socket, numa, core, or seq" more:"OBJECT[:COUNT] deals ranks round the nodes (node) or, in each node that has its share, round its sockets (also: package), numa nodes, l3cache, l2cache, cores or hwthreads; slot is the default. COUNT neighbours are one object. ppr:N:OBJECT puts N ranks on each, one after the other. seq[:file=FILE] takes a host for each rank from the host file; rankfile:file=FILE is -rankfile FILE. pe-list=LIST[:ordered] uses these cores alone, all for each rank or one each. Behind it :pe=N CPUs for each rank, :span (round the objects of all nodes), :oversubscribe, :nooversubscribe, :nolocal, :hwtcpus (hardware threads are CPUs), :corecpus."`
	RankBy    pin.Ranking `name:"--rank-by" also:"--rankby" arg:"ORDER" topic:"" help:"number ranks by slot, node, fill, span or object" more:"slot: node by node. node: round the nodes. fill: node by node, object by object. span: round the objects of all nodes. An object such as socket: node by node, round its objects. Without it: as ranks are mapped."`
	BindTo    pin.Binding `name:"--bind-to" env:"HYDRA_BINDING" also:"--bindto -binding -bind-to-core=core -bind-to-socket=socket -bind-to-none=none" arg:"POLICY" topic:"Where ranks run" help:"bind ranks to core, socket, numa, none or more" more:"OBJECT[:COUNT]: the hwthread, core, l2cache, l3cache, numa, socket (package) or machine in which a rank's CPUs are, without the cores of other jobs; COUNT neighbours are one. none: no binding, as --no-pin. user:0+2,1+4,6-7: the kernel's CPUs of the first, second, ... rank of each node. cpu-list=LIST: these cores for all. rr: a CPU each, in the kernel's order. Behind an object :overload-allowed lets ranks share, :if-supported does without where a node does not tell its objects, :report is --report-bindings. Without it: each rank is bound to its own CPUs."`
	Memory    pin.Memory  `name:"-membind" env:"HYDRA_MEMBIND" arg:"POLICY" topic:"" help:"memory: none, local, interleave or bind:LIST" more:"local: from the NUMA node on which the touching thread runs (also: firsttouch). interleave: from all of the host in turns. bind:LIST: from these alone. none: as --no-mem-bind. Without it: from the NUMA nodes of the rank's cores alone."`
	CPUBind   string      `name:"--cpu-bind" arg:"WHAT" words:"threads,cores,sockets,none" topic:"" help:"srun's word for --bind-to"`
	PerSocket int         `name:"-npersocket" also:"--ntasks-per-socket" arg:"K" topic:"" help:"K ranks on each socket: --map-by ppr:K:socket"`
	PerNUMA   int         `name:"-npernuma" arg:"K" topic:"" help:"K ranks on each NUMA node: --map-by ppr:K:numa"`
	Threads   bool        `name:"-use-hwthread-cpus" topic:"" help:"hardware threads count as CPUs: --map-by :hwtcpus"`
	NoLocal   bool        `name:"-nolocal" also:"-skip-launch-node" topic:"" help:"do not use the host that runs mpiexec"`

	Plan           bool   `name:"--plan" topic:"" help:"tell where ranks would run, as JSON; start nothing" more:"The hosts are reached and looked at, unless --cluster-state is given. No program need be named."`
	DryRun         bool   `name:"--dry-run" also:"--do-not-launch -show --test-only" topic:"Telling" help:"explain where ranks would run; start nothing" more:"Candidates and where they were named, who was dropped and why, the order, each rank's CPUs, how hosts would be reached, variables. Nobody is contacted unless --probe is given too. No program need be named. The exit code is 0 if there is a plan."`
	Probe          bool   `name:"--probe" env:"-" topic:"" help:"for --dry-run: reach the hosts and look at them"`
	JSON           string `name:"--json" arg:"FILE" takes:"attached" implied:"-" topic:"" help:"events of a run, or what --dry-run, --ps, ... tell, as JSON" more:"Of a run one object per line as things happen: plan, connect, start, exit and summary, with --json-output also output; each has v, time and event. Without FILE, or with -, they go to standard output, and what the ranks write there to standard error. With --dry-run, --doctor, --ps, --queue and --status their answer as one object."`
	JSONOutput     bool   `name:"--json-output" topic:"" help:"with --json: what the ranks write, too" more:"As text or, where it is no UTF-8, as base64; it goes to its usual place all the same."`
	ClusterState   string `name:"--cluster-state" arg:"FILE" topic:"" help:"for --plan, --dry-run: the cluster in FILE"`
	SaveState      string `name:"--save-cluster-state" arg:"FILE" topic:"" more:"--cluster-state FILE plans with it later, anywhere." help:"write what the hosts are like to FILE"`
	ReportBindings bool   `name:"--report-bindings" env:"HYDRA_TOPO_DEBUG" topic:"Telling" help:"tell the CPUs of each rank, as the kernel has them" more:"A line for each rank once all run: rank 3 n1 package 0 core 3 [...B/....|........]. There is a character for each core: B if the rank is bound to it, b if it is to some of its hardware threads, - if it cannot be used here. | stands between packages, / between NUMA nodes and caches inside of one. Very large nodes show numbers of cores instead."`

	DisplayMap   string    `name:"--display-map" also:"--display-devel-map=full -print-rank-map" takes:"attached" arg:"full" implied:"yes" words:"yes,full" topic:"Telling" help:"which ranks run where; also --display-topo" more:"With =full, or with -vv, a line for each rank with its CPUs. See also --display-topo and --display-allocation. All of them write to standard error; with --dry-run to standard output."`
	DisplayTopo  bool      `name:"--display-topo" topic:"" help:"draw each kind of node before the start"`
	DisplayAlloc bool      `name:"--display-allocation" topic:"" help:"tell hosts, slots and where they were named"`
	Display      []Picture `name:"--display" arg:"LIST" topic:"" help:"map, topo, allocation: as --display-map and so on"`

	PS        bool      `name:"--ps" env:"-" topic:"Telling" help:"list live jobs; --queue: those that wait" more:"mpiexec --ps [HOSTS]: the hosts of a list, else of the cluster file, else this machine. With --json for programs."`
	ShowQueue bool      `name:"--queue" env:"-" topic:"" help:"list the requests that wait, first come first" more:"mpiexec --queue [HOSTS]: the queue is that of the cluster file, or of the first host."`
	Status    string    `name:"--status" env:"-" arg:"JOB" topic:"" help:"tell all of a job, be it running or waiting" more:"mpiexec --status JOB [HOSTS]: also what each rank is doing, as --status-signal tells it, of a job of your own (root: of anybody). Where the job is too young to be asked, or its helper stuck, only what the kernel tells of its processes."`
	Signal    SignalJob `name:"--signal" env:"-" arg:"SIG JOB" takes:"pair" topic:"" help:"send a signal to the ranks of one of your jobs" more:"SIG is a name or a number: USR1, SIGTERM, 10. It goes to the process group of each rank."`
	Evict     string    `name:"--evict" env:"-" arg:"JOB" topic:"" help:"end who holds a job's claims and tickets, as root" more:"mpiexec --evict JOB [HOSTS]: for claims that nobody uses, as --ps tells, and requests that never start. The processes that hold them get SIGTERM and after 3 s SIGKILL; then the entries are removed. Users may evict their own jobs."`

	Doctor bool `name:"--doctor" env:"-" topic:"Telling" help:"find what is wrong with hosts, and what to do" more:"mpiexec --doctor [HOSTS], or added to a command line that fails: then its program (of the first section) and directory are looked for too. Each host is looked at, and opens a port for a moment at which the others knock. The exit code is 0 if all is fine, 1 after warnings, 125 after failures. With --json for programs."`

	Exclude     []HostExpr `name:"-exclude" arg:"LIST" topic:"" under:"Where ranks run" help:"hosts that get no ranks: n3,node[01-04]" more:"Whatever named them. Names that are not among the hosts change nothing."`
	Stage       []string   `name:"--stage" arg:"FILE" topic:"" under:"Environment" help:"copy FILE to the hosts, for this job; again for more" more:"A program that is named on the line, or is spawned, is started from the copy if it is FILE, or has no slash and is called so. Other files are found in the folder MPIEXEC_STAGE_DIR, which is on a disk of the host and goes with the job. A host that has the same file under the same path, or from another job, takes it from there. On this machine nothing is copied: links lead to the files."`
	StageFiles  []string   `name:"--preload-files" arg:"A,B" topic:"" under:"Environment" help:"Open MPI's: --stage A --stage B"`
	StageProg   bool       `name:"--stage-program" also:"-preload-binary --bcast" topic:"" under:"Environment" help:"--stage for the program of each section"`
	LocalHost   string     `name:"-localhost" arg:"NAME" topic:"" under:"Where ranks run" help:"the name of this host in hosts and messages"`
	HybridHosts bool       `name:"-hybrid-hosts" topic:"" under:"Where ranks run" help:"the hosts share no folders" more:"Programs are found in the PATH of each host, and start in the home directory unless -wdir says another; a relative one begins there. PATH and LD_LIBRARY_PATH are not taken along unless by -x, -env or -genv."`
	Simulate    int        `name:"--simulate-nodes" arg:"K" topic:"" under:"Where ranks run" help:"this machine plays K nodes: sim0, sim1 and so on" more:"For trying what a program does on several hosts. Each node has a part of the cores, a helper of its own, and shares no memory with the others as far as MPI is told. alias=NAME in a host file does so for any host."`
	RMK         string     `name:"-rmk" arg:"NAME" words:"auto,none,user,slurm,pbs,sge,lsf" topic:"" under:"Where ranks run" default:"auto" help:"take the hosts that a batch system gave" more:"slurm: SLURM_JOB_NODELIST; pbs: PBS_NODEFILE; sge: PE_HOSTFILE; lsf: LSB_MCPU_HOSTS. auto: inside of an allocation of one of them (with SLURM_JOB_ID, PBS_JOBID, JOB_ID or LSB_JOBID), if no option and no PSI_ variable names hosts. Where their lists are missing, and inside of jobs of Flux, Cobalt and LoadLeveler and heterogeneous ones of Slurm, which we cannot read, nothing is started. With none or user they are not looked at."`
	Iface       Iface      `name:"-iface" env:"HYDRA_IFACE I_MPI_HYDRA_IFACE" arg:"NAME|CIDR" topic:"" under:"Reaching hosts" help:"whose address ranks are told to use: ib0, 10.1.0.0/16" more:"Looked for on each host. MPICH and its relatives connect to one another there; a host file may name another for a host (iface=NAME)."`
	GN          int        `name:"-gn" also:"-gnp" arg:"N" topic:"" under:"Where ranks run" help:"number of ranks of each section without -n"`
	GArch       Arch       `name:"-garch" arg:"NAME" topic:"" under:"Where ranks run" help:"-arch of the sections without it"`

	GPath     string   `name:"-gpath" arg:"DIR[:DIR]" topic:"" under:"Environment" help:"-path of the sections without it"`
	Export    Export   `name:"--export" arg:"LIST" topic:"" under:"Environment" help:"srun's: ALL, NONE, A,B=V or ALL,A=V" more:"ALL takes the environment of mpiexec along, as -genvall does, and then sets the rest of the list. Without ALL there is nothing but the list; NONE is nothing at all."`
	EnvCompat []Compat `name:"--env-compat" arg:"LIST" topic:"" under:"Environment" help:"variables as of torch, ompi, slurm, mvapich" more:"torch: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, NODE_RANK, and MASTER_ADDR and MASTER_PORT, a free port where rank 0 runs, unless they are set already. ompi: OMPI_COMM_WORLD_RANK, SIZE, LOCAL_RANK, LOCAL_SIZE, NODE_RANK. slurm: SLURM_PROCID, NTASKS, LOCALID, NODEID. mvapich: MV2_COMM_WORLD_RANK, SIZE, LOCAL_RANK, LOCAL_SIZE. Ranks do not get them otherwise, since libraries guess by them who started them."`
	GWdir     string   `name:"-gwdir" under:"Environment" arg:"DIR" topic:"" help:"working directory of the sections without -wdir"`
	GEnv      []EnvVar `name:"-genv" arg:"NAME VALUE" takes:"pair" topic:"Environment" help:"set a variable for all ranks; or NAME=VALUE"`
	GEnvList  EnvTake  `name:"-genvlist" default:"*" env:"HYDRA_ENV" also:"-genvall=* -genvnone=" arg:"A,B,PRE_*" topic:"Environment" help:"variables to take from here (-genvall, -genvnone)" more:"-genvall, which is the default, takes the environment of mpiexec along, without what belongs to this host or session; -genvnone takes nothing."`

	Label      string       `name:"-label" also:"-l -prepend-rank --label-io -sourceprintf --tag-output=tag" implied:"rank" words:"rank,tag" topic:"Output and input" help:"begin each line with the rank; files: --output" more:"--tag-output makes it [1,3]<stdout>:text, as Open MPI does. Without them: PSI_SOURCEPRINTF, MPIEXEC_PREFIX_DEFAULT, MPIEXEC_PREFIX_STDOUT, MPIEXEC_PREFIX_STDERR."`
	Pattern    LabelPattern `name:"-prepend-pattern" arg:"PATTERN" topic:"" help:"begin each line with what PATTERN makes" more:"%r rank, %R zero-padded, %l local rank, %h host, %n index of the node (also %p), %g group, %s stream, %j job, %t seconds since the start, %T wall clock, %P process ID, %% a percent sign."`
	Timestamp  bool         `name:"--timestamp-output" also:"-T" topic:"" help:"begin each line with the time, before any label"`
	OutFile    FilePattern  `name:"-outfile-pattern" also:"-outfile" arg:"PATTERN" topic:"" help:"standard output to files: out.%r" more:"The files are written where mpiexec runs. %r rank, %R zero-padded, %l local rank, %h host, %n index of the node (also %p), %g group, %s stream, %j job, %t seconds since the start, %% a percent sign. What a file had is lost, unless :append stands behind. Ranks of one name share the file, line by line."`
	ErrFile    FilePattern  `name:"-errfile-pattern" also:"-errfile" arg:"PATTERN" topic:"" help:"standard error to files; see -outfile-pattern"`
	OutputDir  string       `name:"--output-filename" arg:"DIR[:nocopy]" topic:"" help:"output also to DIR/1/rank.N/stdout and stderr" more:"With :nocopy to the files alone. Directories are made."`
	Output     []OutputSpec `name:"--output" arg:"LIST" topic:"" help:"tag, tag-detailed, timestamp, merge, dir=D, file=F" more:"As in Open MPI 5: tag and timestamp label lines, merge is --merge-stderr-to-stdout, dir=D is --output-filename D, file=F writes both streams of a rank to F.N. Behind a colon: nocopy (to the files alone), copy, raw (as --unbuffered)."`
	OutputFrom Ranks        `name:"-output-from" arg:"RANKS" topic:"" help:"show the output of these ranks only: 0,3-5" more:"What the others write is dropped, unless it goes to files too."`
	Ordered    bool         `name:"-ordered-output" topic:"" help:"all output of rank 0, then all of rank 1, and so on" more:"What comes before its turn waits, in a file in TMPDIR if there is much."`
	Collapse   bool         `name:"--collapse" also:"-merge" topic:"" help:"equal lines of several ranks once: [0-3,7] text" more:"A line waits up to a second for other ranks to write an equal one. PSI_MERGEOUTPUT does the same."`
	MergeErr   bool         `name:"--merge-stderr-to-stdout" topic:"" help:"the ranks write both streams to standard output"`
	Unbuffered bool         `name:"--unbuffered" also:"-u" topic:"" help:"pass bytes on as they come, not line by line"`
	PTY        Ranks        `name:"--pty" also:"--interactive=0" arg:"RANKS" takes:"attached" implied:"0" topic:"" help:"a pseudo-terminal for rank 0, or for these ranks" more:"As with srun --pty: what is typed, also ^C and ^Z, goes to the rank, and its output comes at once and as one stream. Our own terminal, if there is one, is as raw as an ssh session's until the end."`
	Stdin      StdinTo      `name:"-stdin" default:"0" also:"-s -inputdest" arg:"WHO" topic:"Output and input" help:"who reads input: 0, 1,3-5, all, none, file=F" more:"With file=F rank 0 reads that file. All others find the end of input. Of several the slowest sets the pace. Without it: MPIEXEC_STDIN_DEST, PSI_INPUTDEST, or rank 0." hint:"to copy the program (Open MPI's -s), do so before"`

	PMIPort  bool     `name:"-pmi-port" topic:"" under:"Life cycle" help:"ranks reach their PMI server by TCP" more:"For debuggers and wrappers that close descriptors: PMI_PORT and PMI_ID instead of PMI_FD. The port is open on the loopback of each node, to processes of the same user that know the random PMI_ID of a rank."`
	PMITrace string   `name:"--pmi-trace" arg:"FILE" topic:"" under:"Telling" help:"write what ranks and their PMI servers say to FILE" more:"In the notation of the project's own tests, testdata/pmi."`
	Universe Universe `name:"-usize" env:"MPIEXEC_UNIVERSE_SIZE" default:"INFINITE" arg:"N" topic:"" under:"Life cycle" help:"MPI_UNIVERSE_SIZE: a number, SYSTEM or INFINITE" more:"How many processes a program is told would fit, those it may spawn included. SYSTEM is the number of slots of all hosts; INFINITE, the default, defines nothing. Nothing is reserved."`

	SpawnHosts SpawnHosts `name:"--spawn-hosts" also:"--no-spawn=none" default:"candidates" arg:"LIST" topic:"" under:"Life cycle" help:"hosts for MPI_Comm_spawn: candidates, job, LIST, any, none" more:"candidates: those that the command line, with host files, allocation and cluster file, has named. job: those alone that have ranks of the job. LIST: these and the candidates. any: every host but this machine, which has to be listed: any,localhost. none, or --no-spawn: a spawn is refused. What is refused the program is told, as MPI_ERR_SPAWN, and goes on."`

	Timeout       Seconds  `name:"-timeout" env:"I_MPI_JOB_TIMEOUT PSI_MAXTIME" also:"-maxtime" arg:"TIME" topic:"Life cycle" help:"end the job after TIME: 90, 1h30m, 01:30:00"`
	StartTimeout  Seconds  `name:"--start-timeout" also:"--spawn-timeout" arg:"TIME" topic:"Life cycle" help:"give up if not all ranks run by then"`
	KillGrace     *Seconds `name:"--kill-grace" default:"10" arg:"TIME" least:"0" topic:"Life cycle" help:"time between SIGTERM and SIGKILL (default 10)"`
	KillOnBadExit string   `name:"--kill-on-bad-exit" default:"1" also:"-K -K0=0 -K1=1" arg:"0|1" takes:"attached" implied:"1" words:"0,1" topic:"Life cycle" help:"a rank that fails ends the job; -K0: it does not"`
	AutoCleanup   string   `name:"-disable-auto-cleanup" also:"-enable-auto-cleanup=yes" implied:"no" words:"yes,no" topic:"Life cycle" help:"let the others go on whatever ends a rank"`
	ExitStatus    string   `name:"--exit-status" default:"first" arg:"RULE" words:"first,max,rank0,or" topic:"Life cycle" help:"our exit code: first (default), max, rank0, or" more:"first: of the first rank that failed; max: the highest; rank0: of rank 0; or: all, bit by bit, as Hydra does."`
	PrintCodes    bool     `name:"-print-all-exitcodes" topic:"" help:"tell at the end which ranks left with which code"`
	OnTimeout     string   `name:"--on-timeout" arg:"WHAT" words:"kill,stacks" topic:"" help:"when -timeout strikes: kill, or stacks before it" more:"In any case a table tells what each rank was doing. stacks sends SIGQUIT first, for which many runtimes write their stacks (Java, Go), and gives the ranks 2 s for it. Of ranks that do not catch SIGQUIT, such as those in C, gdb or eu-stack of the host tells before, or else the kernel (/proc/PID/wchan, syscall, stack), within 4 s for each host."`
	Children      bool     `name:"--leave-children" topic:"" help:"what ranks leave behind goes on after the job" more:"Without it, processes that outlive their rank have 2 s, and are ended then."`

	ForwardSignals SignalList `name:"--forward-signals" default:"QUIT,USR1,USR2,ALRM,CONT,WINCH,XCPU" arg:"LIST" topic:"" help:"signals that ranks get as mpiexec gets them, or none" more:"Without it: QUIT,USR1,USR2,ALRM,CONT,WINCH,XCPU. URG is passed on only if it is named: mpiexec sends it to itself now and then, and ranks then get it more often than it was sent. INT, TERM, HUP and TSTP always have the meaning they have for mpiexec: to interrupt, end and stop the job."`
	LeaderOnly     bool       `name:"--signal-leader-only" topic:"" help:"signals go to ranks, not to their process groups"`
	StatusSignal   bool       `name:"--status-signal" topic:"" help:"SIGUSR1 tells what each rank is doing" more:"The table is that of -timeout: in which barrier a rank waits, whether it has connected, its CPU seconds, and where in the kernel it sleeps."`
	Propagate      string     `name:"--propagate" arg:"WHAT" words:"all,none" topic:"" help:"soft resource limits to take to the hosts: all, none" more:"Limits as ulimit sets them, as far as the hard limits of the hosts allow; -v tells what differs."`
	Consumed       bool       `name:"--usage" topic:"" help:"tell at the end what the job consumed on each host" more:"Wall time of the longest rank, CPU time of all ranks and their descendants, and the largest memory (resident set) that any one process of the job had. That of a process that is smaller than mpiexec itself is looked at now and then while it runs."`
	ReportFile     string     `name:"--report" arg:"FILE" topic:"" help:"write plan, connects, starts, exits and usage to FILE" more:"As one JSON object; its plan is what --dry-run --json writes."`

	Launcher        string      `name:"-launcher" default:"ssh" env:"HYDRA_LAUNCHER HYDRA_BOOTSTRAP I_MPI_HYDRA_BOOTSTRAP" also:"-bootstrap" arg:"NAME" words:"ssh,rsh,fork,exec" topic:"Reaching hosts" help:"ssh (built in), rsh, fork (this host), exec" hint:"for the hosts of a batch system use -rmk, for other ways -launcher exec with -launcher-exec 'COMMAND %h'"`
	LauncherExec    Words       `name:"-launcher-exec" env:"HYDRA_LAUNCHER_EXEC HYDRA_BOOTSTRAP_EXEC I_MPI_HYDRA_BOOTSTRAP_EXEC" also:"-bootstrap-exec" arg:"COMMAND" topic:"Reaching hosts" help:"program instead of ssh, or 'kubectl exec -i %h --'" more:"Split like a shell would. %h is the host, %u the user, %p the port, %n the number of the node."`
	LauncherArgs    Words       `name:"-launcher-args" env:"HYDRA_LAUNCHER_EXTRA_ARGS I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS" also:"-bootstrap-exec-args" arg:"WORDS" topic:"" help:"further arguments for that program" more:"Split like a shell would; they come before ours."`
	SSHOptions      []SSHOption `name:"--ssh-option" arg:"KEY=VALUE" topic:"" help:"an option of ssh_config for all hosts; may be repeated" more:"As -o of ssh has it; it beats ~/.ssh/config. The built-in ssh takes it as it takes that file, and refuses what it does not know; with -launcher-exec ssh it becomes an -o before ours."`
	ShipHelper      string      `name:"--ship-helper" default:"auto" arg:"WHEN" takes:"attached" implied:"always" words:"auto,always,never" topic:"" help:"send our program to the hosts: auto, always, never" more:"auto looks first for the same build under mpiexec's own path, and in the cache of earlier runs there. always sends it, whatever is there, and puts it in the place of a damaged copy; never sends nothing. What path= of a host file names is neither looked for nor sent."`
	ConnectTimeout  Seconds     `name:"--connect-timeout" default:"10" arg:"TIME" topic:"" help:"time to reach a host (default 10)"`
	Retries         int         `name:"--retries" default:"4" arg:"N" topic:"" help:"attempts for each host (default 4)"`
	Fanout          int         `name:"--fanout" default:"64" arg:"N" topic:"" help:"connections being set up at once (default 64)"`
	AcceptNewKeys   bool        `name:"--accept-new-host-keys" topic:"Reaching hosts" help:"record unknown host keys; never changed ones"`
	SkipUnreachable bool        `name:"--skip-unreachable" topic:"Reaching hosts" help:"start without hosts that cannot be reached"`
	MinNodes        int         `name:"--min-nodes" arg:"N" topic:"" under:"Reaching hosts" help:"the same, as long as N nodes are left" more:"Two names of one machine are one node. Those that cannot be reached are listed; with --wait, they are waited for."`
	NoAutofork      bool        `name:"--no-autofork" env:"HYDRA_LAUNCHER_AUTOFORK" topic:"" help:"reach this host like any other, for tests"`
	Progress        bool        `name:"--progress" also:"--show-progress" topic:"" under:"Telling" help:"show how far the start has come, on a terminal" more:"Without it, from two seconds on. What is no terminal never gets it."`
	Color           string      `name:"--color" arg:"WHEN" words:"auto,always,never" default:"auto" topic:"" under:"Telling" help:"color labels: auto, always, never" more:"auto: on a terminal. Each rank has its color; what it writes is not changed. NO_COLOR wins over this option, CLICOLOR_FORCE is always, and TERM=dumb never."`
	MPI             string      `name:"--mpi" arg:"TYPE" words:"pmi,pmi1,pmi2,none" topic:"" under:"Life cycle" help:"srun's: PMI-1 and PMI-2 are always served" more:"Each rank chooses by how it asks, so all of these words come to the same."`
	Lenient         bool        `name:"--lenient" topic:"" under:"Telling" help:"only warn of options that can be left out here" more:"Of other launchers' options some have no meaning here and change nothing; others are refused all the same, since without them the job would be another."`
	Info            bool        `name:"--info" topic:"" under:"Telling" env:"-" help:"tell what each option comes to, and who said so" more:"Beside the options of the line those of variables and of the file $MPIEXEC_CONFIG (~/.config/mpiexec/config). Nothing is started."`
	AllowRoot       bool        `name:"--allow-run-as-root" topic:"" help:"no effect: root is never refused"`
	Verbosity       int         `name:"-verbose" default:"0" env:"HYDRA_DEBUG I_MPI_HYDRA_DEBUG" also:"-v -vv=2 -q=-1 -quiet=-1" implied:"1" least:"-1" repeat:"last" topic:"Telling" help:"say more; -vv still more; -q only errors"`
	Help            bool        `name:"-help" env:"-" also:"-h" topic:"Telling" help:"this text; -help -OPTION explains one option" more:"-help TOPIC lists all options of a topic, also those that -help leaves out; -help all lists all."`
	Man             bool        `name:"--man" topic:"" env:"-" help:"print the manual page; read it with: mpiexec --man | man -l -"`
	Completion      string      `name:"--completion" arg:"SHELL" words:"bash,zsh,fish" topic:"" env:"-" help:"print what makes a shell complete our options" more:"In ~/.bashrc, or in ~/.zshrc after compinit: source <(mpiexec --completion bash), or zsh. In config.fish: mpiexec --completion fish | source"`
	Version         bool        `name:"-version" env:"-" also:"-V" topic:"Telling" help:"version, and the PMI versions served"`
	Separator       bool        `name:"-separator" env:"-" arg:"STR" topic:"" help:"STR instead of : between sections; first option" more:"For programs that need a lone : as an argument."`
}

// Scope says how far an option reaches.
type Scope int

const (
	PerSection Scope = iota // S: its section
	Inherited               // F: the first section's is everybody's default
	PerJob                  // J: the job, wherever it stands
)

// topics are the headings of the help text, in its order. The first word of each is what
// -help calls it.
var topics = []string{"Where ranks run", "Environment", "Output and input", "Life cycle", "Reaching hosts", "Telling"}

// topicOf finds the heading that -help TOPIC means.
func topicOf(word string) (topic string, ok bool) {
	for _, t := range topics {
		if first, _, _ := strings.Cut(t, " "); strings.EqualFold(first, word) {
			return t, true
		}
	}
	return "", false
}

// byTopic lists all options under their topics: one without a topic stands under that of
// the option before it, unless it names another.
func (t *table) byTopic() map[string][]*Option {
	under := make(map[string][]*Option, len(topics))
	topic := ""
	for _, o := range t.options {
		topic = cmp.Or(o.Topic(), topic)
		at := cmp.Or(o.Topic(), o.field.Tag.Get("under"), topic)
		under[at] = append(under[at], o)
	}
	return under
}

// An Option is one row of the table.
type Option struct {
	Name   string // canonical: lower case unless one letter, no dashes
	Dashed string // as we write it: "-host", "--fanout"
	Also   []Spelling
	Arg    string // "": a switch
	Words  []string
	Scope  Scope

	takes   string // "", "none", "pair", "attached"
	peers   string // variables of other launchers, between blanks
	implied string
	least   int
	zero    bool
	list    bool // accumulates (CLI-8)
	last    bool
	field   reflect.StructField
}

// What only help and messages need is read when they do.

func (o *Option) Topic() string { return o.field.Tag.Get("topic") }
func (o *Option) Help() string  { return o.field.Tag.Get("help") }
func (o *Option) More() string  { return o.field.Tag.Get("more") }
func (o *Option) Hint() string  { return o.field.Tag.Get("hint") }

// BuiltIn is what holds if nobody says anything; empty: nothing.
func (o *Option) BuiltIn() string { return o.field.Tag.Get("default") }

// A Spelling is another way to write an option.
type Spelling struct {
	Dashed string
	Preset bool   // the value is fixed and none may be given
	Value  string // if Preset
}

// A table finds options by any spelling.
type table struct {
	mappers *kong.Registry
	options []*Option
	names   map[string]meaning
}

// meaning is what a normalized name stands for.
type meaning struct {
	*Option
	Spelling
}

// newTable reads the structs above: reflection once in a run, some 60 µs.
func newTable() *table {
	t := &table{mappers: newMappers(), names: make(map[string]meaning, 128)}
	t.read(reflect.TypeFor[Own](), PerSection)
	t.read(reflect.TypeFor[Shared](), Inherited)
	t.read(reflect.TypeFor[Job](), PerJob)
	return t
}

func (t *table) read(of reflect.Type, scope Scope) {
	for i := range of.NumField() {
		o := option(of.Field(i), scope)
		t.options = append(t.options, o)
		t.names[o.Name] = meaning{o, Spelling{Dashed: o.Dashed}}
		for _, s := range o.Also {
			t.names[normalize(s.Dashed)] = meaning{o, s}
		}
	}
}

func option(f reflect.StructField, scope Scope) *Option {
	o := &Option{
		Scope: scope, field: f, least: 1,
		list: f.Type.Kind() == reflect.Slice && f.Type != reflect.TypeFor[Words](),
	}
	for key, value := range pairs(f.Tag) {
		switch key {
		case "name":
			o.Dashed, o.Name = value, normalize(value)
		case "also":
			for word := range strings.FieldsSeq(value) {
				name, value, preset := strings.Cut(word, "=")
				o.Also = append(o.Also, Spelling{name, preset, value})
			}
		case "arg":
			o.Arg = value
		case "takes":
			o.takes = value
		case "env":
			o.peers = value
		case "implied":
			o.implied = value
		case "words":
			o.Words = strings.Split(value, ",")
		case "least":
			o.least, _ = strconv.Atoi(value)
		case "zero":
			o.zero = true
		case "repeat":
			o.last = value == "last"
		}
	}
	if o.Arg == "" {
		o.takes = "none"
		if f.Type.Kind() == reflect.Bool {
			o.implied = "true"
		}
	}
	return o
}

// pairs yields the key:"value" pairs of a tag in one pass. StructTag.Get would
// go through the whole help text for each key that is not there. Our tags have
// no escapes in them; a test sees to that.
func pairs(tag reflect.StructTag) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		rest := string(tag)
		for {
			key, after, ok := strings.Cut(rest, `:"`)
			if !ok {
				return
			}
			value, after, _ := strings.Cut(after, `"`)
			if !yield(key, value) {
				return
			}
			rest = strings.TrimPrefix(after, " ")
		}
	}
}

// normalize makes spellings comparable: no dashes in front, and, from two
// letters on, lower case with "-" for "_" (CLI-3).
func normalize(dashed string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(dashed, "-"), "-")
	if len(name) < 2 {
		return name
	}
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// find looks a word such as "-np" or "--hostFile" up.
func (t *table) find(dashed string) (meaning, bool) {
	m, ok := t.names[normalize(dashed)]
	return m, ok && strings.HasPrefix(dashed, "-")
}
