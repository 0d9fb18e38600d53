package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/sshx"
)

/*
A Slurm reaches the nodes of a job of Slurm's by srun, a step for each (rm-integration.md 3):

	mpiexec --- srun ...... slurmctld, slurmd ...... slurmstepd --- /bin/sh --- keeper --- helper --- ranks
	         '- srun ...... slurmctld, slurmd ...... slurmstepd --- ...

What slurmstepd has started it watches, with all that descends from it: so Slurm sees all
ranks, counts what they consume, and ends them when the job ends. srun carries the streams.
Its fields must not change after the first Dial.
*/
type Slurm struct {
	Self    Self
	Srun    string                            // the program
	Args    []string                          // -launcher-args, already split; behind ours, so that they win
	Env     []string                          // ours; srun does not get all of it
	Help    func() string                     // what srun says of its options; called when the first host is dialled
	Part    func(Host) (group int, err error) // of a heterogeneous job, -1: it has none; or why the host is not the job's
	Timeout time.Duration                     // how long nothing may move before the helper speaks; 0: 10 s
	Retries int                               // attempts where Slurm is busy; 0: 4
	Pacer   *sshx.Pacer                       // says how many may be in the set-up phase at once
	Log     zerolog.Logger
}

var _ Way = (*Slurm)(nil)

// Dial starts a step on each host of a set.
func (s *Slurm) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return Each(ctx, hosts, s.dial)
}

// Route is the command that would be run.
func (s *Slurm) Route(host Host) (string, error) {
	argv, err := s.argv(host)
	return "by " + strings.Join(argv, " "), err
}

// argv calls srun for a host (RM-30). Its options are those of the 22.05 that it was tried with;
// what older ones do not know is left out (RM-32).
func (s *Slurm) argv(host Host) ([]string, error) {
	group, err := s.Part(host)
	if err != nil {
		return nil, err
	}
	argv := []string{s.Srun, "-N1", "-n1", "-w", host.alias()}
	if group >= 0 {
		argv = append(argv, "--het-group="+strconv.Itoa(group))
	}
	if s.overlaps() {
		argv = append(argv, "--overlap")
	}
	argv = append(argv, "--mpi=none", "--cpu-bind=none", "--export=ALL", "-u", "--input=all", "--kill-on-bad-exit=0", "--mem=0", "-J", "mpiexec")
	return slices.Concat(argv, s.Args, []string{shell}), nil
}

// overlaps reports whether this srun can start a step on CPUs that others use.
func (s *Slurm) overlaps() bool { return strings.Contains(s.Help(), "--overlap") }

// dial starts srun for a host.
func (s *Slurm) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	argv, err := s.argv(host)
	if err != nil {
		return nil, err
	}
	r := remoteShell{self: s.Self, env: srunEnv(s.Env), timeout: cmp.Or(max(s.Timeout, 0), defaultTimeout), retries: s.Retries,
		pacer: s.Pacer, log: s.Log, missing: "use -launcher ssh", stop: endSrun, words: srunWords}
	conn, err := r.dial(ctx, host, argv)
	var e *Error
	if errors.As(err, &e) && e.Kind == KindReach && !s.overlaps() && e.Step == "connect" {
		e.Why, e.Remedy = "srun waits for resources: this srun has no --overlap", "leave CPUs free, or use -launcher ssh"
	}
	return conn, err
}

// srunDrops lists variables that srun would take for options of its own: those of the step or
// batch script around us, which mean that one and not ours (RM-32). A trailing * stands for any rest.
var srunDrops = []string{
	"SLURM_EXPORT_ENV", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_THREADS_PER_CORE",
	"SLURM_NTASKS*", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_STEP_*", "SLURM_STEPID", "SLURM_UNBUFFEREDIO", "SLURM_LABELIO",
	"SLURM_OVERCOMMIT", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_WHOLE",
}

// srunEnv is the environment of srun.
func srunEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return slices.ContainsFunc(srunDrops, func(drop string) bool {
			prefix, wild := strings.CutSuffix(drop, "*")
			return name == drop || wild && strings.HasPrefix(name, prefix)
		})
	})
}

// srunGrace is how long an srun whose streams were closed is given to end: its task has seen
// that, and ends.
const srunGrace = 700 * time.Millisecond

// endSrun sees to the end of srun. One that still waits for its step is asked to end, which
// gives the step back. Once the helper runs, it is left to it how to end its ranks: srun, if it
// were asked, would have them killed. Killed itself, it takes no part in that any more.
func endSrun(p *localCommand, spoken bool) {
	if !spoken {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	}
	if p.within(srunGrace) {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.within(killGrace)
}

// srunWords reads what srun says.
var srunWords = lastWordsOf{verdict: srunVerdict, why: func(status error, stderr string) string {
	if line := srunLine(stderr); line != "" {
		return "srun: " + line
	}
	return "srun: " + howItEnded(status)
}}

// srunVerdict says what it means that srun has ended before the helper spoke. There is no SSH
// in it; what Slurm says when it has too much to do is worth another try (RM-35).
func srunVerdict(stderr string, exit int) Verdict {
	for _, busy := range []string{"step creation temporarily disabled", "socket timed out", "unable to contact", "didn't accept task"} {
		if strings.Contains(strings.ToLower(stderr), busy) {
			return Verdict{KindBusy, "srun", srunLine(stderr), "lower --fanout"}
		}
	}
	why := cmp.Or(srunLine(stderr), silentEnd(exit))
	return Verdict{Kind: KindOther, Step: "srun", Why: why, Hint: "does srun -N1 -n1 -w HOST true work here? or use -launcher ssh"}
}

// srunChatter are lines of srun that tell what follows from others, or of its own state.
var srunChatter = []string{
	"lacks support for cpu binding", "Force Terminated", "forcing job termination", "got SIG", "Job step aborted", "Terminating StepId",
	"Terminating JobId", "launch/slurm:", "queued and waiting for resources", "has been allocated resources",
}

// srunLine is the line of srun's that tells why it has ended: that a step was cancelled, or else
// its last error, without what stands before each (RM-42). Empty: there is none.
func srunLine(stderr string) string {
	last := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if slices.ContainsFunc(srunChatter, func(text string) bool { return strings.Contains(line, text) }) {
			continue
		}
		if strings.Contains(line, "error: *** ") {
			_, line, _ = strings.Cut(line, "error: *** ")
			return lastLine(strings.TrimSuffix(line, " ***"))
		}
		last = cmp.Or(line, last)
	}
	for _, prefix := range []string{"srun: ", "error: "} {
		last = strings.TrimPrefix(last, prefix)
	}
	if last == "" {
		return ""
	}
	return lastLine(last)
}

// NotInJob is why a host is not reached by a batch system's starter (M7).
func NotInJob(host, system, number string) error {
	return &Error{Host: host, Step: "config", Kind: KindConfig, Why: fmt.Sprintf("not part of %s job %s", system, number),
		Remedy: "add it to the allocation, or use -launcher ssh"}
}
