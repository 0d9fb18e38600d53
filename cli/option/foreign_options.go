package option

import (
	"strings"
)

// A refusal is the error message for an option of another launcher that mpiexec does not support (rule
// CLI-15, cli.md 3).
type refusal struct {
	names      string // without dashes, separated by blanks
	valueWords int    // number of value words that follow it; -1: differs between launchers
	advice     string // what it means and what to use instead; follows the option in the message

	grade refusalGrade
}

// A refusalGrade says how serious a refusal is.
type refusalGrade int

const (
	gradeError    refusalGrade = iota // always an error
	gradeLenient                      // it can be left out: a warning with --lenient, else an error
	gradeUnneeded                     // what it requests is so anyway: a note
)

// foreignOptions are the options of other launchers that mpiexec refuses, in the order of the table in
// cli.md. A test checks that their hints name only existing options.
var foreignOptions = []refusal{
	{"tune", 1, "Open MPI and Intel MPI use this option for parameters of their libraries; with mpiexec use -genv NAME VALUE", gradeError},
	{"am", 1, "Open MPI uses this option for files of library parameters; with mpiexec use -genv NAME VALUE", gradeError},
	{"prefix", 1, "Open MPI uses this option for the path of its installation, which mpiexec does not need; for libraries use -genv LD_LIBRARY_PATH PATH, for the program -path", gradeUnneeded},
	{"noprefix,enable-prefix", 0, "Open MPI uses this option for the path of its installation, which mpiexec does not need", gradeUnneeded},
	{"c", 1, "this option means ranks in Open MPI and CPUs per task in srun; for ranks use -n, for CPUs --tpp", gradeError},
	{"w", -1, "this option means hosts in srun and clush, and waiting in the queue in ParaStation; with mpiexec use -host, --wait", gradeError},
	{"o", -1, "this option means an output file in srun, sharing CPUs in ParaStation, and an option in ssh; with mpiexec use -outfile-pattern, --overbook, --ssh-option", gradeError},
	{"e", -1, "this option means an error file in srun, and variables to take along in ParaStation; with mpiexec use -errfile-pattern, -exports", gradeError},
	{"i", -1, "this option means an input file in srun, an interactive job in ParaStation, and a key in ssh; with mpiexec use -stdin, and --ssh-option IdentityFile=FILE for a key", gradeError},
	{"p", -1, "this option means a partition in srun, the search path for programs in ParaStation, and a port in ssh; with mpiexec use -path, and --ssh-option Port=N", gradeError},
	{"t", -1, "this option means a time limit in srun, and for connecting in clush; with mpiexec use -timeout, --connect-timeout", gradeError},
	{"d", -1, "this option means the working directory in ParaStation, CPUs for each rank in aprun, and dependencies in srun; with mpiexec use -wdir, --tpp", gradeError},
	{"m", -1, "this option means a task distribution in srun, merging equal lines in ParaStation, and a Python module in torchrun; with mpiexec use -rr for ranks on different hosts in turn, or --map-by; for equal lines --collapse; for a Python module write python3 and its options as the program", gradeError},
	{"r", -1, "this option means the first node in srun, and a working directory in ParaStation; with mpiexec use -host, -wdir", gradeError},
	{"b", -1, "this option means to merge equal lines in clush, and input for all ranks in ParaStation; with mpiexec use --collapse, -stdin all", gradeError},
	{"y,X", -1, "each launcher gives this option another meaning; use a long option of mpiexec", gradeError},
	{"identity,identity-file", 1, "other launchers use this option for a key of ssh; with mpiexec use --ssh-option IdentityFile=FILE, or IdentityFile in ~/.ssh/config", gradeError},
	{"J", 1, "ssh uses this option for a jump host; with mpiexec use --ssh-option ProxyJump=HOST", gradeError},
	{"default-hostfile", 1, "Open MPI uses this option for the hosts if no other option lists hosts; with mpiexec use -hostfile, or MPIEXEC_HOSTFILE in the environment", gradeError},
	{"ppr", 1, "Open MPI uses this option for ranks on each object; with mpiexec use --map-by ppr:N:OBJECT", gradeError},
	{"cpu-set,cpu-list", 1, "Open MPI uses this option for CPUs; with mpiexec use --map-by pe-list=LIST, or --bind-to cpu-list=LIST", gradeError},
	{"launch-agent", 1, "Open MPI uses this option for the program of its daemon; mpiexec uses its own program, and copies it to hosts that do not have it", gradeUnneeded},
	{"leave-session-attached,debug-daemons,debug-daemons-file,debug-devel,no-ready-msg", 0, "Open MPI uses this option for its daemons; mpiexec has none; -vv prints more messages", gradeUnneeded},
	{"personality", 1, "Open MPI uses this option for the type of job; mpiexec has only one type", gradeUnneeded},
	{"novm", 0, "Open MPI uses this option for its daemons; mpiexec has none", gradeUnneeded},
	{"debugger", 1, "Open MPI uses this option for a list of debuggers; mpiexec starts no debugger", gradeUnneeded},
	{"runtime-options", 1, "Open MPI sets several options with this option; with mpiexec use --dry-run for donotlaunch, --progress for show-progress, -K0 for error-nonzero-status=0, -disable-auto-cleanup for recoverable, and -timeout", gradeError},
	{"nproc-per-node", 1, "torchrun uses this option for ranks on each host; with mpiexec use -ppn N, with --env-compat torch", gradeError},
	{"nnodes", 1, "torchrun uses this option for the number of hosts; with mpiexec list the hosts: -host LIST or -hostfile FILE, with --env-compat torch", gradeError},
	{"node-rank", 1, "torchrun uses this option for the number of a host; run mpiexec once, on one machine: with --env-compat torch it numbers the hosts", gradeError},
	{"master-addr,master-port,local-addr,rdzv-endpoint,rdzv-backend,rdzv-id,rdzv-conf", 1, "torchrun uses this option for the address where ranks connect to each other; with mpiexec, --env-compat torch chooses an address and a port", gradeError},
	{"standalone", 0, "torchrun uses this option for ranks on one host; with mpiexec use -n N, with --env-compat torch", gradeError},
	{"redirects,tee,log-dir", 1, "torchrun uses this option for the output of ranks; with mpiexec use -outfile-pattern, -errfile-pattern", gradeError},
	{"monitor-interval,start-method,role", 1, "torchrun uses this option for its agents; mpiexec has none", gradeUnneeded},
	{"module,no-python", 0, "torchrun uses this option to choose how the program is started; with mpiexec write the interpreter, too: python3 train.py", gradeError},
	{"continuous", 0, "Open MPI uses this option for lost ranks; with mpiexec, -disable-auto-cleanup lets the other ranks continue", gradeError},
	{"max-restarts,with-ft", 1, "Open MPI and torchrun use this option to restart lost ranks; mpiexec does not restart single ranks: --restart starts the whole job again, -disable-auto-cleanup lets the other ranks continue", gradeError},
	{"xml,parseable,parsable", 0, "Open MPI uses this option for machine-readable output; with mpiexec use --json together with --dry-run, --doctor or --ps", gradeError},
	{"report-state-on-timeout", 0, "Open MPI uses this option for stack traces; with mpiexec, -timeout always prints what each rank was doing", gradeUnneeded},
	{"report-pid,report-uri", 1, "Open MPI uses this option for its daemons; with mpiexec, --ps lists jobs", gradeError},
	{"set-cwd-to-session-dir", 0, "Open MPI uses this option to start ranks in its session directory; with mpiexec use -wdir; the files of --stage are in $MPIEXEC_STAGE_DIR", gradeError},
	{"gres", 1, "srun uses this option for Slurm's scheduler; with mpiexec request GPUs with -gpus-per-proc N, for each rank", gradeError},
	{"partition,account,qos,job-name,reservation,mem,mem-per-cpu,licenses,job-id,jobid,mail-type,mail-user,begin,dependency", 1, "srun uses this option for Slurm's scheduler; mpiexec does not schedule jobs; inside an allocation, -rmk slurm uses the hosts of the allocation", gradeError},
	{"constraint", 1, "srun uses this option for features of nodes; with mpiexec use --nodetype", gradeError},
	{"time", 1, "srun uses this option for a time limit in minutes; with mpiexec use -timeout, in seconds", gradeError},
	{"distribution", 1, "srun uses this option for the order of ranks; with mpiexec use -rr for cyclic, and --map-by for other orders", gradeError},
	{"multi-prog", 0, "srun uses this option for several programs; with mpiexec separate the programs by a : or use -configfile", gradeError},
	{"error", 1, "srun uses this option for standard error; with mpiexec use -errfile-pattern", gradeError},
	{"input", 1, "srun uses this option for standard input; with mpiexec use -stdin file=FILE", gradeError},
	{"ntasks-per-core,threads-per-core,hint", 1, "srun uses this option for the use of cores; with mpiexec use --map-by ppr:N:core, -use-hwthread-cpus, --tpp", gradeError},
	{"ntasks-per-gpu", 1, "srun uses this option to let ranks share a GPU; with mpiexec each rank has GPUs of its own: -gpus-per-proc", gradeError},
	{"gpus,gpus-per-node,gpus-per-socket,gpu-bind,gpu-freq,tres-per-task,G", 1, "srun uses this option for GPUs; with mpiexec use -gpus-per-proc N, for each rank", gradeError},
	{"gpu-subdevs-per-proc", 1, "Hydra uses this option for parts of GPUs; with mpiexec ranks get whole GPUs: -gpus-per-proc", gradeError},
	{"prolog,epilog,task-prolog,task-epilog", 1, "srun uses this option for scripts around the job; with mpiexec call them in the script that calls mpiexec", gradeError},
	{"envexcl,genvexcl", 1, "Intel MPI uses this option for variables that ranks do not get; with mpiexec use --unset-env", gradeError},
	{"ib,ibl,psm,psm2,psml,dapl,rdma,tmi,mxm,ofi,shm,nopsm", 0, "Intel MPI uses this option for the network; with mpiexec choose it with -genv I_MPI_FABRICS or FI_PROVIDER", gradeError},
	{"check-mpi,profile", 0, "Intel MPI uses this option for its tools; with mpiexec set LD_PRELOAD with -genv", gradeError},
	{"ilp64", 0, "Intel MPI uses this option for its compilers' libraries; with mpiexec set LD_PRELOAD with -genv", gradeError},
	{"umask,gumask", 1, "Intel MPI uses this option for the umask; with mpiexec, ranks inherit the umask of mpiexec", gradeError},
	{"tmpdir", 1, "Intel MPI uses this option for its own files; mpiexec has no such files", gradeUnneeded},
	{"cleanup,noconf", 0, "Intel MPI uses this option for its own files; mpiexec has no such files", gradeUnneeded},
	{"silent-abort", 0, "Intel MPI uses this option for its messages when a rank aborts; with mpiexec, -q prints only errors", gradeLenient},
	{"hostos", 1, "Intel MPI uses this option for the operating system of hosts; with mpiexec it is always Linux", gradeUnneeded},
	{"disable-hostname-propagation", 0, "Hydra uses this option for the host name that ranks get; with mpiexec set MPIR_CVAR_CH3_INTERFACE_HOSTNAME with -env", gradeError},
	{"cc", 1, "aprun uses this option for binding; with mpiexec use --bind-to", gradeError},
	{"ckpoint,ckpoint-interval,ckpoint-prefix,ckpoint-num,ckpointlib,ckpoint-preserve", -1, "old versions of Hydra used this option for checkpoints, which Hydra no longer supports; with mpiexec use --ckpt-signal or --ckpt-cmd", gradeError},
	{"gdb,tv,xterm,valgrind,gtool,gtoolfile", -1, "other launchers start a tool with this option; with mpiexec write the tool in front of the program: mpiexec -n 4 valgrind ./a.out, or -n 1 gdb ./a : -n 3 ./a", gradeError},
	{"ompi-server", 1, "Open MPI uses this option for its name server; with mpiexec use --names user, or -nameserver HOST", gradeError},
	{"dvm,add-host,add-hostfile,activate,hnp", 1, "Open MPI uses this option for its persistent daemons; mpiexec has none", gradeError},
	{"topolib,demux,pmi-connect,branch-count", 1, "other launchers use this option for an internal setting, which mpiexec does not have", gradeLenient},
	{"pmi-aggregate,pmi-noaggregate", 0, "other launchers use this option for an internal setting, which mpiexec does not have", gradeLenient},
	{"aps,mps,t-collect", 0, "Intel MPI uses this option for its tools; with mpiexec set LD_PRELOAD or the I_MPI variables with -genv", gradeError},
	{"trace", 0, "Intel MPI uses this option for its tools; with mpiexec set LD_PRELOAD or the I_MPI variables with -genv", gradeError},
	{"exitinfo,exitcode,ecfn", -1, "old launchers use this option for exit codes; with mpiexec use -print-all-exitcodes or --report FILE", gradeError},
	{"stdoutbuf,stderrbuf", 1, "MPICH uses this option for buffers; mpiexec passes output on line by line, or with --unbuffered as soon as it arrives", gradeLenient},
	{"channel,phrase,smpdfile,port", 1, "only old versions of MPICH, and MS-MPI, use this option; mpiexec has nothing similar", gradeLenient},
	{"noprompt,localroot", 0, "only old versions of MPICH, and MS-MPI, use this option; mpiexec has nothing similar", gradeLenient},
	{"enable-x", 0, "Hydra uses this option for X11 forwarding, which mpiexec does not have; use -x DISPLAY if the hosts can connect to your display", gradeError},
	{"disable-x", 0, "Hydra uses this option for X11 forwarding, which mpiexec does not have", gradeLenient},
}

