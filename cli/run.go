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

	"remshell/batch"
	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/cli/setup"
	_ "remshell/feature" // all of them
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

// An invocation is one run of mpiexec that needs hosts. It contains the command line, the request built from it, and
// the launch.Env. Its method answer sets the fields. The functions that carry out a single action only read the fields
// and add to env.
type invocation struct {
	sys            System
	line           option.Line
	inputs         request.Inputs
	req            job.Request
	warnings       []job.Note
	env            launch.Env
	ownErrorCode   int // exit code of mpiexec's own failures
	starter        request.Starter
	starterPath    string        // path of the batch system's starter; empty: hosts are not reached by one
	starterOptions func() string // returns the starter's help text
	attached       *attacher     // nil: shells on nodes do not attach themselves to a batch system's job
	args           []string      // the arguments of the command line
	saved          *savedJobFile // nil: the job is neither saved nor resumed
	features       setup.Run
	requestStep    trace.Step // the trace's step until the job is launched
}

// runWithHosts carries out a command line that needs hosts. It prints errors through the same printer as
// mpiexec's other messages and the output of the ranks, so that all appear in order.
func runWithHosts(ctx context.Context, args []string, line option.Line, sys System, errorCode int) (code int, err error) {
	out, errs := newPrinters(line, sys)
	code, err = recoverPanic(line.Job, errs, func() (int, error) {
		c := invocation{sys: sys, line: line, ownErrorCode: errorCode, args: args}
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

// stderrLost returns the error that caused the loss of output for standard error. It returns nil if nothing was lost,
// or if the reader has closed standard error.
func stderrLost(errs *stdio.Printer) error {
	if err := errs.WriteError(); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return nil
}

// A panicError is an error that wraps the value of a panic in mpiexec's own code.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("internal error: %v", e.value) }

func (e *panicError) Hint() string {
	return "please report this bug together with the output of mpiexec -v"
}

// recoverPanic calls do. If do panics, it logs the stack and returns the panic as an error. By then, deferred functions
// have restored the terminal and closed the connections, so the helpers end the ranks (rule TRUST-35).
func recoverPanic(j option.JobOptions, errs io.Writer, do func() (int, error)) (code int, err error) {
	defer func() {
		if value := recover(); value != nil {
			log := newLogger(errs, j.Verbosity, false)
			log.Info().Msg(string(debug.Stack()))
			err = &panicError{value}
		}
	}()
	return do()
}

// answer carries out the action of the command line. First it finds the hosts, builds the request, and
// prepares features and the connections to hosts.
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
	if err := checkDistinctFiles(c.line.WrittenFiles()); err != nil {
		return 0, err
	}
	c.features = setup.Run{Line: c.line, Dir: c.inputs.Local.Dir, Environ: c.sys.Environ, Env: &c.env, Request: &c.req, Accounted: c.inputs.Cluster != nil && c.inputs.Cluster.AccountingFile != "", OnTerminal: isTerminal(c.sys.Err)}
	defer func() {
		c.requestStep.End(err)
		c.endFeatures(err)
	}()
	if err := c.features.Begin(); err != nil {
		return 0, err
	}
	c.inputs.Limits, c.inputs.LimitOrigins = c.features.Limits()
	c.inputs.NeedsEnd = c.features.NeedsEnd
	c.requestStep = c.env.Trace.Begin(trace.Row{}, trace.Request)
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
	if c.starterPath == "" && c.line.Query.Command == "" {
		if err := c.inputs.CheckOutside(c.req, j); err != nil {
			return 0, err
		}
	}
	if c.starter.MaxGrace, err = request.LimitGrace(&c.req, c.line.BatchOption(c.req.RM != nil).KillDelay, c.runBatchTool); err != nil {
		return 0, err
	}
	if c.req.RM != nil {
		c.env.Log.Info().Msg(request.AllocationText(*c.req.RM, c.inputs.Allocation))
	}
	if err := c.features.RequestMade(); err != nil {
		return 0, err
	}
	colorLabels(&c.req.Streams, c.line, c.sys)
	showProgress(c.line, c.sys, &c.env)
	if c.env.In, err = rankInput(c.line, c.req.Streams, c.sys.In); err != nil {
		return 0, err
	}
	c.reportUnreadInput()
	closeDialer, err := c.setDialer()
	if err != nil {
		return 0, err
	}
	defer closeDialer()
	if j.SaveState != "" {
		req, fail := c.req, c.sys.newMessagePrinter(errs, j).printError
		c.env.OnSnapshot = func(snap job.Snapshot) { saveState(j.SaveState, req, snap, fail) }
	}
	c.req.WantAttributes = c.req.WantAttributes || j.SaveState != "" || wantedDisplays(j).topo
	switch {
	case c.line.Query.Command == "doctor":
		return c.runDoctor(ctx)
	case c.line.Query.Command != "":
		return c.answerJobQuery(ctx)
	case j.DryRun && j.Probe == "no" && !j.Plan:
		return job.ExitOK, c.planOffline()
	case j.Plan || j.DryRun:
		return job.ExitOK, c.planOnly(ctx)
	case printsTopologyOnly(c.line):
		return job.ExitOK, c.drawTopology(ctx)
	}
	return c.runJob(ctx)
}

// endFeatures notifies the features that the run has ended. It prints their errors with a new printer, because the
// printer of the run is already closed.
func (c *invocation) endFeatures(err error) {
	for _, failed := range c.features.End(err) {
		c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(failed)
	}
}

// printsTopologyOnly reports whether the line asks for the topology of hosts and starts no ranks.
func printsTopologyOnly(line option.Line) bool {
	j := line.Job
	return startsRanks(line) && j.Displays("topo") && j.Resume == "" && line.Apps[0].Program == ""
}

// isLikelyLocal reports whether the options name no other machine, so that the job probably runs only here. In that
// case this machine is probed while the request is being built. A probe takes half a millisecond.
func (c *invocation) isLikelyLocal() bool {
	elsewhere := func(s option.AppContext) bool { return len(s.Host) > 0 || s.HostFile != "" }
	return startsRanks(c.line) && c.line.Job.Resume == "" && c.sys.Dialer == nil && c.inputs.Cluster == nil && !slices.ContainsFunc(c.line.Apps, elsewhere)
}

// buildRequest returns the request of the command line. With --resume it returns the request of the saved job
// with the changes that the command line makes.
func (c *invocation) buildRequest() (job.Request, []job.Note, error) {
	if c.line.Job.Resume != "" {
		req, notes, err := c.resumedRequest()
		if err == nil && !startsRanks(c.line) {
			req = restart.NextRequest(req, c.env.PastAttempts) // what a resumed job would start
		}
		return req, notes, err
	}
	return request.Make(c.line, c.inputs)
}

// locateHosts finds out which hosts are named. It reads the cluster file and finds the hosts of the batch system's
// allocation. In a query, it takes the words in the place of the program as names of hosts. note describes the
// allocation, or is empty.
func (c *invocation) locateHosts() (note string, err error) {
	c.inputs = newInputs(c.sys)
	if c.inputs.Cluster, err = readCluster(c.line.Job, c.sys); err != nil {
		return "", err
	}
	switch {
	case c.line.Query.Command == "doctor":
		c.line, err = doctorHosts(c.line)
	case c.line.Query.Command != "":
		if err := checkHostsGiven(c.line); err != nil {
			return "", err
		}
		c.line, err = programAsHosts(c.line)
	}
	if err != nil {
		return "", err
	}
	c.inputs.Job, c.inputs.Local = newJobID(time.Now()), withName(c.line.Job.LocalHost, findLocalhost(c.sys))
	c.line, note, err = c.inputs.UseAllocation(c.line)
	return note, err
}

// setDialer sets the dialer, which connects to the hosts, unless System already has one. The caller must call
// closeDialer.
func (c *invocation) setDialer() (closeDialer func(), err error) {
	if c.env.Dialer != nil {
		return func() {}, nil
	}
	var starter func(transport.HelperBinary, transport.Transports) transport.Transport
	if c.starterPath != "" {
		starter = c.starterWithFallback
	}
	guard := guardArgs(c.req)
	if guard != nil && (c.env.FormerNodes != nil || c.needsHelperProcess()) {
		guard = nil // there is another node, or the ranks need a session of their own
	}
	d, err := newDialer(c.line.Job, c.sys, guard, starter, c.batchLogins(), c.attached, c.env.Trace, c.env.Log)
	if err != nil {
		return nil, err
	}
	if d.sshDialer != nil {
		d.warn = func(text string) { c.env.Report(text) }
		d.sshDialer.Recorded = func(file string) { c.env.Report("mpiexec added new ssh host keys to " + file) }
	}
	c.env.Dialer, c.env.Build, c.env.Release = d, d.build, Version
	return d.closeAll, nil
}

// needsHelperProcess calls the function of the same name with the data of this run.
func (c *invocation) needsHelperProcess() bool {
	return needsHelperProcess(c.req, runtime.NumCPU(), hasTerminal(), func(app job.App) job.PMIOffer { return detectPMI(app, c.sys.Environ) })
}

// completeRequest adds soft limits, priority and error code to the request. It adds to env the functions that find
// hosts for spawned ranks and that read the cluster file again.
func (c *invocation) completeRequest() {
	j := c.line.Job
	c.env.FindHosts = c.inputs.SpawnHostFinder(j)
	c.env.Localhost = func() string {
		probe, _ := probeLocal(c.sys) // "" if this machine cannot be probed
		return probe.Identity
	}
	if j.Propagate != "none" && slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local }) {
		c.req.SoftLimits, c.req.Priority = softLimits(), ownPriority()
	}
	c.req.EndPolicy.ErrorCode = c.ownErrorCode
	if c.line.Job.Resume == "" {
		c.env.RereadRequest = newReread(c.line, c.sys, c.inputs, c.starter, c.req)
	}
}

