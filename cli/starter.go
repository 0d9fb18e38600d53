package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"remshell/batch"
	"remshell/hostlist"
	"remshell/job"
	"remshell/sshx"
	"remshell/text"
	"remshell/transport"
	"remshell/transport/dialback"
	"remshell/usererr"
)

// This file chooses between a batch system's own starter, by which it sees all ranks, counts what
// they consume and ends them, and ssh, by which it sees those of this machine alone. Which starters
// there are, and how each is called, is package batch's.

// findStarter finds the starter of the batch system, if this job's hosts are reached by one.
func (c *invocation) findStarter() error {
	s, err := c.inputs.FindStarter(c.line.WithoutRemoteShell())
	if err != nil || s.System == nil {
		return err
	}
	if s.System.Attach != nil {
		c.useAttach(s)
		return nil
	}
	by := s.System.Starter
	far := slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local })
	if len(c.req.Nodes) == 1 && !far || c.line.Job.Simulate > 0 {
		return nil
	}
	path, err := c.findStarterProgram(by)
	switch {
	case err == nil:
	case s.ByName && !c.line.Job.BatchOption().Fallback:
		return &usererr.Error{Text: fmt.Sprintf("-launcher %s: %s not found in the PATH", c.line.Job.Launcher, by.Program), Remedy: "put it there, or use -launcher ssh"}
	default:
		c.warnings = append(c.warnings, job.Note{Text: fmt.Sprintf("warning: %s not found, using ssh: %s will not account for ranks on %s", by.Program, s.System.Name, foldRemoteNodes(c.req.Nodes))})
		return nil
	}
	c.tellUntried(by.Program, s.System)
	s.OneStep = s.System.Together(c.line.Job.Launcher, len(c.req.Nodes), c.req.SkipUnreachable)
	s.Use(&c.req)
	c.starter, c.starterPath = s, path
	c.starterOptions = sync.OnceValue(func() string {
		if by.Help == "" {
			return ""
		}
		text, _ := exec.Command(path, by.Help).Output() // one that says nothing has no options we need
		return string(text)
	})
	if startsRanks(c.line.Job) {
		go c.starterOptions() // it takes as long as all that is done here until it is wanted
	}
	c.env.GreetTimeout = max(c.env.GreetTimeout, by.Patience)
	if s.System.State != nil {
		c.env.BatchState = func() batch.State { return s.System.State(c.runBatchTool, s.Job) }
	}
	return nil
}

// tellUntried tells that a program of a batch system's is called which nobody has seen work.
func (c *invocation) tellUntried(program string, s *batch.System) {
	if s.Untried {
		c.env.Log.Info().Msgf("%s is called as the manuals of %s have it; nobody has told that it works", program, s.Title)
	}
}

// batchLogins are those of the batch system's job.
func (c *invocation) batchLogins() batchLogins {
	find := c.inputs.Logins(c.line.Job)
	if find == nil {
		return nil
	}
	return func(host string) (transport.SSHLogin, bool) {
		login, held := find(host)
		return transport.SSHLogin(login), held
	}
}

// findStarterProgram finds the program of a starter: where the batch system says that its own are, and else in the PATH. What a
// site has in the PATH may be a script that finds that out anew for each call: that of Debian's Grid Engine runs a compiler.
func (c *invocation) findStarterProgram(s *batch.Starter) (path string, err error) {
	if folder := c.sys.getenv(s.Folder); filepath.IsAbs(folder) {
		if path, err = exec.LookPath(filepath.Join(folder, s.Program)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(s.Program)
}

// runBatchTool runs a program of the batch system's.
func (c *invocation) runBatchTool(name string, args ...string) (string, error) {
	text, err := runBatchProgram(name, args...)
	c.env.Log.Debug().Str("program", name).Str("said", strings.TrimSpace(text)).Err(err).Msg("asked the batch system")
	return text, err
}

// foldRemoteNodes names those that are not this machine.
func foldRemoteNodes(nodes []job.NodeDef) string {
	var names []string
	for _, n := range nodes {
		if !n.Local {
			names = append(names, n.Name)
		}
	}
	return hostlist.Fold(names)
}

// starterWithFallback is the way by the batch system's starter, and by others if that fails and the user allows it.
func (c *invocation) starterWithFallback(self transport.HelperBinary, others transport.Transports) transport.Transport {
	way := c.starterTransport(self)
	if !c.line.Job.BatchOption().Fallback {
		return way
	}
	here := func(host transport.Host) bool {
		return c.inputs.Local.Matches(host.Name) || host.Alias != "" && c.inputs.Local.Matches(host.Alias)
	}
	return &transport.Fallback{First: way, Second: transport.LocalOverride{Transports: others, IsLocal: here}, Failed: c.reportFallback}
}

// reportFallback tells that the batch system's starter has failed on a host, and that it sees none of the ranks now (M11). No
// host was told to be reached yet, so nobody reads meanwhile what is noted here.
func (c *invocation) reportFallback(host transport.Host, err error) {
	why := err.Error()
	var e *transport.Error
	if errors.As(err, &e) {
		why = e.Why
	}
	c.req.RM.Starter, c.req.RM.Integration = "ssh", job.LooseIntegration
	c.env.Report(fmt.Sprintf("warning: %s failed on %s (%s), using ssh for all hosts: %s will not account for them", c.starter.System.Starter.Program, host.Name, why, c.starter.System.Name))
}

// starterTransport is the way by the batch system's starter alone.
func (c *invocation) starterTransport(self transport.HelperBinary) transport.Transport {
	j, s := c.line.Job, c.starter
	by := s.System.Starter
	fanout := min(j.Fanout, by.Fanout)
	if _, given := c.line.Origin("fanout"); given {
		fanout = j.Fanout
	}
	each := &transport.ByStarter{
		Self: self, System: s.System, Program: c.starterPath, Args: c.line.WithoutRemoteShell().LauncherArgs, Env: c.sys.Environ,
		StarterHelp: c.starterOptions,
		StarterCall: func(host transport.Host) (call batch.Call, err error) {
			for _, name := range []string{host.Name, host.Alias} {
				if call, held := s.FindHost(name); held {
					return call, nil
				}
			}
			return call, transport.NotInJob(host.Name, s.System.Name, s.Job)
		},
		Timeout: max(connectTimeout(j), by.Patience), Shell: max(shellTimeout(j), by.Patience), Retries: j.Retries, Pacer: &sshx.Pacer{Fanout: fanout}, Log: c.env.Log,
		DialBack: s.System.Calls(j.Launcher), Ports: dialback.Ports(j.PortRange), Warn: c.env.Report,
	}
	if !s.OneStep {
		return each
	}
	return &transport.OneStep{PerHost: each}
}

// batchToolTimeout is how long a batch system's program may take to answer (RM-4).
const batchToolTimeout = 10 * time.Second

// maxBatchToolOutput is how much of its answer is read.
const maxBatchToolOutput = 16 << 20

// batchToolTries is how often a program is run that a signal ends. A batch system that ends its job signals all processes of
// its script, and with us a squeue that we ask just then.
const batchToolTries = 3

// runBatchProgram runs a batch system's own program without input, and returns what it prints.
func runBatchProgram(name string, args ...string) (text string, err error) {
	for range batchToolTries {
		var killed bool
		if text, killed, err = runBatchProgramOnce(name, args...); !killed {
			break
		}
	}
	return text, err
}

// runBatchProgramOnce is runProgram, once.
func runBatchProgramOnce(name string, args ...string) (text string, killed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), batchToolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out, errs := &boundedBuffer{limit: maxBatchToolOutput}, &boundedBuffer{limit: 64 << 10}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", false, fmt.Errorf("%s: command not found", name)
	case ctx.Err() != nil:
		return "", false, fmt.Errorf("%s did not answer within %v", name, batchToolTimeout)
	case err != nil:
		killed = cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		return "", killed, fmt.Errorf("%s: %s", name, lastLine(errs.String(), err.Error()))
	case out.truncated:
		return "", false, fmt.Errorf("%s printed more than %d MB", name, maxBatchToolOutput>>20)
	}
	return out.String(), false, nil
}

