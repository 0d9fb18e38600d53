package option

import (
	"strings"
)

// A refusal says how mpiexec treats an option of another launcher that it does not support (rule CLI-15, cli.md 3).
type refusal struct {
	names      string // without dashes, separated by blanks
	valueWords int    // number of value words that follow it; -1: differs between launchers
	advice     string // what it means and what to use instead; follows the option in the message

	grade refusalGrade
}

// A refusalGrade says whether an unsupported option is an error, a warning or a note.
type refusalGrade int

const (
	gradeError    refusalGrade = iota // always an error
	gradeLenient                      // it can be left out: a warning with --lenient, else an error
	gradeUnneeded                     // what it requests is so anyway: a note
)

// foreignOptions are the options of other launchers that mpiexec rejects, in the order of the table in cli.md. A test
// checks that their hints name only existing options.
var foreignOptions = []refusal{
	{"tune", 1, "in Open MPI and Intel MPI, this option sets parameters of the MPI library; use -genv NAME VALUE instead", gradeError},
	{"am", 1, "in Open MPI, this option names a file with parameters of the MPI library; use -genv NAME VALUE instead", gradeError},
	{"prefix", 1, "in Open MPI, this option sets the path of its installation; mpiexec does not need that path; to find libraries, use -genv LD_LIBRARY_PATH PATH; to find the program, use -path", gradeUnneeded},
	{"noprefix,enable-prefix", 0, "in Open MPI, this option turns the use of its installation path on or off; mpiexec does not need that path", gradeUnneeded},
	{"c", 1, "in Open MPI, this option sets the number of ranks (use -n); in srun, it sets the number of CPUs of each task (use --tpp)", gradeError},
	{"w", -1, "in srun and clush, this option lists hosts (use -host); in ParaStation, it makes the job wait in the queue (use --wait)", gradeError},
	{"o", -1, "in srun, this option names the output file (use -outfile-pattern); in ParaStation, it lets jobs share CPUs (use --overbook); in ssh, it sets an ssh option (use --ssh-option)", gradeError},
	{"e", -1, "in srun, this option names the error file (use -errfile-pattern); in ParaStation, it lists variables to pass on (use -exports)", gradeError},
	{"i", -1, "in srun, this option names the input file (use -stdin); in ssh, it names a key (use --ssh-option IdentityFile=FILE); in ParaStation, it starts an interactive job", gradeError},
	{"p", -1, "in ParaStation, this option sets the search path of programs (use -path); in ssh, it sets the port (use --ssh-option Port=N); in srun, it names a partition", gradeError},
	{"t", -1, "in srun, this option sets a time limit (use -timeout); in clush, it limits the time to connect (use --connect-timeout)", gradeError},
	{"d", -1, "in ParaStation, this option sets the working directory (use -wdir); in aprun, it sets the number of CPUs of each rank (use --tpp); in srun, it sets dependencies", gradeError},
	{"m", -1, "in srun, this option sets the distribution of ranks (use -rr or --map-by); in ParaStation, it merges equal lines (use --collapse); in torchrun, it names a Python module (use python3 and its options as the program)", gradeError},
	{"r", -1, "in srun, this option sets the first node (use -host); in ParaStation, it sets the working directory (use -wdir)", gradeError},
	{"b", -1, "in clush, this option merges equal lines (use --collapse); in ParaStation, it sends input to all ranks (use -stdin all)", gradeError},
	{"y,X", -1, "this option has a different meaning in each launcher; use a long option of mpiexec", gradeError},
	{"identity,identity-file", 1, "in other launchers, this option names an ssh key; use --ssh-option IdentityFile=FILE, or set IdentityFile in ~/.ssh/config", gradeError},
	{"J", 1, "in ssh, this option names a jump host; use --ssh-option ProxyJump=HOST instead", gradeError},
	{"default-hostfile", 1, "in Open MPI, this option names a host file that applies if no other option lists hosts; use -hostfile, or set MPIEXEC_HOSTFILE in the environment", gradeError},
	{"ppr", 1, "in Open MPI, this option sets the number of ranks on each object; use --map-by ppr:N:OBJECT instead", gradeError},
	{"cpu-set,cpu-list", 1, "in Open MPI, this option lists the CPUs to use; use --map-by pe-list=LIST or --bind-to cpu-list=LIST instead", gradeError},
	{"launch-agent", 1, "in Open MPI, this option names the program of its daemon; mpiexec uses its own program, and copies it to hosts that do not have it", gradeUnneeded},
	{"leave-session-attached,debug-daemons,debug-daemons-file,debug-devel,no-ready-msg", 0, "in Open MPI, this option controls its daemons; mpiexec starts no daemons, so the option has no effect; -vv prints more messages", gradeUnneeded},
	{"personality", 1, "in Open MPI, this option sets the type of the job; mpiexec has only one type, so the option has no effect", gradeUnneeded},
	{"novm", 0, "in Open MPI, this option controls its daemons; mpiexec starts no daemons, so the option has no effect", gradeUnneeded},
	{"debugger", 1, "in Open MPI, this option lists debuggers; mpiexec starts no debugger, so the option has no effect", gradeUnneeded},
	{"runtime-options", 1, "in Open MPI, this option sets several options at once; use --dry-run for donotlaunch, --progress for show-progress, -K0 for error-nonzero-status=0, -disable-auto-cleanup for recoverable, and -timeout for timeout", gradeError},
	{"nproc-per-node", 1, "in torchrun, this option sets the number of ranks on each host; use -ppn N together with --env-compat torch", gradeError},
	{"nnodes", 1, "in torchrun, this option sets the number of hosts; list the hosts with -host LIST or -hostfile FILE, together with --env-compat torch", gradeError},
	{"node-rank", 1, "in torchrun, this option sets the number of the host on which torchrun runs; run mpiexec once; with --env-compat torch, it sets that number on each host", gradeError},
	{"master-addr,master-port,local-addr,rdzv-endpoint,rdzv-backend,rdzv-id,rdzv-conf", 1, "in torchrun, this option sets how ranks find each other; with --env-compat torch, mpiexec chooses an address and a port", gradeError},
	{"standalone", 0, "in torchrun, this option starts all ranks on one host; use -n N together with --env-compat torch", gradeError},
	{"redirects,tee,log-dir", 1, "in torchrun, this option writes output of ranks to files; use -outfile-pattern or -errfile-pattern instead", gradeError},
	{"monitor-interval,start-method,role", 1, "in torchrun, this option controls its agents; mpiexec has no agents, so the option has no effect", gradeUnneeded},
	{"module,no-python", 0, "in torchrun, this option sets how the program is started; write the interpreter as the program: python3 train.py", gradeError},
	{"continuous", 0, "in Open MPI, this option lets the job continue after a rank is lost; use -disable-auto-cleanup instead", gradeError},
	{"max-restarts,with-ft", 1, "in Open MPI and torchrun, this option restarts lost ranks; mpiexec cannot restart single ranks; use --restart to start the whole job again, or -disable-auto-cleanup to let the other ranks continue", gradeError},
	{"xml,parseable,parsable", 0, "in Open MPI, this option selects machine-readable output; use --json together with --dry-run, --doctor or --ps", gradeError},
	{"report-state-on-timeout", 0, "in Open MPI, this option prints the state of ranks after a timeout; mpiexec always does this after -timeout", gradeUnneeded},
	{"report-pid,report-uri", 1, "in Open MPI, this option prints how to reach its daemons; mpiexec starts no daemons; to list jobs, use --ps", gradeError},
	{"set-cwd-to-session-dir", 0, "in Open MPI, this option starts ranks in its session directory; use -wdir instead; files of --stage are in $MPIEXEC_STAGE_DIR", gradeError},
	{"gres", 1, "in srun, this option requests resources from Slurm's scheduler; to request GPUs for each rank, use -gpus-per-proc N", gradeError},
	{"partition,account,qos,job-name,reservation,mem,mem-per-cpu,licenses,job-id,jobid,mail-type,mail-user,begin,dependency", 1, "in srun, this option is for Slurm's scheduler; mpiexec does not schedule jobs; inside an allocation of Slurm, use -rmk slurm to run on its hosts", gradeError},
	{"constraint", 1, "in srun, this option requests features of nodes; use --nodetype instead", gradeError},
	{"time", 1, "in srun, this option sets a time limit in minutes; use -timeout, in seconds", gradeError},
	{"distribution", 1, "in srun, this option sets the order of ranks; use -rr for cyclic order, or --map-by for other orders", gradeError},
	{"multi-prog", 0, "in srun, this option starts several programs; separate the programs with a colon (:), or use -configfile", gradeError},
	{"error", 1, "in srun, this option names the file for standard error; use -errfile-pattern instead", gradeError},
	{"input", 1, "in srun, this option names the file for standard input; use -stdin file=FILE instead", gradeError},
	{"ntasks-per-core,threads-per-core,hint", 1, "in srun, this option sets how ranks use cores; use --map-by ppr:N:core, -use-hwthread-cpus or --tpp instead", gradeError},
	{"ntasks-per-gpu", 1, "in srun, this option lets ranks share a GPU; with -gpus-per-proc, mpiexec gives each rank its own GPUs", gradeError},
	{"gpus,gpus-per-node,gpus-per-socket,gpu-bind,gpu-freq,tres-per-task,G", 1, "in srun, this option requests GPUs; to request GPUs for each rank, use -gpus-per-proc N", gradeError},
	{"gpu-subdevs-per-proc", 1, "in Hydra, this option gives ranks parts of GPUs; with -gpus-per-proc, mpiexec gives ranks only whole GPUs", gradeError},
	{"prolog,epilog,task-prolog,task-epilog", 1, "in srun, this option runs scripts before or after the job; call them in the script that calls mpiexec", gradeError},
	{"envexcl,genvexcl", 1, "in Intel MPI, this option lists variables that are not passed on to ranks; use --unset-env instead", gradeError},
	{"ib,ibl,psm,psm2,psml,dapl,rdma,tmi,mxm,ofi,shm,nopsm", 0, "in Intel MPI, this option selects the network; set I_MPI_FABRICS or FI_PROVIDER with -genv instead", gradeError},
	{"check-mpi,profile", 0, "in Intel MPI, this option starts its analysis tools; set LD_PRELOAD with -genv instead", gradeError},
	{"ilp64", 0, "in Intel MPI, this option selects a library of its compilers; set LD_PRELOAD with -genv instead", gradeError},
	{"umask,gumask", 1, "in Intel MPI, this option sets the umask; with mpiexec, ranks inherit the umask of mpiexec", gradeError},
	{"tmpdir", 1, "in Intel MPI, this option sets the folder of its temporary files; mpiexec creates no such files, so the option has no effect", gradeUnneeded},
	{"cleanup,noconf", 0, "in Intel MPI, this option controls its own files; mpiexec has no such files, so the option has no effect", gradeUnneeded},
	{"silent-abort", 0, "in Intel MPI, this option suppresses messages when a rank aborts; use -q to print only errors", gradeLenient},
	{"hostos", 1, "in Intel MPI, this option sets the operating system of hosts; with mpiexec it is always Linux", gradeUnneeded},
	{"disable-hostname-propagation", 0, "in Hydra, this option controls the host name that each rank gets; set MPIR_CVAR_CH3_INTERFACE_HOSTNAME with -env instead", gradeError},
	{"cc", 1, "in aprun, this option binds ranks to CPUs; use --bind-to instead", gradeError},
	{"ckpoint,ckpoint-interval,ckpoint-prefix,ckpoint-num,ckpointlib,ckpoint-preserve", -1, "in old versions of Hydra, this option controls checkpoints; use --ckpt-signal or --ckpt-cmd instead", gradeError},
	{"gdb,tv,xterm,valgrind,gtool,gtoolfile", -1, "in other launchers, this option starts a tool; write the tool in front of the program: mpiexec -n 4 valgrind ./a.out, or mpiexec -n 1 gdb ./a : -n 3 ./a", gradeError},
	{"ompi-server", 1, "in Open MPI, this option names its name server; use --names user or -nameserver HOST instead", gradeError},
	{"dvm,add-host,add-hostfile,activate,hnp", 1, "in Open MPI, this option controls its persistent daemons; mpiexec starts no daemons", gradeError},
	{"topolib,demux,pmi-connect,branch-count", 1, "in other launchers, this option changes an internal setting, which mpiexec does not have", gradeLenient},
	{"pmi-aggregate,pmi-noaggregate", 0, "in other launchers, this option changes an internal setting, which mpiexec does not have", gradeLenient},
	{"aps,mps,t-collect", 0, "in Intel MPI, this option starts its analysis tools; set LD_PRELOAD or the I_MPI variables with -genv instead", gradeError},
	{"trace", 0, "in Intel MPI, this option starts its analysis tools; set LD_PRELOAD or the I_MPI variables with -genv instead", gradeError},
	{"exitinfo,exitcode,ecfn", -1, "in old launchers, this option reports exit codes; use -print-all-exitcodes or --report FILE instead", gradeError},
	{"stdoutbuf,stderrbuf", 1, "in MPICH, this option sets the buffering of output; mpiexec passes on whole lines; with --unbuffered, it passes on each byte immediately", gradeLenient},
	{"channel,phrase,smpdfile,port", 1, "this option exists only in MS-MPI and old versions of MPICH; mpiexec has no equivalent", gradeLenient},
	{"noprompt,localroot", 0, "this option exists only in MS-MPI and old versions of MPICH; mpiexec has no equivalent", gradeLenient},
	{"enable-x", 0, "in Hydra, this option enables X11 forwarding, which mpiexec does not have; if the hosts can connect to your display, use -x DISPLAY", gradeError},
	{"disable-x", 0, "in Hydra, this option disables X11 forwarding, which mpiexec does not have", gradeLenient},
}

// adviceOf returns the hint that is printed for a rejected option. Some of these options have one dash, and mpiexec has
// an option of the same name with two dashes (the tag onedash). In this case the hint explains the difference.
func (t *Table) adviceOf(r refusal) string {
	for name := range strings.SplitSeq(r.names, ",") {
		if m, ours := t.names[name]; ours {
			ownOption := m.Option.Dashed + m.argumentText()
			return r.advice + "; the option " + ownOption + ", with two dashes, " + m.oneDashAdvice
		}
	}
	return r.advice
}

// refusalOf returns the reason for rejecting an option, and whether mpiexec rejects it. dashed is the option with its
// dashes.
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

// ShellQuote returns word, in quotes if a shell might otherwise not read it as one unchanged word.
func ShellQuote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+^-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// RegisterForeign adds an option of another launcher that mpiexec rejects, and the advice to print. valueWords is the
// number of words of the option's value. A feature calls RegisterForeign during program initialization.
func RegisterForeign(name string, valueWords int, advice string) {
	foreignOptions = append(foreignOptions, refusal{name, valueWords, advice, gradeError})
}