// adviceOf returns the hint of a refusal. If mpiexec has an option of the same name with two dashes (the tag
// onedash), the hint says so.
func (t *Table) adviceOf(r refusal) string {
	for name := range strings.SplitSeq(r.names, ",") {
		if m, ours := t.names[name]; ours {
			return r.advice + "; " + m.Option.Dashed + m.argumentText() + ", with two dashes, " + m.oneDashAdvice
		}
	}
	return r.advice
}

// refusalOf returns the refusal of an option. dashed is the option with its dashes.
func (t *Table) refusalOf(dashed string) (refusal, bool) {
	name := normalize(dashed)
	if _, ours := t.names[name]; ours && strings.HasPrefix(dashed, "--") {
		return refusal{}, false
	}
	for _, r := range t.refusals {
		for known := range strings.SplitSeq(r.names, ",") {
			if known == name {
				r.advice = t.adviceOf(r)
				return r, true
			}
		}
	}
	return refusal{}, false
}

// ShellQuote returns a word with quotes, if a shell needs them to read it as one word.
func ShellQuote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+^-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// RegisterForeign adds an option of other launchers that mpiexec refuses, and the advice to print. valueWords
// is the number of words of the option's value. A feature calls it while the program is initialized.
func RegisterForeign(name string, valueWords int, advice string) {
	foreignOptions = append(foreignOptions, refusal{name, valueWords, advice, gradeError})
}