// lastLine is the last line of a text that is not blank, if there is one.
func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return otherwise
}

// A boundedBuffer keeps the beginning of what is written.
type boundedBuffer struct {
	bytes.Buffer
	limit     int
	truncated bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.limit-b.Len())]
	b.truncated = b.truncated || len(keep) < len(p)
	b.Buffer.Write(keep)
	return len(p), nil
}

// waitBesideLauncher is what a copy of us does that a batch system has started beside the one that starts the
// job: it keeps its place until it is told to go (RM-10, HTCondor's parallel universe).
func (c *invocation) waitBesideLauncher(ctx context.Context) (int, error) {
	if startsRanks(c.line.Job) {
		select {
		case <-ctx.Done():
		case <-c.sys.Signals:
		}
	}
	return job.ExitOK, nil
}

// reportUnseenRanks has it told which ranks of a plan the batch system does not see. It counts, limits and ends only what its own
// starter has started, or its job's script: with -v how many hosts are reached otherwise (RM-30), and
// always on which of those that it has started nothing of it is above the ranks (RM-45).
func (c *invocation) reportUnseenRanks() {
	rm := c.req.RM
	if rm == nil || rm.Job == "" {
		return
	}
	c.onPlan(func(snap job.Snapshot, p job.Plan) {
		if !rm.ControlsHelpers() {
			c.reportLooseHosts(p)
		} else if lost := nodesNotHeld(rm, snap, p); len(lost) > 0 && c.starter.System != nil && !c.starter.System.Untried {
			c.env.Report(fmt.Sprintf("warning: %s does not hold the ranks on %s (no %s above them)", rm.Name, hostlist.Fold(lost), rm.Holder()))
		}
	})
}

// onPlan has something more done as soon as there is a plan.
func (c *invocation) onPlan(do func(job.Snapshot, job.Plan)) {
	before := c.env.OnPlan
	c.env.OnPlan = func(snap job.Snapshot, p job.Plan) {
		if before != nil {
			before(snap, p)
		}
		do(snap, p)
	}
}

// nodesNotHeld are those nodes of a plan where the batch system holds nothing, although its starter has started it.
func nodesNotHeld(rm *job.RM, snap job.Snapshot, p job.Plan) (names []string) {
	for _, n := range p.Nodes {
		if n.Node < 0 || n.Node >= len(snap.Nodes) { // nobody has looked there
			continue
		}
		if held := rm.Accounts(snap.Nodes[n.Node].Holder); held != nil && !*held {
			names = append(names, n.Name)
		}
	}
	return names
}

// reportLooseHosts tells on how many hosts the batch system does not see the ranks.
func (c *invocation) reportLooseHosts(p job.Plan) {
	rm, far := c.req.RM, 0
	if rm.Integration != job.LooseIntegration { // known now: a starter may have failed
		return
	}
	for _, n := range p.Nodes {
		if slices.ContainsFunc(c.req.Nodes, func(def job.NodeDef) bool { return def.Name == n.Name && !def.Local }) {
			far++
		}
	}
	if far > 0 {
		c.env.Log.Info().Msgf("ranks on %s are not visible to %s (started by %s)", text.Count(far, "host"), rm.Name, rm.Starter)
	}
}
