package batch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/usererr"
)

// slurm describes Slurm. Slurm lists the nodes of a job in folded form, and gives the tasks and CPUs of each node in
// other variables (rm-integration.md 2.2).
//
// mpiexec starts a step of the Slurm job for each host (tried with Slurm 22.05):
//
//	mpiexec --- srun ...... slurmctld, slurmd ...... slurmstepd --- /bin/sh --- reaper --- helper --- ranks
//	         '- srun ...... slurmctld, slurmd ...... slurmstepd --- ...
//
// mpiexec and the helper communicate through the standard streams of srun. mpiexec can also start one step for all
// hosts (srunOnce), which costs Slurm the same for a thousand hosts as for one. srun merges the outputs of that step,
// so the helpers dial back to mpiexec (package dialback):
//
//	mpiexec --- srun ...... slurmctld, slurmd ...... slurmstepd on each --- /bin/sh --- reaper --- helper --- ranks
//	   '==================================== TLS ====================================='
//
// All ranks, including those on this machine, belong to steps of the Slurm job. So Slurm signals and ends all of them
// in the same way.
var slurm = System{
	Name: "slurm", Title: "Slurm", Within: "start mpiexec in a job script (sbatch), or in an interactive job (salloc)",

	Variable: "SLURM_JOB_ID",
	Inside: func(w Inputs) bool {
		return w.set("SLURM_JOB_ID") || w.set("SLURM_JOBID") || w.set("SLURM_HET_SIZE")
	},
	Job:    slurmNumber,
	Copies: slurmCopies,
	Hosts:  slurmHosts,
	Groups: true,
	State:  slurmState,
	End:    slurmEnd,

	Starter: &Starter{
		Program: "srun",
		Argv:    srun, Help: "--help",
		Step: &Step{Argv: srunOnce, HostVar: "SLURMD_NODENAME", LauncherVar: "SLURM_LAUNCH_NODE_IPADDR", ErrorLine: srunTaskLine},
		Drops: []string{
			"SLURM_EXPORT_ENV", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_THREADS_PER_CORE",
			"SLURM_NTASKS*", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_STEP_*", "SLURM_STEPID", "SLURM_UNBUFFEREDIO", "SLURM_LABELIO",
			"SLURM_OVERCOMMIT", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_WHOLE",
		},
		Fanout: 32, StartTimeout: 30 * time.Second, AlsoLocal: true,
		EndGrace: 700 * time.Millisecond, EndsAtSIGTERM: true,
		ErrorPatterns: []ErrorPattern{
			{Pattern: "step creation temporarily disabled", Busy: true, Remedy: "lower --fanout"},
			{Pattern: "socket timed out", Busy: true, Remedy: "lower --fanout"},
			{Pattern: "unable to contact", Busy: true, Remedy: "lower --fanout"},
			{Pattern: "didn't accept task", Busy: true, Remedy: "lower --fanout"},
		},
		DefaultRemedy: `check that "srun -N1 -n1 -w HOST true" works here, or use -launcher ssh`,
		ExplainSilence: func(help string) (why, remedy string) {
			if overlaps(help) {
				return "", ""
			}
			return "srun waits for free CPUs, because this version of srun has no option --overlap", "keep some CPUs of the allocation free, or use -launcher ssh"
		},
		ErrorLine: srunLine,
	},
	OpenMPI: "slurm",

	KillWait: slurmKillWait,
	Holder:   Holder{Processes: []string{"slurmstepd"}, Variables: []string{"SLURM_JOB_ID"}},
	Signals:  true,
	OfRank:   []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID"},
	Identity: Identity{Rank: "SLURM_PROCID", Size: "SLURM_NTASKS", Local: "SLURM_LOCALID", Node: "SLURM_NODEID", Restarts: "SLURM_RESTART_COUNT"},
}

func slurmNumber(w Inputs) string {
	_, id := w.first("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_HET_JOB_ID")
	return id
}

// firstReservedStep is the lowest step number that Slurm reserves, for example for the batch script (slurm.h:
// SLURM_MAX_NORMAL_STEP_ID).
const firstReservedStep = 4294967280

// inStep reports whether mpiexec runs in a Slurm step, that is, srun has started it (rule RM-11).
func inStep(w Inputs) bool {
	id, ok := number(w.value("SLURM_STEP_ID"))
	return ok && id < firstReservedStep
}

