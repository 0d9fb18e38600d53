package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/stdio"
	"remshell/simulate"
	"remshell/trace"
	"remshell/transport"
	"remshell/userfile"
)

// An invocation is one use of mpiexec that concerns hosts: what is asked for, and by what it is answered.
// perform makes it; the functions that answer only read it, but for what they add to env.
type invocation struct {
	sys            System
	line           option.Line
	inputs         request.Inputs
	req            job.Request
	warnings       []job.Note
	env            launch.Env
	ownErrorCode   int // exit code of our own failures
	starter        request.Starter
	starterPath    string        // the starter's, by its path; empty: hosts are not reached by one
	starterOptions func() string // what that tells of its options
	attached       *attacher     // nil: the shells on nodes are not to attach themselves to a batch system's job
	args           []string      // the words of the line
	saved          *savedJobFile // nil: the job is not saved, and was not
	requestStep    trace.Step    // until it is known what is asked for
}

// runWithHosts does what concerns hosts, and says what went wrong in the place of our own lines,
// between those of the ranks.
func runWithHosts(ctx context.Context, args []string, line option.Line, sys System, ours int) (code int, err error) {
	out, errs := newPrinters(line.Job, sys)
	code, err = recoverPanic(line.Job, errs, func() (int, error) {
		c := invocation{sys: sys, line: line, ownErrorCode: ours, args: args}
		defer func() { c.saved.release() }()
		return c.answer(ctx, out, errs)
	})
	sys.newMessagePrinter(errs, line.Job).printError(err)
	flushPrinter(errs)
	if err == nil && code == job.ExitOK {
		err = stderrLost(errs)
	}
	if err == nil {
		return code, nil
	}
	return 0, reportedError{err}
}

// stderrLost returns why something of what was to be read on standard error is lost. It is nil if nothing is, or if whoever
// has read it has closed it.
func stderrLost(errs *stdio.Printer) error {
	if lost := errs.WriteError(); lost != nil && !errors.Is(lost, syscall.EPIPE) {
		return lost
	}
	return nil
}

// A panicError is a fault of our own that nobody has foreseen.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("internal error: %v", e.value) }

func (e *panicError) Hint() string { return "please report it, with what -v says" }

// recoverPanic makes an error of a panic, whose stack goes to the log. On its way up, terminal and
// connections were given back, and so the helpers end the ranks (TRUST-35).
func recoverPanic(j option.JobOptions, errs io.Writer, do func() (int, error)) (code int, err error) {
	defer func() {
		if why := recover(); why != nil {
			log := newLogger(errs, j.Verbosity, false)
			log.Info().Msg(string(debug.Stack()))
			err = &panicError{why}
		}
	}()
	return do()
}

