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

// This file chooses between a batch system's own starter and ssh. With its own starter, a batch system accounts for all
// ranks and can end them; with ssh, it does so only for ranks on this machine. Package batch knows the starters and
// their arguments.

// findStarter sets the starter of this job, if it has one. A starter is a program of the batch system that starts
// helpers on hosts.
func (c *invocation) findStarter() error {
	s, err := c.inputs.FindStarter(c.line.WithoutRemoteShell())
	if err != nil || s.System == nil {
		return err
	}
	if s.Attach {
		c.useAttach(s)
		return nil
	}
	by := s.System.Starter
	hasRemote := slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local })
	if len(c.req.Nodes) == 1 && !hasRemote || c.line.Job.Simulate > 0 {
		return nil
	}
	path, err := c.findStarterProgram(by)
	switch {
	case err == nil:
	case s.ByName && !c.line.Job.BatchOption().Fallback:
		return &usererr.Error{Text: fmt.Sprintf("-launcher %s: the program %s was not found in the PATH", c.line.Job.Launcher, by.Program), Remedy: "add its directory to the PATH, or use -launcher ssh"}
	default:
		c.warnings = append(c.warnings, job.Note{Text: fmt.Sprintf("warning: %s was not found, so mpiexec uses ssh: %s will not account for ranks on %s", by.Program, s.System.Title, foldRemoteNodes(c.req.Nodes))})
		return nil
	}
	c.logUntried(by.Program, s.System)
	s.OneStep = s.System.Together(c.line.Job.Launcher, len(c.req.Nodes), c.req.SkipUnreachable)
	s.Use(&c.req)
	c.starter, c.starterPath = s, path
	c.starterOptions = sync.OnceValue(func() string {
		if by.Help == "" {
			return ""
		}
		text, _ := exec.Command(path, by.Help).Output() // without output no option is supported
		return string(text)
	})
	if startsRanks(c.line) {
		go c.starterOptions() // takes about as long as the work until the text is needed
	}
	c.env.GreetTimeout = max(c.env.GreetTimeout, by.StartTimeout)
	if s.System.State != nil {
		c.env.BatchState = func() batch.State { return s.System.State(c.runBatchTool, s.Job) }
	}
	return nil
}

// logUntried logs that mpiexec calls a program of a batch system that it was never tested with. mpiexec only follows
// the manual of the program.
func (c *invocation) logUntried(program string, s *batch.System) {
	if s.Untried {
		c.env.Log.Info().Msgf("mpiexec calls %s as the manuals of %s describe, but mpiexec was never tested with this batch system", program, s.Title)
	}
}

// batchLogins returns the logins to the SSH servers that the batch job has started, or nil if it has
// started none.
func (c *invocation) batchLogins() batchLogins {
	find := c.inputs.Logins(c.line.Job)
	if find == nil {
		return nil
	}
	return func(host string) (transport.SSHLogin, bool) {
		login, found := find(host)
		return transport.SSHLogin(login), found
	}
}

