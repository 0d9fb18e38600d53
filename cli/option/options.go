package option

import (
	_ "embed"
	"reflect"

	"remshell/pin"
)

//go:embed texts/options.txt
var mpiexecTexts string

// Mpiexec returns the table of mpiexec's options. signals returns the number that a signal has on this
// operating system.
func Mpiexec(signals SignalNumbers) *Table {
	t := newTable("mpiexec", mpiexecTexts, featureTexts()...)
	signals.registerMappers(t.mappers)
	t.topics = []string{"Where ranks run", "Environment", "Output and input", "Life cycle", "Reaching hosts", "Reports and queries"}
	t.refusals = foreignOptions
	t.makeLine = mpiexecLine
	t.addOptions(reflect.TypeFor[AppOptions](), PerApp)
	t.addOptions(reflect.TypeFor[InheritedOptions](), Inherited)
	t.addOptions(reflect.TypeFor[JobOptions](), PerJob)
	t.addFeatureOptions()
	return t
}

// The three structs below are the option table, to which features add theirs (features.go). Parser, help,
// manual page and completions are generated from it and from texts/options.txt, which has the longer help
// of each option. The struct that holds an option is its scope (rule CLI-13). The zero value of a field
// means that the option was not given. Defaults are not filled in here, because environment and
// configuration are read first (rule CLI-12).
//
// Tags:
//
//	name     canonical spelling, with its dashes
//	also     other spellings; "-vv=2" is a switch that means -verbose=2, and "-npernuma=ppr:%:numa" takes a value, which
//	         replaces the % in its meaning
//	arg      name of the value in help; empty for switches
//	takes    form of the value; "pair": NAME VALUE or NAME=VALUE; "attached": only after "=";
//	         "any": the next word, even if it looks like an option
//	implied  value if none is given: of a switch, or of an option with an optional value
//	words    the allowed values; empty: any
//	least    smallest allowed number (default 1; durations: default above 0)
//	zero     "skip": 0 is allowed too, and skips the app context
//	repeat   "last": may be repeated, and the last one wins; "sum": values of several levels add up
//	topic    heading under which help lists it; "": only -help TOPIC lists it, under the heading of the option before it
//	under    heading of an option with an empty topic, if it is another one
//	env      variables of other launchers with the same meaning; "-": no variable sets it, not even MPIEXEC_NAME
//	mca      parameters of Open MPI's launcher with the same meaning
//	read     variables that another package reads; they override the user's configuration
//	rival    name of a group of alternative options: one of higher precedence overrides the others (CLI-12)
//	onedash  with one dash it is an option of another launcher, which is refused: "-trace ./app" must not overwrite the
//	         program with a trace. The value says what ours does
//	resume   "saved": a saved job keeps the option; "allowed": it may be given beside --resume
//	writes   "yes": the value names a file that is written
//	after    of an option of a feature: the option behind which it stands; of several names, the first that there is, so that
//	         the last one is an option that no feature has
//	asks     "yes": a query that starts nothing and needs no program; "hosts": the same, and words
//	         that are no options are hosts; "job": the program is in a file
//	needs    options of which at least one must be given too; "run": the line must start ranks
//	excludes options that must not be given together with it; "probe=no": only with this value; "asks": all others that ask
//	default  the built-in value, for help and --info
//	help     one line of help
//	hint     advice after a bad value
//	command  command of mpijob that asks the same (mpijob.go); its values follow it as words
//	commandhelp, commandtakes, likecommands
//	         of that command: its help, if it differs; options that it takes besides those that all commands take; commands
//	         of other programs that mean the same
//
// In words, help and texts/options.txt, a name in braces is replaced by words of the batch systems; see systems.go.

// Each option NAME of the first two structs has a global form -gNAME. It sets the default of all app
// contexts: -gwdir, -gn, -gmca (rule CLI-13).