// answer finds out what is wanted where, makes the way there ready, and answers.
func (c *invocation) answer(ctx context.Context, out, errs *stdio.Printer) (code int, err error) {
	if c.line.Job.Resume != "" {
		if err := c.readSavedJob(); err != nil {
			return 0, err
		}
	}
	allocation, err := c.locateHosts()
	if err != nil {
		return 0, err
	}
	if g := c.inputs.Allocation; g != nil && g.Idle {
		return c.waitBesideLauncher(ctx)
	}
	j := c.line.Job
	if c.isLikelyLocal() {
		c.sys.probeAhead = startLocalProbe(c.sys.Environ)
	}
	c.env = launchEnv(c.line, c.sys, out, errs)
	traced, err := c.startTrace()
	if err != nil {
		return 0, err
	}
	defer func() { traced(err) }()
	c.req, c.warnings, err = c.buildRequest()
	if isPlanError(err) && (j.Plan || j.DryRun) {
		o := simulate.Outcome{Warnings: c.warnings, Err: err, Request: c.req}
		return job.ExitOK, printPlan(c.line, c.sys, o, routeOf(nil))
	}
	if err != nil {
		return 0, err
	}
	if c.req.EndPolicy.InBatchJob = allocation != ""; allocation != "" {
		c.env.Log.Info().Msg(allocation)
	}
	if err := c.findStarter(); err != nil {
		return 0, err
	}
	if c.starterPath == "" && !isJobQuery(j) && !j.Doctor {
		if err := c.inputs.CheckOutside(c.req, j); err != nil {
			return 0, err
		}
	}
	if c.starter.MaxGrace, err = request.LimitGrace(&c.req, j.BatchOption().KillDelay, c.runBatchTool); err != nil {
		return 0, err
	}
	if c.req.RM != nil {
		c.env.Log.Info().Msg(request.AllocationText(*c.req.RM, c.inputs.Allocation))
	}
	parcels, err := c.attachFiles()
	if err != nil {
		return 0, err
	}
	defer parcels.closeAll()
	colorLabels(&c.req.Streams, c.line, c.sys)
	showProgress(c.line, c.sys, &c.env)
	if c.env.In, err = rankInput(c.line, c.req.Streams, c.sys.In); err != nil {
		return 0, err
	}
	c.reportUnreadInput()
	hangUp, err := c.setDialer()
	if err != nil {
		return 0, err
	}
	defer hangUp()
	if j.SaveState != "" {
		req, fail := c.req, c.sys.newMessagePrinter(errs, j).printError
		c.env.OnSnapshot = func(snap job.Snapshot) { saveState(j.SaveState, req, snap, fail) }
	}
	c.req.WantAttributes = c.req.WantAttributes || j.SaveState != "" || wantedDisplays(j).topo
	switch {
	case isJobQuery(j):
		return c.answerJobQuery(ctx)
	case j.Doctor:
		return c.runDoctor(ctx)
	case j.DryRun && j.Probe == "no" && !j.Plan:
		return job.ExitOK, c.planOffline()
	case j.Plan || j.DryRun:
		return job.ExitOK, c.planOnly(ctx)
	case j.Displays("topo") && j.Resume == "" && c.line.Apps[0].Program == "":
		return job.ExitOK, c.drawTopology(ctx)
	}
	go parcels.startHashing(c.req.Nodes)
	return c.runJob(ctx)
}

// isLikelyLocal reports whether nothing has said so far that the job runs on other machines: a look at this one, which is half
// a millisecond, then goes on beside the making of the request.
func (c *invocation) isLikelyLocal() bool {
	elsewhere := func(s option.AppContext) bool { return len(s.Host) > 0 || s.HostFile != "" }
	return startsRanks(c.line.Job) && c.line.Job.Resume == "" && c.sys.Dialer == nil && c.inputs.Cluster == nil && !slices.ContainsFunc(c.line.Apps, elsewhere)
}

// buildRequest is what the line asks for, or the job that it takes up.
func (c *invocation) buildRequest() (job.Request, []job.Note, error) {
	if c.line.Job.Resume != "" {
		req, notes, err := c.resumedRequest()
		if err == nil && !startsRanks(c.line.Job) {
			req = restart.NextRequest(req, c.env.PastAttempts) // what would be
		}
		return req, notes, err
	}
	return request.Make(c.line, c.inputs)
}

// locateHosts finds the cluster, the hosts that stand where a program would, and those of an
// allocation, of which note tells.
func (c *invocation) locateHosts() (note string, err error) {
	c.inputs = newInputs(c.sys)
	if c.inputs.Cluster, err = readCluster(c.line.Job, c.sys); err != nil {
		return "", err
	}
	switch {
	case isJobQuery(c.line.Job):
		c.line, err = programAsHosts(c.line)
	case c.line.Job.Doctor:
		c.line, err = doctorHosts(c.line)
	}
	if err != nil {
		return "", err
	}
	c.inputs.Job, c.inputs.Local = newJobID(time.Now()), withName(c.line.Job.LocalHost, findLocalhost(c.sys))
	c.line, note, err = c.inputs.UseAllocation(c.line)
	return note, err
}

// setDialer gives a launch the dialer for its hosts, unless the world has one, and returns
// what ends it.
func (c *invocation) setDialer() (hangUp func(), err error) {
	if c.env.Dialer != nil {
		return func() {}, nil
	}
	var starter func(transport.HelperBinary, transport.Transports) transport.Transport
	if c.starterPath != "" {
		starter = c.starterWithFallback
	}
	guard := guardArgs(c.req)
	if guard != nil && (c.env.FormerNodes != nil || c.needsHelperProcess()) {
		guard = nil // there is another node to look at, or the ranks need a session that is not ours
	}
	d, err := newDialer(c.line.Job, c.sys, guard, starter, c.batchLogins(), c.attached, c.env.Trace, c.env.Log)
	if err != nil {
		return nil, err
	}
	if d.sshDialer != nil {
		d.warn = func(text string) { c.env.Report(text) }
		d.sshDialer.Recorded = func(file string) { c.env.Report("new host keys are recorded in " + file) }
	}
	c.env.Dialer, c.env.Build, c.env.Release = d, d.build, Version
	return d.closeAll, nil
}