// terminal reports whether srun --pty has started this mpiexec. In such a step only one task receives input (rule
// RM-12).
func terminal(w Inputs) bool {
	return w.set("SLURM_PTY_PORT") && w.value("SLURM_PROCID") == "0" && inStep(w)
}

// slurmCopies returns the command line of srun for a message, such as "srun -n 3", if srun has started several copies
// of mpiexec. Otherwise it returns "". An mpiexec that is a rank of another mpiexec has no SLURM_PROCID, so it is not
// a copy.
func slurmCopies(w Inputs) (starter string) {
	n := w.count("SLURM_STEP_NUM_TASKS")
	if _, task := w.Env("SLURM_PROCID"); !task || n < 2 || w.set("SLURM_PTY_PORT") {
		return ""
	}
	return fmt.Sprintf("srun -n %d", n)
}

// slurmHosts returns the hosts of the Slurm step in which mpiexec runs. Outside a step, under srun --pty, or if
// options request it, it returns the hosts of the whole job. In a heterogeneous job, options can select groups.
func slurmHosts(w Inputs, options Options) (Allocation, error) {
	_, size := w.first("SLURM_HET_SIZE", "SLURM_PACK_SIZE")
	groups, _ := number(size)
	whole := options.Job || terminal(w)
	var a Allocation
	var err error
	switch {
	case inStep(w) && !whole && options.Groups == nil:
		a, err = slurmStep(w)
	case groups > 1:
		a, err = slurmGroups(w, options.Groups, groups)
	case options.Groups != nil:
		return a, &usererr.Error{Text: fmt.Sprintf("--het-group: Slurm job %s has no groups", slurmNumber(w)), Remedy: "leave out --het-group"}
	default:
		a, err = slurmJob(w, inStep(w))
	}
	a.End = w.end("SLURM_JOB_END_TIME")
	if err == nil {
		w.slurmGPUs(&a)
	}
	return a, err
}

// slurmGPUs sets the GPUs of the host on which Slurm has started mpiexec. Slurm does not report the GPUs of other
// hosts. The GPUs come from a variable that lists the driver's GPU numbers. If its value is not such a list,
// slurmGPUs adds a warning and sets no GPUs.
func (w Inputs) slurmGPUs(a *Allocation) {
	variable := "SLURM_JOB_GPUS"
	if a.Step != "" {
		variable = "SLURM_STEP_GPUS"
	}
	here := slices.IndexFunc(a.Hosts, func(h Host) bool { return key(h.Name) == key(w.value("SLURMD_NODENAME")) })
	if !w.set("SLURMD_NODENAME") && len(a.Hosts) == 1 {
		here = 0
	}
	switch list := w.value(variable); {
	case list == "" || here < 0:
	case !isNumberList(list):
		a.Warnings = append(a.Warnings, fmt.Sprintf("warning: %s is ignored, because %s is not a list of GPUs", variable, quoted(list)))
	default:
		a.Hosts[here].GPUs = list
	}
}

// slurmNames holds the names of the variables in which Slurm describes hosts. All but hostsVariable may be empty.
type slurmNames struct{ hostsVariable, tasks, cpus, width string }

// slurmStep returns the allocation of the step in which srun has started mpiexec.
func slurmStep(w Inputs) (Allocation, error) {
	a, err := w.readSlurmHosts(slurmNames{hostsVariable: "SLURM_STEP_NODELIST", tasks: "SLURM_STEP_TASKS_PER_NODE", width: "SLURM_CPUS_PER_TASK"})
	a.Step = w.value("SLURM_STEP_ID")
	if err == nil && len(a.Hosts) == 1 {
		a.Hosts[0].CPUs = max(a.Hosts[0].CPUs, w.count("SLURM_CPUS_ON_NODE"))
	}
	return a, err
}

// slurmJob returns the allocation of the job that salloc or sbatch has started. step says whether mpiexec runs in a step
// of the job. In a step, some variables describe the step and not the job, so slurmJob does not read them.
func slurmJob(w Inputs, step bool) (Allocation, error) {
	hosts, _ := w.first("SLURM_JOB_NODELIST", "SLURM_NODELIST")
	names := slurmNames{hostsVariable: hosts, cpus: "SLURM_JOB_CPUS_PER_NODE"}
	if !step {
		names.width = "SLURM_CPUS_PER_TASK"
		asked, _ := w.first("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU")
		if w.set(asked) || !w.set(names.cpus) {
			names.tasks = "SLURM_TASKS_PER_NODE"
		}
	}
	return w.readSlurmHosts(names)
}