// runJob runs a job. Before and after that, it prepares and ends the other work of this process: signal handling,
// displays, the run record, the event stream, the saved job and the terminal.
func (c *invocation) runJob(ctx context.Context) (code int, err error) {
	j := c.line.Job
	c.completeRequest()
	for _, number := range j.ForwardSignals.Numbers {
		c.sys.CatchSignal(syscall.Signal(number))
	}
	setDisplays(c.line, c.req, &c.env)
	c.printRemarks()
	c.reportUnseenRanks()
	c.reportUnattached()
	writeRecord, err := c.startRecord()
	if err != nil {
		return 0, err
	}
	if err := c.features.Launch(); err != nil {
		return 0, err
	}
	endEvents, err := c.startEvents()
	if err != nil {
		return 0, err
	}
	endSaving, err := c.startSaving(ctx)
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
	endSaving(result, err)
	writeRecord(result, err)
	if failed := endEvents(result, err); err == nil && result.Code == job.ExitOK {
		err = failed
	}
	return result.Code, err
}

// printRemarks prints the warnings about the request. With -v it also prints notes about options that are
// often misunderstood.
func (c *invocation) printRemarks() {
	for _, w := range c.warnings {
		c.env.Report(w.Text)
	}
	if g, given := c.line.Apps[0].Origin("ppn"); given && g.Spelled == "-N" {
		c.env.Log.Info().Msgf("-N %s sets the number of ranks on each host (as in Open MPI), not the number of nodes (as in srun)", g.Value)
	}
	if rm := c.req.RM; rm != nil && rm.Integration == job.LooseIntegration {
		c.env.Log.Info().Msgf("%s does not see the ranks on %s, because %s started them", batch.Title(rm.Name), foldRemoteNodes(c.req.Nodes), rm.Starter)
	}
	if most := c.starter.MaxGrace; most > 0 && c.req.TimeLimits.Grace == most {
		c.env.Log.Info().Msgf("ranks get SIGKILL %v after SIGTERM, because %s would kill them 3 s later", most, batch.Title(c.req.RM.Name))
	}
	if c.req.NoPin && !c.req.NoMemBind {
		c.env.Log.Info().Msg("with --no-pin, memory is still bound to NUMA nodes; to change that, add --no-mem-bind")
	}
}