// needsHelperProcess reports whether the helper of this job has to be a process of its own.
func (c *invocation) needsHelperProcess() bool {
	return needsHelperProcess(c.req, runtime.NumCPU(), hasTerminal(), func(app job.App) job.PMIOffer { return detectPMI(app, c.sys.Environ) })
}

// completeRequest completes the request, and what it may be asked for again while it waits.
func (c *invocation) completeRequest() {
	j := c.line.Job
	c.env.FindHosts = c.inputs.SpawnHostFinder(j)
	c.env.Localhost = func() string {
		probe, _ := probeLocal(c.sys) // who cannot be looked at is nobody
		return probe.Identity
	}
	if j.Propagate != "none" && slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local }) {
		c.req.SoftLimits = softLimits()
	}
	c.req.EndPolicy.ErrorCode = c.ownErrorCode
	if c.line.Job.Resume == "" {
		c.env.RereadRequest = newReread(c.line, c.sys, c.inputs, c.starter, c.req)
	}
}

// runJob is the life of a job, with what is around it on this side: signals, terminal, trace
// and report.
func (c *invocation) runJob(ctx context.Context) (code int, err error) {
	j := c.line.Job
	c.completeRequest()
	for _, number := range j.ForwardSignals.Numbers {
		c.sys.CatchSignal(syscall.Signal(number))
	}
	if j.PMITrace != "" {
		file, err := userfile.Create(j.PMITrace)
		if err != nil {
			return 0, fmt.Errorf("--pmi-trace: %w", err)
		}
		defer file.Close()
		c.env.Transcript = file
	}
	setDisplays(c.line, c.req, &c.env)
	c.printRemarks()
	c.reportUnseenRanks()
	c.unattached()
	recorded, err := c.startRecord()
	if err != nil {
		return 0, err
	}
	journalled, err := c.startEvents()
	if err != nil {
		return 0, err
	}
	if err := c.prepareCheckpoints(); err != nil {
		return 0, err
	}
	kept, err := c.startSaving(ctx)
	if err != nil {
		return 0, err
	}
	if len(c.req.Streams.PTY) > 0 {
		restore, err := lendTerminal(c.sys, &c.env)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	c.requestStep.End(nil)
	result, err := launch.Run(ctx, c.req, c.env)
	kept(result, err)
	recorded(result, err)
	if failed := journalled(result, err); err == nil && result.Code == job.ExitOK {
		err = failed
	}
	return result.Code, err
}

// printRemarks tells of what was said and may mean something else to somebody.
func (c *invocation) printRemarks() {
	for _, w := range c.warnings {
		c.env.Report(w.Text)
	}
	if g, given := c.line.Apps[0].Origin("ppn"); given && g.Spelled == "-N" {
		c.env.Log.Info().Msgf("-N %s is ranks on each host, as in Open MPI; srun's -N, a number of nodes, is not meant", g.Value)
	}
	if rm := c.req.RM; rm != nil && rm.Integration == job.LooseIntegration {
		c.env.Log.Info().Msgf("ranks on %s are not visible to %s (started by %s)", foldRemoteNodes(c.req.Nodes), rm.Name, rm.Starter)
	}
	if most := c.starter.MaxGrace; most > 0 && c.req.TimeLimits.Grace == most {
		c.env.Log.Info().Msgf("ranks have %v between SIGTERM and SIGKILL, since %s kills them 3 s later", most, c.req.RM.Name)
	}
	if c.req.NoPin && !c.req.NoMemBind {
		c.env.Log.Info().Msg("--no-pin leaves memory bound to NUMA nodes; see --no-mem-bind")
	}
}

// needsHelperProcess reports whether the helper of a job on this machine alone has to be a process of its own, since ranks
// that may be of Open MPI may share CPUs. Such ranks need a session in common. It cannot be that of mpiexec if this one
// has a terminal, which no rank may touch. And every other process in it would wait behind ranks that yield without end:
// a job beside them took 100 ms to start, and up to 28 s; beside ranks of another session it takes 20 ms.
//
// With a terminal only a lone rank, and ranks of a program that is linked with MPICH, are sure not to need one: other jobs
// may have the other CPUs. A lone rank may spawn, if its program is linked with Open MPI. found tells how programs are linked.
func needsHelperProcess(req job.Request, cpus int, terminal bool, found func(job.App) job.PMIOffer) bool {
	ranks, pmix := 0, false
	for _, app := range req.Apps {
		ranks += cmp.Or(app.N, app.PerNode, req.Nodes[0].Slots)
		pmix = pmix || app.PMIOffer == "" || app.PMIOffer == job.PMIOfferAuto || app.PMIOffer.OffersPMIx()
	}
	switch {
	case !pmix:
		return false
	case !terminal || ranks > cpus:
		return ranks > cpus
	case ranks == 1:
		return !req.SpawnHosts.None && found(req.Apps[0]) == job.PMIOfferPMIx
	}
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return found(app) != job.PMIOfferPMI1 })
}

