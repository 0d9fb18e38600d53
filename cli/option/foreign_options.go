package option

import (
	"strings"
)

// A refusal is the error message for an option of another launcher that mpiexec does not have (rule CLI-15,
// cli.md 3).
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
	{"tune", 1, "sets parameters of Open MPI, or Intel MPI's library; here use -genv NAME VALUE", gradeError},
	{"am", 1, "is Open MPI's option for files of library parameters; here use -genv NAME VALUE", gradeError},
	{"prefix", 1, "is Open MPI's option for its installation; here nothing depends on one; for libraries use -genv LD_LIBRARY_PATH PATH, for the program -path", gradeUnneeded},
	{"noprefix enable-prefix", 0, "is Open MPI's option for its installation; here nothing depends on one", gradeUnneeded},
	{"c", 1, "means ranks in Open MPI and CPUs per task in srun; for ranks use -n, for CPUs --tpp", gradeError},
	{"w", -1, "means hosts in srun and clush, and waiting in the queue in ParaStation; here: -host, --wait", gradeError},
	{"o", -1, "means an output file in srun, sharing CPUs in ParaStation, and an option in ssh; here: -outfile-pattern, --overbook, --ssh-option", gradeError},
	{"e", -1, "means an error file in srun, and variables to take along in ParaStation; here: -errfile-pattern, -exports", gradeError},
	{"i", -1, "means an input file in srun, an interactive job in ParaStation, and a key in ssh; here: -stdin, and --ssh-option IdentityFile=FILE for a key", gradeError},
	{"p", -1, "means a partition in srun, where programs are in ParaStation, and a port in ssh; here: -path, and --ssh-option Port=N", gradeError},
	{"t", -1, "means a time limit in srun, and for connecting in clush; here: -timeout, --connect-timeout", gradeError},
	{"d", -1, "means the working directory in ParaStation, CPUs for each rank in aprun, and dependencies in srun; here: -wdir, --tpp", gradeError},
	{"m", -1, "means a task distribution in srun, merging equal lines in ParaStation, and a Python module in torchrun; here: -rr for ranks on different hosts in turn, or --map-by; for equal lines --collapse; for a Python module write python3 and its options as the program", gradeError},
	{"r", -1, "means the first node in srun, and a working directory in ParaStation; here: -host, -wdir", gradeError},
	{"b", -1, "means to merge equal lines in clush, and input for all ranks in ParaStation; here: --collapse, -stdin all", gradeError},
	{"y X", -1, "means something else in each launcher; use the long name of what you want", gradeError},
	{"identity identity-file", 1, "is for a key of ssh; here: --ssh-option IdentityFile=FILE, or IdentityFile in ~/.ssh/config", gradeError},
	{"J", 1, "is ssh's option for a jump host; here: --ssh-option ProxyJump=HOST", gradeError},
	{"default-hostfile", 1, "is Open MPI's option for hosts if none are named; here: -hostfile, or MPIEXEC_HOSTFILE in the environment", gradeError},
	{"ppr", 1, "is Open MPI's option for ranks on each object; here: --map-by ppr:N:OBJECT", gradeError},
	{"cpu-set cpu-list", 1, "is Open MPI's option for CPUs; here: --map-by pe-list=LIST, or --bind-to cpu-list=LIST", gradeError},
	{"launch-agent", 1, "is Open MPI's option for its daemon; mpiexec uses its own program, and copies it to hosts that lack it", gradeUnneeded},
	{"leave-session-attached debug-daemons debug-daemons-file debug-devel no-ready-msg", 0, "is Open MPI's option for its daemons; mpiexec has none; -vv reports more", gradeUnneeded},
	{"personality", 1, "is Open MPI's option for the type of job; mpiexec has only one type", gradeUnneeded},
	{"novm", 0, "is Open MPI's option for its daemons; mpiexec has none", gradeUnneeded},
	{"debugger", 1, "is Open MPI's option for a list of debuggers; mpiexec starts no debugger", gradeUnneeded},
	{"runtime-options", 1, "sets several options in Open MPI; here: --dry-run for donotlaunch, --progress for show-progress, -K0 for error-nonzero-status=0, -disable-auto-cleanup for recoverable, and -timeout", gradeError},
	{"nproc-per-node", 1, "is torchrun's option for ranks on each host; here: -ppn N, with --env-compat torch", gradeError},
	{"nnodes", 1, "is torchrun's option for the number of hosts; here hosts are named: -host LIST or -hostfile FILE, with --env-compat torch", gradeError},
	{"node-rank", 1, "is torchrun's option for the number of a host; here run mpiexec once, on one machine: it numbers the hosts with --env-compat torch", gradeError},
	{"master-addr master-port local-addr rdzv-endpoint rdzv-backend rdzv-id rdzv-conf", 1, "is torchrun's option for where ranks meet; here --env-compat torch finds an address and a port", gradeError},
	{"standalone", 0, "is torchrun's option for ranks on one host; here: -n N, with --env-compat torch", gradeError},
	{"redirects tee log-dir", 1, "is torchrun's option for what ranks write; here: -outfile-pattern, -errfile-pattern", gradeError},
	{"monitor-interval start-method role", 1, "is torchrun's option for its agents; mpiexec has none", gradeUnneeded},
	{"module no-python", 0, "is torchrun's option for the way a program is started; here write the interpreter, too: python3 train.py", gradeError},
	{"continuous", 0, "is Open MPI's option for lost ranks; here -disable-auto-cleanup lets the other ranks continue", gradeError},
	{"max-restarts with-ft", 1, "is an option of Open MPI and torchrun for lost ranks; mpiexec does not restart single ranks: --restart starts the whole job again, -disable-auto-cleanup lets the other ranks continue", gradeError},
	{"xml parseable parsable", 0, "is Open MPI's option for machine-readable output; here --json, with --dry-run, --doctor or --ps", gradeError},
	{"report-state-on-timeout", 0, "is Open MPI's option for stack traces; here -timeout always prints what each rank was doing", gradeUnneeded},
	{"report-pid report-uri", 1, "is Open MPI's option for its daemons; here --ps lists jobs", gradeError},
	{"set-cwd-to-session-dir", 0, "is Open MPI's option for directories of its own; here -wdir, and MPIEXEC_STAGE_DIR for the files of --stage", gradeError},
	{"gres", 1, "is srun's option for Slurm's scheduler; here request GPUs with -gpus-per-proc N, for each rank", gradeError},
	{"partition account qos job-name reservation mem mem-per-cpu licenses job-id jobid mail-type mail-user begin dependency", 1, "is srun's option for Slurm's scheduler; mpiexec does not schedule jobs; inside an allocation, -rmk slurm uses its hosts", gradeError},
	{"constraint", 1, "is srun's option for features of nodes; here: --nodetype", gradeError},
	{"time", 1, "is srun's option for a limit in minutes; here: -timeout, in seconds", gradeError},
	{"distribution", 1, "is srun's option for the order of ranks; here: -rr for cyclic, and --map-by", gradeError},
	{"multi-prog", 0, "is srun's option for several programs; here: app contexts with a : between, or -configfile", gradeError},
	{"error", 1, "is srun's option for standard error; here: -errfile-pattern", gradeError},
	{"input", 1, "is srun's option for standard input; here: -stdin file=FILE", gradeError},
	{"ntasks-per-core threads-per-core hint", 1, "is srun's option for the use of cores; here: --map-by ppr:N:core, -use-hwthread-cpus, --tpp", gradeError},
	{"ntasks-per-gpu", 1, "is srun's option for ranks that share a GPU; here each has its own: -gpus-per-proc", gradeError},
	{"gpus gpus-per-node gpus-per-socket gpu-bind gpu-freq tres-per-task G", 1, "is srun's option for GPUs; here: -gpus-per-proc N, for each rank", gradeError},
	{"gpu-subdevs-per-proc", 1, "is Hydra's option for parts of GPUs; here ranks get whole ones: -gpus-per-proc", gradeError},
	{"prolog epilog task-prolog task-epilog", 1, "is srun's option for scripts around the job; here call them in the script that calls mpiexec", gradeError},
	{"envexcl genvexcl", 1, "is Intel MPI's option for variables to leave out; here: --unset-env", gradeError},
	{"ib ibl psm psm2 psml dapl rdma tmi mxm ofi shm nopsm", 0, "is Intel MPI's option for the network; here choose it with -genv I_MPI_FABRICS or FI_PROVIDER", gradeError},
	{"check-mpi profile", 0, "is Intel MPI's option for its tools; here set LD_PRELOAD with -genv", gradeError},
	{"ilp64", 0, "is Intel MPI's option for its compilers' libraries; here set LD_PRELOAD with -genv", gradeError},
	{"umask gumask", 1, "is Intel MPI's option for the umask; here ranks inherit the umask of mpiexec", gradeError},
	{"tmpdir", 1, "is Intel MPI's option for its own files; mpiexec has no such files", gradeUnneeded},
	{"cleanup noconf", 0, "is Intel MPI's option for its own files; mpiexec has no such files", gradeUnneeded},
	{"silent-abort", 0, "is Intel MPI's option for its messages when a rank aborts; here -q prints only errors", gradeLenient},
	{"hostos", 1, "is Intel MPI's option for the system of hosts; here it is Linux", gradeUnneeded},
	{"disable-hostname-propagation", 0, "is Hydra's option for the host name that ranks get; here set MPIR_CVAR_CH3_INTERFACE_HOSTNAME with -env", gradeError},
	{"cc", 1, "is aprun's option for binding; here: --bind-to", gradeError},
	{"ckpoint ckpoint-interval ckpoint-prefix ckpoint-num ckpointlib ckpoint-preserve", -1, "is an old option of Hydra for checkpoints; Hydra itself no longer has them", gradeError},
	{"gdb tv xterm valgrind gtool gtoolfile", -1, "starts a tool in other launchers; here write the tool in front of the program: mpiexec -n 4 valgrind ./a.out, or -n 1 gdb ./a : -n 3 ./a", gradeError},
	{"dvm add-host add-hostfile activate hnp ompi-server", 1, "is Open MPI's option for its persistent daemons; mpiexec has none", gradeError},
	{"nameserver", 1, "is Hydra's option for its name server; here names published with MPI_Publish_name live as long as the job", gradeError},
	{"topolib demux pmi-connect branch-count", 1, "is an internal setting of another launcher", gradeLenient},
	{"pmi-aggregate pmi-noaggregate", 0, "is an internal setting of another launcher", gradeLenient},
	{"aps mps t-collect", 0, "is Intel MPI's option for its tools; here set LD_PRELOAD or the I_MPI variables with -genv", gradeError},
	{"trace", 0, "is Intel MPI's option for its tools; here set LD_PRELOAD or the I_MPI variables with -genv", gradeError},
	{"exitinfo exitcode ecfn", -1, "is an option of old launchers for exit codes; here: -print-all-exitcodes, --report FILE", gradeError},
	{"stdoutbuf stderrbuf", 1, "is MPICH's option for buffers; here output is passed on line by line, or with --unbuffered as soon as it arrives", gradeLenient},
	{"channel phrase smpdfile port", 1, "is an option of an old MPICH or of MS-MPI and does not apply here", gradeLenient},
	{"noprompt localroot", 0, "is an option of an old MPICH or of MS-MPI and does not apply here", gradeLenient},
	{"enable-x", 0, "is Hydra's option for X11 forwarding, which mpiexec does not have; use -x DISPLAY where hosts reach your display", gradeError},
	{"disable-x", 0, "is Hydra's option for X11 forwarding, which mpiexec does not have", gradeLenient},
}

// adviceOf returns the hint of a refusal. mpiexec may have an option of the same name with two dashes
// (the tag onedash).
func (t *Table) adviceOf(r refusal) string {
	for name := range strings.FieldsSeq(r.names) {
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
		for known := range strings.FieldsSeq(r.names) {
			if known == name {
				r.advice = t.adviceOf(r)
				return r, true
			}
		}
	}
	return refusal{}, false
}

// ShellQuote returns a word, quoted if needed so that a shell reads it as one word.
func ShellQuote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+^-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// RegisterForeign adds an option of other launchers that a feature refuses. valueWords is the number of words of its value.
// advice follows the option in the message. RegisterForeign is called while the program is initialized.
func RegisterForeign(name string, valueWords int, advice string) {
	foreignOptions = append(foreignOptions, refusal{name, valueWords, advice, gradeError})
}