// slurmGroups returns the hosts of some groups of a heterogeneous Slurm job, in ascending order of the groups. numbers
// contains the numbers of these groups. If it is nil, slurmGroups returns the hosts of all groups. groups is how many
// groups the job has.
func slurmGroups(w Inputs, numbers []int, groups int) (all Allocation, err error) {
	if groups > maxHosts {
		return all, &usererr.Error{Text: fmt.Sprintf("SLURM_HET_SIZE is %d, but at most %d groups are allowed", groups, maxHosts)}
	}
	var hosts list
	all.Source = groupNames(w, 0).hostsVariable
	for group := range groups {
		if numbers != nil && !slices.Contains(numbers, group) {
			continue
		}
		a, err := w.readSlurmHosts(groupNames(w, group))
		if err != nil {
			return all, err
		}
		if all.Width == 0 || a.Width < all.Width { // the width of a task that fits everywhere
			all.Width, all.WidthFrom = a.Width, a.WidthFrom
		}
		for _, h := range a.Hosts {
			h.Group = group
			if err := hosts.add(h); err != nil {
				return all, listError(a.Source, err)
			}
		}
	}
	for _, group := range numbers {
		if group >= groups {
			return all, &usererr.Error{Text: fmt.Sprintf("--het-group %d: Slurm job %s has %d groups, numbered from 0", group, slurmNumber(w), groups), Remedy: "to use all groups, leave out --het-group"}
		}
	}
	all.Hosts = hosts.hosts
	return all, nil
}

// groupNames returns the names of the variables that describe one group. If only the names that Slurm used before
// 2020 are set, it returns the old names.
func groupNames(w Inputs, group int) slurmNames {
	end := "_HET_GROUP_" + strconv.Itoa(group)
	if old := "_PACK_GROUP_" + strconv.Itoa(group); !w.set("SLURM_JOB_NODELIST"+end) && w.set("SLURM_JOB_NODELIST"+old) {
		end = old
	}
	return slurmNames{"SLURM_JOB_NODELIST" + end, "SLURM_TASKS_PER_NODE" + end, "SLURM_JOB_CPUS_PER_NODE" + end, "SLURM_CPUS_PER_TASK" + end}
}

// readSlurmHosts returns the hosts of a Slurm job or step, with the tasks and CPUs of each host. If Slurm gives only
// the CPUs of a host, the number of tasks is the number of CPUs divided by the CPUs of one task. If Slurm gives neither,
// the host has one task.
func (w Inputs) readSlurmHosts(names slurmNames) (a Allocation, err error) {
	a.Source, a.Width = names.hostsVariable, 1
	if n := w.count(names.width); n > 0 && n <= maxCount {
		a.Width, a.WidthFrom = n, names.width
	}
	if !w.set(names.hostsVariable) {
		return a, newUnreadError(names.hostsVariable + " is not set")
	}
	hosts, err := expandHostlist(w.value(names.hostsVariable))
	if err == nil && len(hosts) == 0 {
		return a, newUnreadError(names.hostsVariable + " contains no host")
	}
	if err != nil {
		return a, listError(names.hostsVariable, err)
	}
	tasks, err := w.counts(names.tasks, len(hosts))
	if err != nil {
		return a, err
	}
	cpus, err := w.counts(names.cpus, len(hosts))
	if err != nil {
		return a, err
	}
	var l list
	for i, name := range hosts {
		h := Host{Name: name, Tasks: 1}
		if cpus != nil {
			h.CPUs, h.Tasks = cpus[i], cpus[i]/a.Width
		}
		if tasks != nil {
			h.Tasks = tasks[i]
		}
		if err := l.add(h); err != nil {
			return a, listError(names.hostsVariable, err)
		}
	}
	a.Hosts = l.all()
	return a, nil
}

// srun returns the command line that starts a step on one host. The options are those of Slurm 22.05. If the installed
// srun does not know --overlap, it is left out (rules RM-30, RM-32).
func srun(c Call) []string {
	return c.step([]string{"-N1", "-n1", "-w", c.Host}, "-u")
}

// srunOnce returns the command line that starts one step on many hosts, with one task on each host. The option -u
// is not used, so the tasks have no pseudoterminals. The tasks write whole lines, and srun forwards each line
// unbroken.
func srunOnce(calls []Call) []string {
	c, names := calls[0], make([]string, len(calls))
	for i, call := range calls {
		names[i] = call.Host
	}
	n := strconv.Itoa(len(calls))
	return c.step([]string{"-N", n, "-n", n, "--ntasks-per-node=1", "-w", strings.Join(names, ",")}, "--wait=0")
}