// needsHelperProcess reports whether the helper of a job on this machine alone must be a separate process.
//
// A separate process is needed if ranks of Open MPI may share CPUs, because such ranks need a common session. They
// cannot use mpiexec's own session if it has a terminal, because no rank may touch the terminal. Also, ranks that
// call sched_yield in a loop delay every other process of their session. As a result, starting another job in the
// same session takes from 100 ms to 28 s, instead of 20 ms.
//
// If mpiexec has a terminal, its ranks may share CPUs even if there are CPUs for all, because other jobs may use
// them. In this case only two kinds of jobs need no helper process: jobs whose programs are linked with MPICH, and
// jobs with a single rank. However, a single rank linked with Open MPI needs a helper process if it may spawn. detect
// returns how a program is linked.
func needsHelperProcess(req job.Request, cpus int, terminal bool, detect func(job.App) job.PMIOffer) bool {
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
		return !req.SpawnHosts.None && detect(req.Apps[0]) == job.PMIOfferPMIx
	}
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return detect(app) != job.PMIOfferPMI1 })
}

// detectPMI returns which PMI a program on this machine may use. This is the value of --pmi or, without that option,
// the PMI of the libraries with which the program is linked. It returns PMIOfferBoth if there is no such program.
func detectPMI(app job.App, environ []string) job.PMIOffer {
	if app.PMIOffer != "" && app.PMIOffer != job.PMIOfferAuto {
		return app.PMIOffer
	}
	word, _, _ := strings.Cut(detectLocalPMI(app, environ), " ")
	return cmp.Or(job.PMIOffer(word), job.PMIOfferBoth)
}