// detectPMI is what a program here is offered, as it is linked or as the user says; both, if it is not found.
func detectPMI(app job.App, environ []string) job.PMIOffer {
	if app.PMIOffer != "" && app.PMIOffer != job.PMIOfferAuto {
		return app.PMIOffer
	}
	word, _, _ := strings.Cut(detectLocalPMI(app, environ), " ")
	return cmp.Or(job.PMIOffer(word), job.PMIOfferBoth)
}

// guardArgs is how the guard of a job on one node is called; nil for more nodes, where the
// helper here is a process of its own. So it is for a job that may wait: stopped
// together with mpiexec, its helper would keep the place in the queue; and for one whose checkpoints a
// command of ours writes: a helper inside takes the ends of all our children for its own.
func guardArgs(req job.Request) []string {
	elsewhere := req.Queue.Host != nil && (len(req.Nodes) != 1 || !req.Queue.Host.IsSameNode(req.Nodes[0]))
	beyond := func(def job.NodeDef) bool { return !def.Local }
	if req.SpawnHosts.Any || slices.ContainsFunc(req.SpawnHosts.List, beyond) {
		return nil // there may be more hosts later
	}
	if len(req.Nodes) != 1 || !req.Nodes[0].Local || req.Wait || req.Checkpoint.Command != "" || elsewhere || runtime.GOOS != "linux" {
		return nil
	}
	return []string{guardArg, string(req.Job), strconv.FormatInt(req.TimeLimits.Grace.Milliseconds(), 10)}
}

// launchEnv is what a launch may know of the world around it.
func launchEnv(line option.Line, sys System, out, errs *stdio.Printer) launch.Env {
	to := sys.newMessagePrinter(errs, line.Job)
	env := launch.Env{Out: out, Err: errs, ReportFailure: to.printFailure}
	env.Env = reserve.Env{
		Connector: node.Connector{Dialer: sys.Dialer, GreetTimeout: shellTimeout(line.Job), SilenceLimit: linkTimeout,
			Log: newLogger(errs, line.Job.Verbosity, useColor(line.Job.Color, sys.getenv, isTerminal(sys.Err)))},
		RankOptions: reserve.RankOptions{Umask: readUmask(), ReportBindings: line.Job.ReportBindings, BindingAsked: line.Job.Pin == "yes", ExplainOffer: line.Job.Verbosity > 0},
		Signals:     sys.Signals, Suspend: sys.Suspend,
		Report: to.printLine,
	}
	if line.Job.Verbosity < 0 {
		env.Report = func(string) {}
	}
	if j := line.Job; j.TraceFile != "" || j.TracePicture != "" || j.Verbosity > 0 {
		env.Trace = trace.New(time.Now)
	}
	return env
}

// linkTimeout is how long a link may be dead before its node is lost (SIG-7).
const linkTimeout = 45 * time.Second

// connectTimeout is how long one host may take until we are logged in to it.
func connectTimeout(j option.JobOptions) time.Duration {
	return cmp.Or(j.ConnectTimeout.Duration(), 10*time.Second)
}

// shellTimeout is how long one host may take for each step from the login on: until its login shell has run /bin/sh, until
// its helper speaks, and for each answer of the helper before the start.
func shellTimeout(j option.JobOptions) time.Duration {
	return cmp.Or(j.ShellTimeout.Duration(), time.Minute)
}

// readUmask is ours, which the ranks get too (ENV-8). It can only be read by setting it.
func readUmask() int {
	mask := syscall.Umask(0o077) // what is made meanwhile is open to nobody
	syscall.Umask(mask)
	return mask
}