// AppOptions contains the options that apply to one app context, the part of a command line between two ":" (scope S).
type AppOptions struct {
	N        int       `name:"-n" rival:"count" also:"-np --ntasks" arg:"N" zero:"skip" topic:"Where ranks run" help:"number of ranks"`
	Wdir     string    `name:"-wdir" also:"-wd -dir --chdir -D" arg:"DIR" topic:"Environment" help:"working directory of ranks"`
	Env      []EnvVar  `name:"-env" repeat:"sum" arg:"NAME VALUE" takes:"pair" topic:"Environment" help:"set a variable for this app context"`
	X        []EnvVar  `name:"-x" repeat:"sum" arg:"NAME[=VALUE]" topic:"Environment" help:"set a variable, or pass on its current value"`
	EnvList  EnvImport `name:"-envlist" also:"-exports -envall=* -envnone=" env:"PSI_EXPORTS" arg:"A,B,PRE_*" topic:"" help:"variables to pass on; also -envall, -envnone"`
	UnsetEnv []string  `name:"--unset-env" repeat:"sum" arg:"NAME" topic:"" help:"remove a variable; PRE_* removes all with this prefix"`
	Path     string    `name:"-path" arg:"DIR[:DIR]" topic:"" help:"search first in these folders for the program"`
	Soft     Soft      `name:"-soft" excludes:"cluster-state" rival:"count" arg:"SPEC" topic:"" under:"Where ranks run" help:"start the largest number of ranks in SPEC that fits"`
	Arch     Arch      `name:"-arch" excludes:"cluster-state" arg:"NAME" topic:"" under:"Where ranks run" help:"use only hosts of this architecture, such as amd64"`

	HetGroup string `name:"--het-group" excludes:"cluster-state" also:"--pack-group" arg:"LIST" env:"-" topic:"" under:"Where ranks run" help:"use these groups of {groups} heterogeneous job"`

	ConfigFile string `name:"-configfile" also:"--app -file" arg:"FILE" env:"-" topic:"" under:"Where ranks run" help:"read app contexts from FILE, one on each line"`
}

// InheritedOptions contains the options that an app context inherits from the first app context, unless it sets them
// itself.
type InheritedOptions struct {
	Host      []HostExpr `name:"-host" mca:"orte_default_dash_host prte_default_dash_host" rival:"hosts" env:"I_MPI_HYDRA_HOSTS_GROUP" also:"-hosts -H --nodelist -hosts-group" arg:"LIST" topic:"Where ranks run" help:"hosts to use: n1,n2:4,user@node[01-16]"`
	HostFile  string     `name:"-hostfile" mca:"orte_default_hostfile prte_default_hostfile" rival:"hosts" env:"HYDRA_HOST_FILE I_MPI_HYDRA_HOST_FILE WCOLL" also:"-f -machinefile -machine --machine-file --hosts-file" arg:"FILE" topic:"Where ranks run" help:"read hosts from FILE; - is standard input"`
	PPN       int        `name:"-ppn" env:"I_MPI_PERHOST" also:"-N -perhost -grr -npernode --ntasks-per-node -pernode=1" arg:"K" topic:"Where ranks run" help:"start at most K ranks on each host" least:"0" hint:"this option sets the number of ranks on each host; to list hosts, use -host"`
	TPP       string     `name:"--tpp" mca:"rmaps_base_cpus_per_rank rmaps_base_cpus_per_proc" read:"PSI_TPP OMP_NUM_THREADS" default:"1" also:"--threads-per-process --cpus-per-proc --cpus-per-rank --cpus-per-task --depth" arg:"T" topic:"Where ranks run" help:"number of CPUs of each rank"`
	NodeType  string     `name:"--nodetype" read:"PSI_HW_TYPE" also:"--node-type" arg:"LIST" topic:"" help:"use only hosts that have all these features"`
	PMI       PMIOffer   `name:"--pmi" also:"--mpi -pmix=pmix" arg:"WHAT" topic:"" under:"Life cycle" default:"auto" help:"PMI for ranks: auto, pmi1, pmi2, pmix, both, none"`
	MCA       []MCAParam `name:"--mca" repeat:"sum" also:"--prtemca" arg:"KEY VALUE" takes:"pair" topic:"" under:"Environment" help:"set a parameter of Open MPI (OMPI_MCA_KEY)"`
	Shape     string     `name:"--shape" arg:"N" topic:"" under:"Where ranks run" help:"start exactly N ranks on each host that is used"`
	EachNUMA  string     `name:"--per-numa" arg:"K" topic:"" under:"Where ranks run" help:"start at most K ranks in each NUMA node"`
	NUMANodes string     `name:"--numa-nodes" arg:"K" topic:"" under:"Where ranks run" help:"use only the first K NUMA nodes of each host"`
	NUMAList  string     `name:"--numa-list" arg:"LIST" topic:"" under:"Where ranks run" help:"use only these NUMA nodes of each host: 0,2-3"`
	StrictMem bool       `name:"--strict-mem" topic:"" under:"Where ranks run" help:"keep each rank within one NUMA node"`
	HWThreads string     `name:"--hw-threads" arg:"K" topic:"" under:"Where ranks run" help:"use K hardware threads of each core; 0: all"`
	GPUs      GPUCount   `name:"-gpus-per-proc" also:"-g --gpus-per-task" arg:"N" topic:"" least:"0" help:"give each rank N GPUs of its own; 0: hide all GPUs" hint:"write the number of GPUs of each rank; a type of GPU cannot be chosen"`
}