// step returns a command line of srun that starts a step. hostOptions select the hosts. taskOption is "-u" for a step
// of one task, and "--wait=0" for a step of several tasks. step adds the options that all steps need.
func (c Call) step(hostOptions []string, taskOption string) []string {
	if c.Part >= 0 {
		hostOptions = append(hostOptions, "--het-group="+strconv.Itoa(c.Part))
	}
	if overlaps(c.Help) {
		hostOptions = append(hostOptions, "--overlap")
	}
	return c.commandLine(append(hostOptions, "--mpi=none", "--cpu-bind=none", "--export=ALL", "--input=all", "--kill-on-bad-exit=0", "--mem=0", taskOption, "-J", "mpiexec")...)
}

// srunTaskLine returns srun's last message about a task on a host, such as "n2: task 1: Killed". It returns "" if
// there is no such message.
func srunTaskLine(stderr, host string) string {
	said := ""
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "srun: error: "); ok && strings.HasPrefix(rest, host+": task ") {
			said = rest
		}
	}
	return shortened(said)
}

// overlaps reports whether this version of srun can start a step on CPUs that other steps use. help is the output
// of srun --help.
func overlaps(help string) bool { return strings.Contains(help, "--overlap") }

// srunNoisePatterns lists strings that mark useless lines of srun's output. Such lines never say why srun has ended:
// they repeat other lines or describe srun's own state.
var srunNoisePatterns = []string{
	"lacks support for cpu binding", "Force Terminated", "forcing job termination", "got SIG", "Job step aborted", "Terminating StepId",
	"Terminating JobId", "launch/slurm:", "queued and waiting for resources", "has been allocated resources",
}

// srunMemoryPatterns lists strings with which Slurm reports a lack of memory. When memory has run out, Slurm also
// cancels the step and reports the cancellation.
var srunMemoryPatterns = []string{"oom_kill event", "oom-kill event", "exceeded memory limit", "memory limit exceeded", "Exceeded job memory limit",
	"Exceeded step memory limit", "Out Of Memory", "out of memory: "}

// srunLine returns the line of srun's output that says why srun has ended. It prefers a line about a lack of
// memory, then a line about a cancelled step, then srun's last error.
func srunLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if slices.ContainsFunc(srunMemoryPatterns, func(words string) bool { return strings.Contains(line, words) }) {
			_, said, _ := strings.Cut(line, "error: ")
			return shortened(strings.TrimSpace(cmp.Or(said, line)))
		}
	}
	if _, cancelled, found := strings.Cut(stderr, "error: *** "); found {
		line, _, _ := strings.Cut(cancelled, "\n")
		return shortened(strings.TrimSuffix(strings.TrimSpace(line), " ***"))
	}
	return lastOf(stderr, srunNoisePatterns, []string{"srun: ", "error: "})
}

// slurmState returns the state of a job as squeue reports it. A job that is completing is treated as ended; squeue
// shows such a job only with -t all.
func slurmState(run Run, job string) State {
	text, err := run("squeue", "-h", "-j", job, "-t", "all", "-o", "%T")
	switch state := strings.TrimSpace(text); {
	case err != nil || state == "":
		return Unknown
	case state == "RUNNING":
		return Runs
	case state == "SUSPENDED":
		return Suspended
	}
	return Over
}

// slurmKillWait returns KillWait from Slurm's configuration ("KillWait = 30 sec"), or 0 if the configuration cannot
// be read.
func slurmKillWait(run Run) time.Duration {
	text, err := run("scontrol", "show", "config")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 4 && words[0] == "KillWait" && words[3] == "sec" {
			seconds, err := strconv.ParseUint(words[2], 10, 16) // Slurm's own range
			if err == nil {
				return time.Duration(seconds) * time.Second
			}
		}
	}
	return 0
}

// slurmEnd returns the time at which Slurm will end the job. It returns the zero time if that time is unknown.
func slurmEnd(run Run, job string) time.Time {
	text, err := run("squeue", "-h", "-j", job, "-o", "%e")
	end, junk := time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(text), time.Local)
	if err != nil || junk != nil {
		return time.Time{} // "N/A", of a job without a limit
	}
	return end
}
