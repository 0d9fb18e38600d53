package starter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurm starts a step of its job for each host (tried with Slurm 22.05):
//
//	mpiexec --- srun ...... slurmctld, slurmd ...... slurmstepd --- /bin/sh --- keeper --- helper --- ranks
//	         '- srun ...... slurmctld, slurmd ...... slurmstepd --- ...
//
// srun carries the streams. Or one step is started for all hosts, which costs Slurm the same for a thousand as for
// one (srunOnce); its outputs come back in one, and so the helpers call us (package callback):
//
//	mpiexec --- srun ...... slurmctld, slurmd ...... slurmstepd on each --- /bin/sh --- keeper --- helper --- ranks
//	   '==================================== TLS ====================================='
//
// What Slurm does to the steps of its job it does to all ranks alike,
// those of this machine among them.
var slurm = Starter{
	System: "slurm", Program: "srun", Name: "Slurm", Within: "call mpiexec in a script of sbatch, or by salloc",
	Argv: srun, Help: "--help",
	Step: &Step{Argv: srunOnce, Host: "SLURMD_NODENAME", Near: "SLURM_LAUNCH_NODE_IPADDR", Line: srunTaskLine},
	Drops: []string{
		"SLURM_EXPORT_ENV", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_THREADS_PER_CORE",
		"SLURM_NTASKS*", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_STEP_*", "SLURM_STEPID", "SLURM_UNBUFFEREDIO", "SLURM_LABELIO",
		"SLURM_OVERCOMMIT", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_WHOLE",
	},
	Fanout: 32, Patience: 30 * time.Second, Here: true,
	Grace: 700 * time.Millisecond, Asked: true,
	Sayings: []Saying{
		{Text: "step creation temporarily disabled", Busy: true, Remedy: "lower --fanout"},
		{Text: "socket timed out", Busy: true, Remedy: "lower --fanout"},
		{Text: "unable to contact", Busy: true, Remedy: "lower --fanout"},
		{Text: "didn't accept task", Busy: true, Remedy: "lower --fanout"},
	},
	Remedy: "does srun -N1 -n1 -w HOST true work here? or use -launcher ssh",
	Silent: func(help string) (why, remedy string) {
		if overlaps(help) {
			return "", ""
		}
		return "srun waits for resources: this srun has no --overlap", "leave CPUs free, or use -launcher ssh"
	},
	Line:  srunLine,
	State: slurmState, KillWait: slurmKillWait,
}

// srun has the options of the 22.05 that it was tried with; what older ones do not know is left
// out (RM-30, RM-32).
func srun(c Call) []string {
	return c.step([]string{"-N1", "-n1", "-w", c.Host}, "-u")
}

// srunOnce is one step for many hosts, a task on each. It has no pseudoterminals (-u): what its tasks say are whole
// lines, which srun passes on as such.
func srunOnce(calls []Call) []string {
	c, names := calls[0], make([]string, len(calls))
	for i, call := range calls {
		names[i] = call.Host
	}
	n := strconv.Itoa(len(calls))
	return c.step([]string{"-N", n, "-n", n, "--ntasks-per-node=1", "-w", strings.Join(names, ",")}, "--wait=0")
}

// step is a call that says where its tasks are, what all steps of ours are told, and what belongs to their number.
func (c Call) step(where []string, number string) []string {
	if c.Part >= 0 {
		where = append(where, "--het-group="+strconv.Itoa(c.Part))
	}
	if overlaps(c.Help) {
		where = append(where, "--overlap")
	}
	return c.words(append(where, "--mpi=none", "--cpu-bind=none", "--export=ALL", "--input=all", "--kill-on-bad-exit=0", "--mem=0", number, "-J", "mpiexec")...)
}

// srunTaskLine is what srun has said of a task on a host, the last of it: "srun: error: n2: task 1: Killed".
func srunTaskLine(stderr, host string) string {
	said := ""
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "srun: error: "); ok && strings.HasPrefix(rest, host+": task ") {
			said = rest
		}
	}
	return shortened(said)
}

// overlaps reports whether this srun can start a step on CPUs that others use.
func overlaps(help string) bool { return strings.Contains(help, "--overlap") }

// srunChatter are lines of srun that tell what follows from others, or of its own state.
var srunChatter = []string{
	"lacks support for cpu binding", "Force Terminated", "forcing job termination", "got SIG", "Job step aborted", "Terminating StepId",
	"Terminating JobId", "launch/slurm:", "queued and waiting for resources", "has been allocated resources",
}

// srunMemory is what Slurm says when memory was short. It cancels the step then, and says that, too.
var srunMemory = []string{"oom_kill event", "oom-kill event", "exceeded memory limit", "memory limit exceeded", "Exceeded job memory limit",
	"Exceeded step memory limit", "Out Of Memory", "out of memory: "}

// srunLine is the line of srun's that tells why it has ended: that memory was short, or else that a step was cancelled, or else
// its last error.
func srunLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if slices.ContainsFunc(srunMemory, func(words string) bool { return strings.Contains(line, words) }) {
			_, said, _ := strings.Cut(line, "error: ")
			return shortened(strings.TrimSpace(cmp.Or(said, line)))
		}
	}
	if _, cancelled, found := strings.Cut(stderr, "error: *** "); found {
		line, _, _ := strings.Cut(cancelled, "\n")
		return shortened(strings.TrimSuffix(strings.TrimSpace(line), " ***"))
	}
	return lastOf(stderr, srunChatter, []string{"srun: ", "error: "})
}

// slurmState: a job that ends is neither running nor suspended. For Slurm it is over when its script
// was told so, and squeue shows it no more unless all states are wanted.
func slurmState(run func(name string, args ...string) (string, error), job string) State {
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

// slurmKillWait finds "KillWait                = 30 sec" in Slurm's configuration.
func slurmKillWait(run func(name string, args ...string) (string, error)) time.Duration {
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