// JobOptions contains the options that apply to the whole job, no matter in which app context they are given (scope J).
type JobOptions struct {
	Nodes       string    `name:"--nodes" read:"PSI_NODES PSI_HOSTS PSI_HOSTFILE PSI_PEFILE" rival:"hosts" arg:"LIST" topic:"Where ranks run" help:"use nodes of the cluster file, by ID: 0-3,7"`
	Sort        string    `name:"--sort" read:"PSI_NODES_SORT" default:"proc; none for -host and -hostfile" also:"-S" arg:"KEY" topic:"Where ranks run" help:"sort hosts by KEY: proc, load, none, and others"`
	OrderNodes  string    `name:"-order-nodes" arg:"UP|DOWN" words:"up,down" topic:"" help:"use hosts with few (UP) or many (DOWN) slots first"`
	Overbook    string    `name:"--overbook" mca:"rmaps_base_oversubscribe rmaps_base_no_oversubscribe" read:"PSI_OVERBOOK" default:"no" also:"--oversubscribe=share --overcommit=share --nooversubscribe=no --no-overbook=no" implied:"yes" words:"yes,no,share" topic:"Where ranks run" help:"allow more ranks than slots (also --oversubscribe)"`
	Exclusive   string    `name:"--exclusive" read:"PSI_EXCLUSIVE" default:"no" also:"--no-exclusive=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"share no host with other jobs"`
	Loop        string    `name:"--loop-nodes-first" read:"PSI_LOOP_NODES_FIRST" rival:"mapping" also:"-rr -bynode -loopnodesfirst -F --no-loop-nodes-first=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"place ranks on the nodes in turn (also -rr)"`
	Wait        QueueWait `name:"--wait" read:"PSI_WAIT" default:"no" also:"--no-wait=no" arg:"TIME" takes:"attached" implied:"yes" topic:"Where ranks run" help:"wait in the queue (--wait=TIME: at most TIME)"`
	Ledger      string    `name:"--ledger" read:"MPIEXEC_LEDGER" arg:"DIR" topic:"" help:"directory in which jobs record the CPUs they use"`
	CPUMap      string    `name:"--cpu-map" read:"__PSI_CPUMAP" arg:"LIST" topic:"" help:"order in which ranks get cores: 0-3,7-4"`
	Pin         string    `name:"--pin" env:"I_MPI_PIN" read:"__PSI_NO_PINPROC" rival:"binding" default:"yes" also:"--no-pin=no" implied:"yes" words:"yes,no" topic:"Where ranks run" help:"bind each rank to its CPUs (default; see --no-pin)"`
	MemBind     string    `name:"--mem-bind" read:"__PSI_NO_BINDMEM __PSI_NO_MEMBIND" rival:"memory" default:"yes" also:"--no-mem-bind=no" implied:"yes" words:"yes,no" topic:"" help:"bind memory to the rank's NUMA nodes (default)"`
	HostsUnique string    `name:"--hosts-unique" read:"PSI_HOSTS_UNIQUE" also:"--no-hosts-unique=no" implied:"yes" words:"yes,no" topic:"" help:"count slots of a repeated host only once"`
	Slots       int       `name:"--default-slots" mca:"orte_set_default_slots prte_set_default_slots" arg:"N" topic:"" help:"number of slots of a host without a slot count"`
	RankFile    string    `name:"-rankfile" mca:"orte_rankfile prte_rankfile rmaps_rank_file_path" rival:"mapping" also:"-rf" arg:"FILE" topic:"" help:"read the host and CPUs of each rank from FILE"`
	RankMap     string    `name:"-rankmap" rival:"mapping" arg:"LIST" topic:"" help:"set the node of each rank: 0,0,1,1"`
	Cluster     string    `name:"--cluster" read:"MPIEXEC_CLUSTER" arg:"FILE" topic:"Where ranks run" help:"cluster file, which describes nodes and classes"`

	MapBy   pin.Mapping `name:"--map-by" mca:"rmaps rmaps_base_mapping_policy rmaps_default_mapping_policy" rival:"mapping" default:"slot" env:"HYDRA_MAPPING" also:"--mapby -byslot=slot -bysocket=socket -bycore=core -npersocket=ppr:%:socket --ntasks-per-socket=ppr:%:socket -npernuma=ppr:%:numa" arg:"POLICY" topic:"Where ranks run" help:"place ranks by node, socket, numa, core, or seq"`
	RankBy  pin.Ranking `name:"--rank-by" mca:"rmaps_base_ranking_policy rmaps_default_ranking_policy" also:"--rankby" arg:"ORDER" topic:"" help:"set the order of rank numbers: slot, node, fill, span"`
	BindTo  pin.Binding `name:"--bind-to" mca:"hwloc_base_binding_policy hwloc_default_binding_policy" rival:"binding" env:"HYDRA_BINDING I_MPI_PIN_DOMAIN I_MPI_PIN_PROCESSOR_LIST" also:"--bindto -binding -bind-to-core=core -bind-to-socket=socket -bind-to-none=none" arg:"POLICY" topic:"Where ranks run" help:"bind ranks to core, socket, numa or other objects"`
	Memory  pin.Memory  `name:"-membind" rival:"memory" env:"HYDRA_MEMBIND" arg:"POLICY" topic:"" help:"bind memory: none, local, interleave, bind:LIST"`
	CPUBind string      `name:"--cpu-bind" rival:"binding" arg:"WHAT" words:"threads,cores,sockets,none" topic:"" help:"bind ranks to CPUs, like --cpu-bind of srun"`
	Threads bool        `name:"-use-hwthread-cpus" mca:"hwloc_base_use_hwthreads_as_cpus hwloc_use_hwthreads_as_cpus" topic:"" help:"count hardware threads as CPUs"`
	NoLocal bool        `name:"-nolocal" mca:"rmaps_base_no_schedule_local" also:"-skip-launch-node" topic:"" help:"do not use the host on which mpiexec runs"`

	NodeSet      string `name:"--node-set" read:"PSI_NODESET" also:"--nodeset --no-node-set=none" arg:"SPEC" topic:"" under:"Where ranks run" help:"use similar hosts: ONEOF:FEATURE, ONEOF:PROCSPEED"`
	SetOptional  string `name:"--node-set-optional" read:"PSI_NODESET_OPTIONAL" arg:"yes|no" topic:"" under:"Where ranks run" help:"if no node set is large enough, use any hosts"`
	SetTolerance string `name:"--node-set-tolerance" read:"PSI_NODESET_TOLERANCE" arg:"X" topic:"" under:"Where ranks run" help:"allowed speed difference in a node set: 0.5, 50%"`
	SetPriority  string `name:"--node-set-priority" read:"PSI_NODESET_PRIORITY" arg:"TYPE" topic:"" under:"Where ranks run" help:"node set to prefer: BESTFIT, MINLOSS, others"`
	SetPlus      string `name:"--node-set-plus" read:"PSI_NODESET_PLUS" arg:"LIST" topic:"" under:"Where ranks run" help:"what to do if no node set is free: SPANEVENLY, DELAY"`
	SetDelay     string `name:"--node-set-delay" read:"PSI_NODESET_DELAY" arg:"T" topic:"" under:"Where ranks run" help:"maximum wait for a node set: 90, 5m, 1:00:00"`
	NodeAlloc    string `name:"--node-alloc" arg:"WORD" topic:"" under:"Where ranks run" help:"MAXBALANCE: use hosts of similar speed"`
	ShareHosts   string `name:"--share-hosts" also:"--no-share-hosts=no" implied:"yes" words:"yes,no" default:"yes" topic:"" under:"Where ranks run" help:"let app contexts share hosts (see --no-share-hosts)"`
	ReserveCPUs  string `name:"--reserve-cpus" arg:"C" topic:"" under:"Where ranks run" help:"keep the last C CPUs of each host free of ranks"`
	MemPerRank   string `name:"--mem-per-rank" arg:"SIZE" topic:"" under:"Where ranks run" help:"memory that each rank needs: 3G, or 3Ghs (huge pages)"`
	Contiguous   string `name:"--contiguous" takes:"attached" arg:"first|best" implied:"first" words:"first,best" topic:"" under:"Where ranks run" help:"use hosts with consecutive IDs"`

	Plan         bool   `name:"--plan" asks:"yes" topic:"" help:"print as JSON where ranks would run"`
	DryRun       bool   `name:"--dry-run" asks:"yes" also:"--do-not-launch -show --test-only" topic:"Reports and queries" help:"explain where ranks would run; start nothing"`
	Probe        string `name:"--probe" needs:"dry-run" env:"-" also:"--no-probe=no" default:"yes" implied:"yes" words:"yes,no" topic:"" help:"let --dry-run contact hosts (default; see --no-probe)"`
	JSON         string `name:"--json" writes:"yes" arg:"FILE" takes:"attached" implied:"-" topic:"" help:"write events of a run, or query results, as JSON"`
	ClusterState string `name:"--cluster-state" needs:"plan dry-run" arg:"FILE" topic:"" help:"plan for the cluster that FILE describes"`
	SaveState    string `name:"--save-cluster-state" excludes:"cluster-state probe=no" arg:"FILE" topic:"" help:"write the state of the hosts to FILE"`

	Display []DisplayList `name:"--display" mca:"rmaps_base_display_map ras_base_display_alloc" also:"--display-map=map --display-devel-map=map-devel -print-rank-map=map --display-topo=topo --display-allocation=allocation" arg:"LIST" repeat:"sum" topic:"Reports and queries" help:"print before start: map, topo, allocation"`

	// What these ask is in Line.Query.
	PS        bool      `name:"--ps" asks:"hosts" excludes:"asks wait" env:"-" topic:"Reports and queries" help:"list running jobs" command:"ps" commandhelp:"list running jobs" commandtakes:"json" likecommands:"list ls jobs"`
	ShowQueue bool      `name:"--queue" asks:"hosts" excludes:"asks wait" env:"-" topic:"" help:"list waiting requests, oldest first" command:"queue" commandtakes:"json" likecommands:"list ls jobs"`
	Signal    JobSignal `name:"--signal" asks:"hosts" excludes:"asks wait" env:"-" arg:"SIG JOB" takes:"pair" topic:"" help:"send a signal to the ranks of one of your jobs" command:"signal" commandhelp:"send a signal to the ranks of a job" likecommands:"kill raise"`
	Evict     string    `name:"--evict" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"remove leftover claims and requests of a job" command:"evict" commandhelp:"end the processes that hold a job's claims"`

	Doctor   bool `name:"--doctor" asks:"yes" excludes:"asks" env:"-" topic:"Reports and queries" help:"check hosts for problems; see also --selftest" command:"doctor" commandhelp:"check hosts for problems" commandtakes:"json" likecommands:"check diagnose"`
	SelfTest bool `name:"--selftest" asks:"hosts" excludes:"asks json" env:"-" topic:"" help:"test hosts with a built-in program, without MPI"`

	Exclude      []HostExpr    `name:"-exclude" excludes:"cluster-state" arg:"LIST" topic:"" under:"Where ranks run" help:"hosts that get no ranks: n3,node[01-04]"`
	LocalHost    string        `name:"-localhost" arg:"NAME" topic:"" under:"Where ranks run" help:"name of this host in host lists and messages"`
	HybridHosts  bool          `name:"-hybrid-hosts" topic:"" under:"Where ranks run" help:"assume that hosts share no file systems"`
	Simulate     int           `name:"--simulate-nodes" excludes:"cluster-state" rival:"hosts" arg:"K" topic:"" under:"Where ranks run" help:"simulate K nodes on this machine: sim0, sim1"`
	RMK          string        `name:"-rmk" excludes:"cluster-state" rival:"hosts" arg:"NAME" also:"--rm --no-rm=none" words:"auto,none,user,{systems},file" topic:"" under:"Where ranks run" default:"auto" help:"use the hosts that a batch system allocated"`
	Batch        []BatchOption `name:"--batch-option" arg:"KEY=VALUE" topic:"" under:"Where ranks run" help:"set an option for batch jobs, such as margin=60"`
	RMFile       string        `name:"--rm-file" excludes:"cluster-state" rival:"hosts" arg:"FILE[:FORM]" topic:"" under:"Where ranks run" help:"read the allocated hosts from FILE"`
	AllowOutside bool          `name:"--allow-outside" topic:"" under:"Where ranks run" help:"allow hosts outside of the batch job"`
	Iface        Iface         `name:"-iface" env:"HYDRA_IFACE I_MPI_HYDRA_IFACE" arg:"NAME|CIDR" topic:"" under:"Reaching hosts" help:"network that ranks use: ib0, 10.1.0.0/16"`

	Export    Export    `name:"--export" rival:"environment" arg:"LIST" topic:"" under:"Environment" help:"variables to pass on, as in srun: ALL, NONE, A,B=V"`
	Places    string    `name:"--omp-places" arg:"WHAT" words:"cpu,depth" topic:"" under:"Environment" help:"set OMP_PLACES for bound ranks: cpu or depth"`
	EnvCompat []Compat  `name:"--env-compat" arg:"LIST" topic:"Environment" help:"add variables of torch, ompi, {identities}, mvapich"`
	GEnv      []EnvVar  `name:"-genv" repeat:"sum" also:"--pmixmca=PMIX_MCA_%" arg:"NAME VALUE" takes:"pair" topic:"Environment" help:"set a variable for all ranks (also NAME=VALUE)"`
	GEnvList  EnvImport `name:"-genvlist" rival:"environment" default:"*" env:"HYDRA_ENV" also:"-genvall=* -genvnone=" arg:"A,B,PRE_*" topic:"Environment" help:"variables to pass on; also -genvall, -genvnone"`

	Label      string       `name:"-label" mca:"orte_tag_output prte_tag_output" read:"PSI_SOURCEPRINTF MPIEXEC_PREFIX_DEFAULT MPIEXEC_PREFIX_STDOUT MPIEXEC_PREFIX_STDERR" also:"-l -prepend-rank --label-io -sourceprintf --tag-output=tag" implied:"rank" words:"rank,tag" topic:"Output and input" help:"begin each line of output with its rank"`
	Pattern    LabelPattern `name:"-prepend-pattern" arg:"PATTERN" topic:"" help:"begin each line with PATTERN, such as %r:"`
	OutFile    FilePattern  `name:"-outfile-pattern" also:"-outfile" arg:"PATTERN" topic:"" help:"write standard output to files: out.%r"`
	ErrFile    FilePattern  `name:"-errfile-pattern" also:"-errfile" arg:"PATTERN" topic:"" help:"write standard error to files: err.%r"`
	OutputDir  string       `name:"--output-filename" mca:"orte_output_filename" arg:"DIR[:nocopy]" topic:"" help:"also write output to DIR/1/rank.N/stdout"`
	Output     []Output     `name:"--output" mca:"orte_timestamp_output prte_timestamp_output" also:"--timestamp-output=timestamp -T=timestamp --merge-stderr-to-stdout=merge --unbuffered=raw -u=raw --json-output=json" repeat:"sum" arg:"LIST" topic:"" help:"set the form of output: tag, timestamp, json, dir=D"`
	OutputFrom Ranks        `name:"-output-from" arg:"RANKS" topic:"" help:"print the output of these ranks only: 0,3-5"`
	Ordered    bool         `name:"-ordered-output" topic:"" help:"print the output of one rank after the other"`
	Collapse   bool         `name:"--collapse" excludes:"ordered-output" read:"PSI_MERGEOUTPUT" also:"-merge" topic:"" help:"merge identical lines of several ranks: [0-3] text"`
	PTY        Ranks        `name:"--pty" also:"--interactive=0" arg:"RANKS" takes:"attached" implied:"0" topic:"" help:"give these ranks (default: 0) a pseudo-terminal"`
	Stdin      StdinTo      `name:"-stdin" read:"MPIEXEC_STDIN_DEST PSI_INPUTDEST" default:"0" also:"-s -inputdest" arg:"WHO" topic:"Output and input" help:"ranks that read input: 0, 1,3-5, all, none, file=F" hint:"to copy the program to the hosts, as -s of Open MPI does, use --stage-program"`

	PMIPort  bool     `name:"-pmi-port" topic:"" under:"Life cycle" help:"connect ranks to their PMI server by TCP"`
	Universe Universe `name:"-usize" env:"MPIEXEC_UNIVERSE_SIZE" default:"INFINITE" arg:"N" topic:"" under:"Life cycle" help:"set MPI_UNIVERSE_SIZE: a number, SYSTEM, INFINITE"`

	SpawnHosts SpawnHosts `name:"--spawn-hosts" also:"--no-spawn=none" default:"candidates" arg:"LIST" topic:"" under:"Life cycle" help:"hosts that MPI_Comm_spawn may use: job, any, none"`

	Timeout       Seconds    `name:"-timeout" env:"I_MPI_JOB_TIMEOUT PSI_MAXTIME" also:"-maxtime" arg:"TIME" topic:"Life cycle" help:"end the job after TIME: 90, 1h30m, 01:30:00"`
	Class         string     `name:"--class" read:"PSI_CLASS" arg:"NAME" topic:"" under:"Life cycle" help:"job class of the cluster file"`
	Warn          EndWarning `name:"--warn" arg:"SIG@TIME" topic:"" under:"Life cycle" help:"send SIG to ranks TIME before the job must end"`
	StartTimeout  Seconds    `name:"--start-timeout" also:"--spawn-timeout" arg:"TIME" topic:"Life cycle" help:"give up if ranks do not all start within TIME"`
	KillGrace     *Seconds   `name:"--kill-grace" default:"10" arg:"TIME" least:"0" topic:"Life cycle" help:"time from SIGTERM to SIGKILL (default 10 s)"`
	KillOnBadExit string     `name:"--kill-on-bad-exit" mca:"orte_abort_on_non_zero_status prte_abort_on_non_zero_status" default:"1" also:"-K -K0=0 -K1=1" arg:"0|1" takes:"attached" implied:"1" words:"0,1" topic:"Life cycle" help:"if a rank fails: 1 ends the job, 0 continues"`
	KeepAll       string     `name:"-disable-auto-cleanup" mca:"orte_enable_recovery prte_enable_recovery" also:"--enable-recovery -enable-auto-cleanup=no --disable-recovery=no" implied:"yes" words:"yes,no" topic:"" under:"Life cycle" help:"let other ranks continue when a rank fails"`
	ExitStatus    string     `name:"--exit-status" default:"first" arg:"RULE" words:"first,max,rank0,or" topic:"Life cycle" help:"set the exit code by RULE: first, max, or, rank0"`
	PrintCodes    bool       `name:"-print-all-exitcodes" topic:"" help:"print the exit codes of all ranks at the end"`
	Children      bool       `name:"--leave-children" topic:"" help:"do not end processes that ranks leave behind"`
	KeepSession   bool       `name:"--keep-session" topic:"" help:"keep Open MPI's session directories"`

	Restart      RestartCount `name:"--restart" arg:"N" default:"no" topic:"" under:"Life cycle" help:"restart the job up to N times if a node is lost"`
	RestartOn    RestartEnds  `name:"--restart-on" arg:"LIST" default:"node" topic:"" under:"Life cycle" help:"failures that cause a restart: node, signal, any"`
	RestartDelay *Seconds     `name:"--restart-delay" arg:"TIME" default:"5" topic:"" under:"Life cycle" help:"set the pause before the first restart (default 5 s)"`
	RestartArgs  ShellWords   `name:"--restart-args" takes:"any" arg:"WORDS" topic:"" under:"Life cycle" help:"program arguments to add after a restart"`
	RestartFence RestartFence `name:"--restart-fence" arg:"TIME" default:"50 and --kill-grace" topic:"" under:"Life cycle" help:"wait up to TIME for lost nodes to end their processes"`
	SaveJob      string       `name:"--save-job" writes:"yes" needs:"run" env:"-" arg:"FILE" topic:"" under:"Life cycle" help:"save the job to FILE, for --resume"`
	Resume       string       `name:"--resume" asks:"job" excludes:"cluster-state" env:"-" arg:"FILE" topic:"" under:"Life cycle" help:"continue the job that --save-job saved in FILE"`
	Again        bool         `name:"--again" needs:"resume" env:"-" topic:"" under:"Life cycle" help:"let --resume restart a job that has succeeded"`
	Spares       int          `name:"--spares" arg:"K" topic:"" under:"Life cycle" help:"claim K standby nodes, for a restart"`
	MinRanks     int          `name:"--min-ranks" arg:"R" topic:"" under:"Life cycle" help:"allow fewer ranks after a restart, at least R"`

	ForwardSignals SignalList `name:"--forward-signals" default:"QUIT,USR1,USR2,ALRM,CONT,WINCH,XCPU" arg:"LIST" topic:"" help:"signals that mpiexec passes on to ranks, or none"`
	LeaderOnly     bool       `name:"--signal-leader-only" topic:"" help:"send signals to ranks, not to their process groups"`
	Propagate      string     `name:"--propagate" arg:"WHAT" words:"all,none" topic:"" help:"copy ulimits and priority to hosts: all, none"`
	ReportFile     string     `name:"--report" writes:"yes" arg:"FILE" topic:"" help:"write a report of the job to FILE, as JSON"`

	Launcher        string      `name:"-launcher" mca:"plm" default:"auto" env:"HYDRA_LAUNCHER HYDRA_BOOTSTRAP I_MPI_HYDRA_BOOTSTRAP" also:"-bootstrap" arg:"NAME" words:"auto,ssh,{launchers},rsh,fork,exec" topic:"Reaching hosts" help:"reach hosts by ssh (built in), fork, exec, others" hint:"to use the hosts of a batch system, use -rmk; to connect with another program, use -launcher exec with -launcher-exec 'COMMAND %h'"`
	LauncherExec    ShellWords  `name:"-launcher-exec" mca:"plm_rsh_agent plm_ssh_agent" env:"HYDRA_LAUNCHER_EXEC HYDRA_BOOTSTRAP_EXEC I_MPI_HYDRA_BOOTSTRAP_EXEC" also:"-bootstrap-exec" arg:"COMMAND" topic:"Reaching hosts" help:"program to use instead of ssh: 'docker exec -i %h'"`
	LauncherArgs    ShellWords  `name:"-launcher-args" mca:"plm_rsh_args plm_ssh_args" takes:"any" env:"HYDRA_LAUNCHER_EXTRA_ARGS I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS HYDRA_LAUNCH_EXTRA_ARGS" also:"-bootstrap-exec-args" arg:"WORDS" topic:"" help:"more arguments for the launcher, such as ssh"`
	SSHConfig       string      `name:"--ssh-config" arg:"FILE" topic:"" help:"read FILE instead of ~/.ssh/config; none: no file"`
	SSHOptions      []SSHOption `name:"--ssh-option" arg:"KEY=VALUE" topic:"" help:"set an ssh_config option for all hosts"`
	ShipHelper      string      `name:"--ship-helper" default:"auto" arg:"WHEN" takes:"attached" implied:"always" words:"auto,always,never" topic:"" help:"copy mpiexec to the hosts: auto, always, never"`
	PortRange       PortRange   `name:"--port-range" env:"MPICH_PORT_RANGE" arg:"LOW:HIGH" topic:"" help:"ports on which mpiexec may listen (default any)"`
	ConnectTimeout  Seconds     `name:"--connect-timeout" default:"10" arg:"TIME" topic:"" help:"time limit of the login to a host (default 10 s)"`
	ShellTimeout    Seconds     `name:"--shell-timeout" default:"60" arg:"TIME" topic:"" help:"time limit of each step after login (default 60 s)"`
	Retries         int         `name:"--retries" default:"4" arg:"N" topic:"" help:"if a host is busy, try to connect N times (default 4)"`
	Fanout          int         `name:"--fanout" mca:"plm_rsh_num_concurrent plm_ssh_num_concurrent" default:"64" arg:"N" topic:"" help:"connect to N hosts at the same time (default 64)"`
	AcceptNewKeys   bool        `name:"--accept-new-host-keys" topic:"Reaching hosts" help:"accept and record unknown host keys"`
	SkipUnreachable bool        `name:"--skip-unreachable" topic:"Reaching hosts" help:"start without hosts that cannot be reached"`
	MinNodes        int         `name:"--min-nodes" arg:"N" topic:"" under:"Reaching hosts" help:"start if at least N hosts can be reached"`
	NoAutofork      bool        `name:"--no-autofork" env:"HYDRA_LAUNCHER_AUTOFORK" topic:"" help:"connect to this host in the same way as to others"`
	Progress        bool        `name:"--progress" also:"--show-progress" topic:"" under:"Reports and queries" help:"show the progress of the start on a terminal"`
	Color           string      `name:"--color" arg:"WHEN" words:"auto,always,never" default:"auto" topic:"" under:"Reports and queries" help:"color labels: auto, always, never"`
	Lenient         bool        `name:"--lenient" topic:"" under:"Reports and queries" help:"ignore some unsupported options with a warning"`
	Info            bool        `name:"--info" asks:"yes" topic:"" under:"Reports and queries" env:"-" help:"print the value and origin of each option"`
	AllowRoot       bool        `name:"--allow-run-as-root" topic:"" help:"no effect: mpiexec always allows root"`
	Verbosity       int         `name:"-verbose" default:"0" env:"HYDRA_DEBUG I_MPI_HYDRA_DEBUG" also:"-v -vv=2 -q=-1 -quiet=-1" implied:"1" least:"-1" repeat:"last" topic:"Reports and queries" help:"print more messages (-vv: most, -q: only errors)"`
	Help            bool        `name:"-help" env:"-" also:"-h" topic:"Reports and queries" help:"print this text; -help -OPTION explains an option"`
	Man             bool        `name:"--man" asks:"yes" topic:"" env:"-" help:"print the manual page: mpiexec --man | man -l -"`
	Completion      string      `name:"--completion" asks:"yes" arg:"SHELL" words:"bash,zsh,fish" topic:"" env:"-" help:"print a script that completes options in a shell"`
	Version         bool        `name:"-version" env:"-" also:"-V" topic:"Reports and queries" help:"print the version and the supported PMI versions"`
	Separator       bool        `name:"-separator" env:"-" arg:"STR" topic:"" help:"use STR instead of : (must be the first option)"`
}