// guardArgs returns the arguments of the guard process for a job whose helper runs inside mpiexec. It returns nil if
// the helper must be a separate process. This is necessary for these jobs:
//   - a job on another node or on several nodes;
//   - a job that may wait: a helper inside mpiexec would be stopped together with mpiexec, and keep its ticket;
//   - a job with a checkpoint command: a helper inside mpiexec treats all children of mpiexec as its own and waits for
//     them.
func guardArgs(req job.Request) []string {
	elsewhere := req.Queue.Host != nil && (len(req.Nodes) != 1 || !req.Queue.Host.IsSameNode(req.Nodes[0]))
	isRemote := func(def job.NodeDef) bool { return !def.Local }
	if req.SpawnHosts.Any || req.NeedsOtherHosts || slices.ContainsFunc(req.SpawnHosts.List, isRemote) {
		return nil // there may be more hosts later
	}
	if len(req.Nodes) != 1 || !req.Nodes[0].Local || req.Wait || req.Checkpoint.Command != "" || elsewhere || runtime.GOOS != "linux" {
		return nil
	}
	return []string{guardArg, string(req.Job), strconv.FormatInt(req.TimeLimits.Grace.Milliseconds(), 10)}
}

// launchEnv returns the launch.Env for a command line.
func launchEnv(line option.Line, sys System, out, errs *stdio.Printer) launch.Env {
	printer := sys.newMessagePrinter(errs, line.Job)
	env := launch.Env{Out: out, Err: errs, ReportFailure: printer.printFailure}
	env.Env = reserve.Env{
		Connector: node.Connector{Dialer: sys.Dialer, GreetTimeout: shellTimeout(line.Job), SilenceLimit: linkTimeout,
			Log: newLogger(errs, line.Job.Verbosity, useColor(line.Job.Color, sys.getenv, isTerminal(sys.Err)))},
		RankOptions: reserve.RankOptions{Umask: userfile.Umask(), BindingAsked: line.Job.Pin == "yes", ExplainOffer: line.Job.Verbosity > 0},
		Signals:     sys.Signals, Suspend: sys.Suspend,
		Report: printer.printLine,
	}
	if line.Job.Verbosity < 0 {
		env.Report = func(string) {}
	}
	if line.Job.Verbosity > 0 {
		env.Trace = trace.New(time.Now)
	}
	return env
}

// linkTimeout is how long a connection may be silent before mpiexec regards its node as lost (rule SIG-7).
const linkTimeout = 45 * time.Second

// connectTimeout returns how long connecting and logging in to a host may take.
func connectTimeout(j option.JobOptions) time.Duration {
	return cmp.Or(j.ConnectTimeout.Duration(), 10*time.Second)
}

// shellTimeout returns how long each step on a host may take after the login. The steps are: the login shell starts
// /bin/sh, the helper sends the first message, and the helper replies to each request before the ranks start.
func shellTimeout(j option.JobOptions) time.Duration {
	return cmp.Or(j.ShellTimeout.Duration(), time.Minute)
}
