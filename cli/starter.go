package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/cli/request"
	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/reach"
	"remshell/sshx"
)

// This file chooses between a batch system's own starter, by which it sees all ranks, counts what
// they consume and ends them, and ssh, by which it sees those of this machine alone.

// starterPatience is how long a batch system's starter is given, at least, where ssh has ten
// seconds (RM-35).
const starterPatience = 30 * time.Second

// starterFanout is how many starters of Slurm's are under way at once, unless the user says more.
const starterFanout = 32

// useStarter finds the starter of the batch system, if this job's hosts are reached by one. Then
// this machine is reached so as well, if it is not the only one: what the batch system does to the
// steps of its job it does to all ranks alike (RM-33).
func (c *call) useStarter() error {
	s, err := c.world.Starter(c.line.Job)
	if err != nil || s.System == "" {
		return err
	}
	far := slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local })
	if len(c.req.Nodes) == 1 && !far || c.line.Job.Simulate > 0 {
		return nil
	}
	path, err := exec.LookPath("srun")
	switch {
	case err == nil:
	case s.Asked:
		return &fault.Error{Text: "-launcher slurm: srun not found in the PATH", Remedy: "put it there, or use -launcher ssh"}
	default:
		c.warnings = append(c.warnings, job.Note{Text: "warning: srun not found, using ssh: slurm will not account for ranks on " + foldNodes(c.req.Nodes)})
		return nil
	}
	c.starter, c.srun = s, path
	c.line.Job.NoAutofork = true
	warnings := c.warnings
	c.req, _, err = request.Make(c.line, c.world)
	c.warnings = warnings
	c.env.Greet = max(c.env.Greet, starterPatience)
	if c.req.RM == nil { // the user has named hosts of it
		c.req.RM = s.RM()
	}
	c.req.RM.Starter, c.req.RM.Grade = "srun", job.Tight
	c.env.RMEnds = c.slurmEnds
	return err
}

// foldNodes names those that are not this machine.
func foldNodes(nodes []job.NodeDef) string {
	var names []string
	for _, n := range nodes {
		if !n.Local {
			names = append(names, n.Name)
		}
	}
	return hostlist.Fold(names)
}

// bySlurm is the way by srun.
func (c *call) bySlurm(self reach.Self) *reach.Slurm {
	j := c.line.Job
	fanout := min(j.Fanout, starterFanout)
	if _, given := c.line.Origin("fanout"); given {
		fanout = j.Fanout
	}
	return &reach.Slurm{
		Self: self, Srun: c.srun, Args: j.LauncherArgs, Env: c.sys.Environ,
		Help: sync.OnceValue(func() string {
			text, _ := exec.Command(c.srun, "--help").Output() // one that says nothing has no options we need
			return string(text)
		}),
		Part: func(host reach.Host) (group int, err error) {
			for _, name := range []string{host.Name, host.Alias} {
				if group, held := c.starter.Part(name); held {
					return group, nil
				}
			}
			return -1, reach.NotInJob(host.Name, c.starter.System, c.starter.Job)
		},
		Timeout: max(connectTimeout(j), starterPatience), Retries: j.Retries, Pacer: &sshx.Pacer{Fanout: fanout}, Log: c.env.Log,
	}
}

// slurmEnds asks Slurm whether it is ending its job: then it is neither running nor suspended. For Slurm
// a job is over when its script was told so, and squeue shows it no more unless all states are wanted.
// What cannot be found out is not so.
func (c *call) slurmEnds() bool {
	text, err := runProgram("squeue", "-h", "-j", c.starter.Job, "-t", "all", "-o", "%T")
	state := strings.TrimSpace(text)
	c.env.Log.Debug().Str("state", state).Err(err).Msg("asked squeue")
	return err == nil && state != "" && state != "RUNNING" && state != "SUSPENDED"
}

// askTime is how long a batch system's program may take to answer (RM-4).
const askTime = 10 * time.Second

// maxAnswer is how much of its answer is read.
const maxAnswer = 16 << 20

// runProgram runs a batch system's own program without input, and returns what it prints.
func runProgram(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out, errs := &bounded{most: maxAnswer}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s: command not found", name)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not answer within %v", name, askTime)
	case err != nil:
		return "", fmt.Errorf("%s: %s", name, lastLine(errs.String(), err.Error()))
	case out.full:
		return "", fmt.Errorf("%s printed more than %d MB", name, maxAnswer>>20)
	}
	return out.String(), nil
}

// lastLine is the last line of a text that is not blank, if there is one.
func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return otherwise
}

// A bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	most int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.most-b.Len())]
	b.full = b.full || len(keep) < len(p)
	b.Buffer.Write(keep)
	return len(p), nil
}

// idle is what a copy of us does that a batch system has started beside the one that starts the
// job: it keeps its place until it is told to go (RM-10, HTCondor's parallel universe).
func (c *call) idle(ctx context.Context) (int, error) {
	if starts(c.line.Job) {
		select {
		case <-ctx.Done():
		case <-c.sys.Signals:
		}
	}
	return job.ExitOK, nil
}