// findStarterProgram returns the path of a starter. It looks in the batch system's own directory if that is known,
// and otherwise in PATH.
func (c *invocation) findStarterProgram(s *batch.Starter) (path string, err error) {
	var folders []string
	if s.Folders != nil {
		folders = slices.DeleteFunc(s.Folders(c.inputs.BatchInputs()), func(folder string) bool { return !filepath.IsAbs(folder) })
	}
	for _, program := range []string{s.Program, s.Second} {
		if program == "" {
			continue
		}
		for _, folder := range folders {
			if path, err = exec.LookPath(filepath.Join(folder, program)); err == nil {
				return path, nil
			}
		}
		if path, err = exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return path, err
}

// runBatchTool runs a program of the batch system, such as squeue, and logs its output.
func (c *invocation) runBatchTool(name string, args ...string) (string, error) {
	text, err := runBatchProgram(name, args...)
	c.env.Log.Debug().Str("program", name).Str("said", strings.TrimSpace(text)).Err(err).Msg("mpiexec called a program of the batch system")
	return text, err
}

// foldRemoteNodes returns the remote nodes as a folded host list, such as n[1-3].
func foldRemoteNodes(nodes []job.NodeDef) string {
	var names []string
	for _, n := range nodes {
		if !n.Local {
			names = append(names, n.Name)
		}
	}
	return hostlist.Fold(names)
}

// starterWithFallback returns the transport that uses the batch system's starter. If the starter fails and
// the user allows it, the hosts are reached by the transports in fallbacks.
func (c *invocation) starterWithFallback(self transport.HelperBinary, fallbacks transport.Transports) transport.Transport {
	first := c.starterTransport(self)
	if !c.line.Job.BatchOption().Fallback {
		return first
	}
	isLocal := func(host transport.Host) bool {
		return c.inputs.Local.Matches(host.Name) || host.Alias != "" && c.inputs.Local.Matches(host.Alias)
	}
	return &transport.Fallback{First: first, Second: transport.LocalOverride{Transports: fallbacks, IsLocal: isLocal}, Failed: c.reportFallback}
}

// reportFallback warns the user that the batch system's starter has failed on a host. mpiexec then uses ssh for all
// hosts, and the batch system does not account for the ranks. reportFallback sets fields of c without a lock, because
// no goroutine reads them before the first host has been reached.
func (c *invocation) reportFallback(host transport.Host, err error) {
	why := err.Error()
	var e *transport.Error
	if errors.As(err, &e) {
		why = e.Why
	}
	c.req.RM.Starter, c.req.RM.Integration = "ssh", job.LooseIntegration
	c.env.Report(fmt.Sprintf("warning: %s failed on %s (%s). mpiexec uses ssh for all hosts, so %s will not account for their ranks", c.starter.System.Starter.Program, host.Name, why, c.starter.System.Title))
}

// starterTransport returns the transport that uses the batch system's starter, and never ssh.
func (c *invocation) starterTransport(self transport.HelperBinary) transport.Transport {
	j, s := c.line.Job, c.starter
	by := s.System.Starter
	fanout := min(j.Fanout, by.Fanout)
	if _, given := c.line.Origin("fanout"); given {
		fanout = j.Fanout
	}
	perHost := &transport.ByStarter{
		Self: self, System: s.System, Program: c.starterPath, Args: c.line.WithoutRemoteShell().LauncherArgs, Env: c.sys.Environ,
		StarterHelp: c.starterOptions,
		StarterCall: func(host transport.Host) (call batch.Call, err error) {
			for _, name := range []string{host.Name, host.Alias} {
				if call, found := s.FindHost(name); found {
					return call, nil
				}
			}
			return call, transport.NotInJob(host.Name, s.System.Name, s.Job)
		},
		Timeout: max(connectTimeout(j), by.StartTimeout), Shell: max(shellTimeout(j), by.StartTimeout), Retries: j.Retries, Pacer: &sshx.Pacer{Fanout: fanout}, Log: c.env.Log,
		DialBack: s.System.HelpersDialBack(j.Launcher), Ports: dialback.Ports(j.PortRange), Warn: c.env.Report,
	}
	if !s.OneStep {
		return perHost
	}
	return &transport.OneStep{PerHost: perHost}
}

// batchToolTimeout is how long a program of the batch system, such as squeue, may run (rule RM-4).
const batchToolTimeout = 10 * time.Second

// maxBatchToolOutput is the maximum number of bytes that are read from the output of a batch system's program, such as
// squeue.
const maxBatchToolOutput = 16 << 20

// batchToolTries is the maximum number of times that a batch system's program is started. It is started again only if
// a signal has killed it. A batch system that ends its job signals all processes of the job's script, including an
// squeue that mpiexec has just started.
const batchToolTries = 3

// runBatchProgram runs a program of the batch system without input, and returns its output.
func runBatchProgram(name string, args ...string) (text string, err error) {
	for range batchToolTries {
		var killed bool
		if text, killed, err = runBatchProgramOnce(name, args...); !killed {
			break
		}
	}
	return text, err
}

// runBatchProgramOnce runs a program once. killed is true if a signal has ended it.
func runBatchProgramOnce(name string, args ...string) (text string, killed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), batchToolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out, errs := &boundedBuffer{limit: maxBatchToolOutput}, &boundedBuffer{limit: 64 << 10}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", false, fmt.Errorf("the command %s was not found", name)
	case ctx.Err() != nil:
		return "", false, fmt.Errorf("the command %s did not end within %v", name, batchToolTimeout)
	case err != nil:
		killed = cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		return "", killed, fmt.Errorf("%s: %s", name, lastLine(errs.String(), err.Error()))
	case out.truncated:
		return "", false, fmt.Errorf("the command %s printed more than %d MB", name, maxBatchToolOutput>>20)
	}
	return out.String(), false, nil
}

// lastLine returns the last non-blank line of text. If there is none, it returns fallback.
func lastLine(text, fallback string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return fallback
}

// A boundedBuffer keeps the bytes written to it until it contains limit bytes. It drops all further bytes.
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

// waitBesideLauncher waits until a signal arrives. It is called in copies of mpiexec that a batch system has
// started in addition to the one that launches the job. They only keep their slots occupied (rule RM-10,
// HTCondor's parallel universe).
func (c *invocation) waitBesideLauncher(ctx context.Context) (int, error) {
	if startsRanks(c.line) {
		select {
		case <-ctx.Done():
		case <-c.sys.Signals:
		}
	}
	return job.ExitOK, nil
}

// reportUnseenRanks arranges that mpiexec reports ranks for which the batch system does not account, as soon as the
// plan is made. Ranks on hosts that were not reached by the batch system's starter are only logged, with -v (rule
// RM-30). If the starter was used on a host, but no ancestor of the ranks belongs to the batch system, mpiexec prints
// a warning (rule RM-45).
func (c *invocation) reportUnseenRanks() {
	rm := c.req.RM
	if rm == nil || rm.Job == "" {
		return
	}
	c.onPlan(func(snap job.Snapshot, p job.Plan) {
		if !rm.ControlsHelpers() {
			c.reportLooseHosts(p)
		} else if notHeld := nodesNotHeld(rm, snap, p); len(notHeld) > 0 && c.starter.System != nil && !c.starter.System.Untried {
			c.env.Report(fmt.Sprintf("warning: %s does not control the ranks on %s, because they do not descend from %s", batch.Title(rm.Name), hostlist.Fold(notHeld), rm.Holder()))
		}
	})
}

// onPlan adds a function that is called as soon as the plan is made.
func (c *invocation) onPlan(do func(job.Snapshot, job.Plan)) {
	before := c.env.OnPlan
	c.env.OnPlan = func(snap job.Snapshot, p job.Plan) {
		if before != nil {
			before(snap, p)
		}
		do(snap, p)
	}
}

// nodesNotHeld returns the names of nodes on which the batch system does not control the ranks, because none of their
// ancestors is a process of the batch system. It ignores nodes for which this is unknown.
func nodesNotHeld(rm *job.RM, snap job.Snapshot, p job.Plan) (names []string) {
	for _, n := range p.Nodes {
		if n.Node < 0 || n.Node >= len(snap.Nodes) { // not probed
			continue
		}
		if held := rm.Accounts(snap.Nodes[n.Node].Holder); held != nil && !*held {
			names = append(names, n.Name)
		}
	}
	return names
}

// reportLooseHosts logs the number of hosts on which the batch system does not account for the ranks.
func (c *invocation) reportLooseHosts(p job.Plan) {
	rm, remote := c.req.RM, 0
	if rm.Integration != job.LooseIntegration { // known only now, as a starter may have failed
		return
	}
	for _, n := range p.Nodes {
		if slices.ContainsFunc(c.req.Nodes, func(def job.NodeDef) bool { return def.Name == n.Name && !def.Local }) {
			remote++
		}
	}
	if remote > 0 {
		c.env.Log.Info().Msgf("%s does not see the ranks on %s, because %s started them", batch.Title(rm.Name), text.Count(remote, "host"), rm.Starter)
	}
}
