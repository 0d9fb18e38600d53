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
	"remshell/reach"
	"remshell/timeline"
	"remshell/userfile"
	"remshell/whatif"
)

// A call is one use of mpiexec that concerns hosts: what is asked for, and by what it is answered.
// perform makes it; the functions that answer only read it, but for what they add to env.
type call struct {
	sys      System
	line     option.Line
	world    request.World
	req      job.Request
	warnings []job.Note
	env      launch.Env
	ours     int // exit code of our own failures
	starter  request.Starter
	program  string        // the starter's, by its path; empty: hosts are not reached by one
	options  func() string // what that tells of its options
	attached *attacher     // nil: the shells on nodes are not to attach themselves to a batch system's job
	args     []string      // the words of the line
	kept     *keptJob      // nil: the job is not saved, and was not
	asking   timeline.Step // until it is known what is asked for
}

// withHosts does what concerns hosts, and says what went wrong in the place of our own lines,
// between those of the ranks.
func withHosts(ctx context.Context, args []string, line option.Line, sys System, ours int) (code int, err error) {
	out, errs := printers(line.Job, sys)
	code, err = unpanicked(line.Job, errs, func() (int, error) {
		c := call{sys: sys, line: line, ours: ours, args: args}
		defer func() { c.kept.close() }()
		return c.perform(ctx, out, errs)
	})
	sys.screen(errs, line.Job).report(err)
	flush(errs)
	if err == nil && code == job.ExitOK {
		err = stderrLost(errs)
	}
	if err == nil {
		return code, nil
	}
	return 0, told{err}
}

// stderrLost returns why something of what was to be read on standard error is lost. It is nil if nothing is, or if whoever
// has read it has closed it.
func stderrLost(errs *stdio.Printer) error {
	if lost := errs.Lost(); lost != nil && !errors.Is(lost, syscall.EPIPE) {
		return lost
	}
	return nil
}

// A mishap is a fault of our own that nobody has foreseen.
type mishap struct{ why any }

func (e *mishap) Error() string { return fmt.Sprintf("internal error: %v", e.why) }

func (e *mishap) Hint() string { return "please report it, with what -v says" }

// unpanicked makes an error of a panic, whose stack goes to the log. On its way up, terminal and
// connections were given back, and so the helpers end the ranks (TRUST-35).
func unpanicked(j option.Job, errs io.Writer, do func() (int, error)) (code int, err error) {
	defer func() {
		if why := recover(); why != nil {
			log := logger(errs, j.Verbosity, false)
			log.Info().Msg(string(debug.Stack()))
			err = &mishap{why}
		}
	}()
	return do()
}

// perform finds out what is wanted where, makes the way there ready, and answers.
func (c *call) perform(ctx context.Context, out, errs *stdio.Printer) (code int, err error) {
	if c.line.Job.Resume != "" {
		if err := c.takeUp(); err != nil {
			return 0, err
		}
	}
	allocation, err := c.locate()
	if err != nil {
		return 0, err
	}
	if g := c.world.Grant; g != nil && g.Idle {
		return c.idle(ctx)
	}
	j := c.line.Job
	if c.likelyHere() {
		c.sys.ahead = lookAhead(c.sys.Environ)
	}
	c.env = launchEnv(c.line, c.sys, out, errs)
	traced, err := c.trace()
	if err != nil {
		return 0, err
	}
	defer func() { traced(err) }()
	c.req, c.warnings, err = c.asked()
	if planError(err) && (j.Plan || j.DryRun) {
		o := whatif.Outcome{Warnings: c.warnings, Err: err, Request: c.req}
		return job.ExitOK, showPlan(c.line, c.sys, o, routeOf(nil))
	}
	if err != nil {
		return 0, err
	}
	if c.req.Ends.Batch = allocation != ""; allocation != "" {
		c.env.Log.Info().Msg(allocation)
	}
	if err := c.useStarter(); err != nil {
		return 0, err
	}
	if c.program == "" && !asksOfJobs(j) && !j.Doctor {
		if err := c.world.Outside(c.req, j); err != nil {
			return 0, err
		}
	}
	if c.starter.Most, err = request.Hasten(&c.req, j.BatchOption().KillDelay, c.ask); err != nil {
		return 0, err
	}
	if c.req.RM != nil {
		c.env.Log.Info().Msg(request.Told(*c.req.RM, c.world.Grant))
	}
	parcels, err := c.shipping()
	if err != nil {
		return 0, err
	}
	defer parcels.close()
	paint(&c.req.Streams, c.line, c.sys)
	showProgress(c.line, c.sys, &c.env)
	if c.env.In, err = input(c.line, c.req.Streams, c.sys.In); err != nil {
		return 0, err
	}
	c.noteUnread()
	hangUp, err := c.withDialer()
	if err != nil {
		return 0, err
	}
	defer hangUp()
	if j.SaveState != "" {
		req, fail := c.req, c.sys.screen(errs, j).report
		c.env.Seen = func(snap job.Snapshot) { save(j.SaveState, req, snap, fail) }
	}
	c.req.Traits = c.req.Traits || j.SaveState != "" || wanted(j).topo
	switch {
	case asksOfJobs(j):
		return c.jobs(ctx)
	case j.Doctor:
		return c.doctor(ctx)
	case j.DryRun && j.Probe == "no" && !j.Plan:
		return job.ExitOK, c.dryRun()
	case j.Plan || j.DryRun:
		return job.ExitOK, c.plan(ctx)
	case j.Displays("topo") && j.Resume == "" && c.line.Sections[0].Program == "":
		return job.ExitOK, c.topology(ctx)
	}
	go parcels.read(c.req.Nodes)
	return c.run(ctx)
}

// likelyHere reports whether nothing has said so far that the job runs on other machines: a look at this one, which is half
// a millisecond, then goes on beside the making of the request.
func (c *call) likelyHere() bool {
	elsewhere := func(s option.Section) bool { return len(s.Host) > 0 || s.HostFile != "" }
	return starts(c.line.Job) && c.line.Job.Resume == "" && c.sys.Dialer == nil && c.world.Cluster == nil && !slices.ContainsFunc(c.line.Sections, elsewhere)
}

// asked is what the line asks for, or the job that it takes up.
func (c *call) asked() (job.Request, []job.Note, error) {
	if c.line.Job.Resume != "" {
		req, notes, err := c.resumed()
		if err == nil && !starts(c.line.Job) {
			req = restart.Request(req, c.env.Past) // what would be
		}
		return req, notes, err
	}
	return request.Make(c.line, c.world)
}

// locate finds the cluster, the hosts that stand where a program would, and those of an
// allocation, of which note tells.
func (c *call) locate() (note string, err error) {
	c.world = world(c.sys)
	if c.world.Cluster, err = readCluster(c.line.Job, c.sys); err != nil {
		return "", err
	}
	switch {
	case asksOfJobs(c.line.Job):
		c.line, err = hostsForProgram(c.line)
	case c.line.Job.Doctor:
		c.line, err = hostsToCheck(c.line)
	}
	if err != nil {
		return "", err
	}
	c.world.Job, c.world.Local = newJobID(time.Now()), named(c.line.Job.LocalHost, thisMachine(c.sys))
	c.line, note, err = c.world.Allocated(c.line)
	return note, err
}

// withDialer gives a launch the dialer for its hosts, unless the world has one, and returns
// what ends it.
func (c *call) withDialer() (hangUp func(), err error) {
	if c.env.Dialer != nil {
		return func() {}, nil
	}
	var starter func(reach.Self, reach.Ways) reach.Way
	if c.program != "" {
		starter = c.byStarter
	}
	guard := guardOf(c.req)
	if guard != nil && (c.env.Former != nil || c.needsProcess()) {
		guard = nil // there is another node to look at, or the ranks need a session that is not ours
	}
	d, err := newDialer(c.line.Job, c.sys, guard, starter, c.logins(), c.attached, c.env.Timeline, c.env.Log)
	if err != nil {
		return nil, err
	}
	if d.client != nil {
		d.warn = func(text string) { c.env.Say(text) }
		d.client.Recorded = func(file string) { c.env.Say("new host keys are recorded in " + file) }
	}
	c.env.Dialer, c.env.Build, c.env.Release = d, d.build, Version
	return d.close, nil
}

// needsProcess reports whether the helper of this job has to be a process of its own.
func (c *call) needsProcess() bool {
	return needsProcess(c.req, runtime.NumCPU(), hasTerminal(), func(app job.App) job.Offer { return offerAsLinked(app, c.sys.Environ) })
}

// prepare completes the request, and what it may be asked for again while it waits.
func (c *call) prepare() {
	j := c.line.Job
	c.env.Find = c.world.Finder(j)
	c.env.Localhost = func() string {
		probe, _ := probeHere(c.sys) // who cannot be looked at is nobody
		return probe.Identity
	}
	if j.Propagate != "none" && slices.ContainsFunc(c.req.Nodes, func(n job.NodeDef) bool { return !n.Local }) {
		c.req.Soft = softLimits()
	}
	c.req.Ends.Ours = c.ours
	if c.line.Job.Resume == "" {
		c.env.Reread = reread(c.line, c.sys, c.world, c.starter, c.req)
	}
}

// run is the life of a job, with what is around it on this side: signals, terminal, trace
// and report.
func (c *call) run(ctx context.Context) (code int, err error) {
	j := c.line.Job
	c.prepare()
	for _, number := range j.ForwardSignals.Numbers {
		c.sys.Catch(syscall.Signal(number))
	}
	if j.PMITrace != "" {
		file, err := userfile.Create(j.PMITrace)
		if err != nil {
			return 0, fmt.Errorf("--pmi-trace: %w", err)
		}
		defer file.Close()
		c.env.Trace = file
	}
	display(c.line, c.req, &c.env)
	c.remark()
	c.unseen()
	c.unattached()
	recorded, err := c.record()
	if err != nil {
		return 0, err
	}
	journalled, err := c.journal()
	if err != nil {
		return 0, err
	}
	if err := c.checkpointed(); err != nil {
		return 0, err
	}
	kept, err := c.keep(ctx)
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
	c.asking.End(nil)
	result, err := launch.Run(ctx, c.req, c.env)
	kept(result, err)
	recorded(result, err)
	if failed := journalled(result, err); err == nil && result.Code == job.ExitOK {
		err = failed
	}
	return result.Code, err
}

// remark tells of what was said and may mean something else to somebody.
func (c *call) remark() {
	for _, w := range c.warnings {
		c.env.Say(w.Text)
	}
	if g, given := c.line.Sections[0].Origin("ppn"); given && g.Spelled == "-N" {
		c.env.Log.Info().Msgf("-N %s is ranks on each host, as in Open MPI; srun's -N, a number of nodes, is not meant", g.Value)
	}
	if rm := c.req.RM; rm != nil && rm.Grade == job.Loose {
		c.env.Log.Info().Msgf("ranks on %s are not visible to %s (started by %s)", foldNodes(c.req.Nodes), rm.Name, rm.Starter)
	}
	if most := c.starter.Most; most > 0 && c.req.Limits.Grace == most {
		c.env.Log.Info().Msgf("ranks have %v between SIGTERM and SIGKILL, since %s kills them 3 s later", most, c.req.RM.Name)
	}
	if c.req.NoPin && !c.req.NoMemBind {
		c.env.Log.Info().Msg("--no-pin leaves memory bound to NUMA nodes; see --no-mem-bind")
	}
}

// needsProcess reports whether the helper of a job on this machine alone has to be a process of its own, since ranks
// that may be of Open MPI may share CPUs. Such ranks need a session in common. It cannot be that of mpiexec if this one
// has a terminal, which no rank may touch. And every other process in it would wait behind ranks that yield without end:
// a job beside them took 100 ms to start, and up to 28 s; beside ranks of another session it takes 20 ms.
//
// With a terminal only a lone rank, and ranks of a program that is linked with MPICH, are sure not to need one: other jobs
// may have the other CPUs. A lone rank may spawn, if its program is linked with Open MPI. found tells how programs are linked.
func needsProcess(req job.Request, cpus int, terminal bool, found func(job.App) job.Offer) bool {
	ranks, pmix := 0, false
	for _, app := range req.Apps {
		ranks += cmp.Or(app.N, app.PerNode, req.Nodes[0].Slots)
		pmix = pmix || app.PMI == "" || app.PMI == job.OfferAuto || app.PMI.PMIx()
	}
	switch {
	case !pmix:
		return false
	case !terminal || ranks > cpus:
		return ranks > cpus
	case ranks == 1:
		return !req.Spawn.None && found(req.Apps[0]) == job.OfferPMIx
	}
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return found(app) != job.OfferPMI1 })
}

// offerAsLinked is what a program here is offered, as it is linked or as the user says; both, if it is not found.
func offerAsLinked(app job.App, environ []string) job.Offer {
	if app.PMI != "" && app.PMI != job.OfferAuto {
		return app.PMI
	}
	word, _, _ := strings.Cut(offerHere(app, environ), " ")
	return cmp.Or(job.Offer(word), job.OfferBoth)
}

// guardOf is how the guard of a job on one node is called; nil for more nodes, where the
// helper here is a process of its own. So it is for a job that may wait: stopped
// together with mpiexec, its helper would keep the place in the queue; and for one whose checkpoints a
// command of ours writes: a helper inside takes the ends of all our children for its own.
func guardOf(req job.Request) []string {
	elsewhere := req.Queue.Host != nil && (len(req.Nodes) != 1 || !req.Queue.Host.Same(req.Nodes[0]))
	beyond := func(def job.NodeDef) bool { return !def.Local }
	if req.Spawn.Any || slices.ContainsFunc(req.Spawn.List, beyond) {
		return nil // there may be more hosts later
	}
	if len(req.Nodes) != 1 || !req.Nodes[0].Local || req.Wait || req.Ckpt.Command != "" || elsewhere || runtime.GOOS != "linux" {
		return nil
	}
	return []string{guardArg, string(req.Job), strconv.FormatInt(req.Limits.Grace.Milliseconds(), 10)}
}

// launchEnv is what a launch may know of the world around it.
func launchEnv(line option.Line, sys System, out, errs *stdio.Printer) launch.Env {
	to := sys.screen(errs, line.Job)
	env := launch.Env{Out: out, Err: errs, Fail: to.fail}
	env.Env = reserve.Env{
		Connector: node.Connector{Dialer: sys.Dialer, Greet: shellTimeout(line.Job), Silence: silence,
			Log: logger(errs, line.Job.Verbosity, coloured(line.Job.Color, sys.getenv, isTerminal(sys.Err)))},
		Terms:   reserve.Terms{Umask: umask(), Report: line.Job.ReportBindings, Pin: line.Job.Pin == "yes", Explain: line.Job.Verbosity > 0},
		Signals: sys.Signals, Suspend: sys.Suspend,
		Say: to.say,
	}
	if line.Job.Verbosity < 0 {
		env.Say = func(string) {}
	}
	if j := line.Job; j.TraceFile != "" || j.TracePicture != "" || j.Verbosity > 0 {
		env.Timeline = timeline.New(time.Now)
	}
	return env
}

// silence is how long a link may be dead before its node is lost (SIG-7).
const silence = 45 * time.Second

// connectTimeout is how long one host may take until we are logged in to it.
func connectTimeout(j option.Job) time.Duration {
	return cmp.Or(j.ConnectTimeout.Duration(), 10*time.Second)
}

// shellTimeout is how long one host may take for each step from the login on: until its login shell has run /bin/sh, until
// its helper speaks, and for each answer of the helper before the start.
func shellTimeout(j option.Job) time.Duration {
	return cmp.Or(j.ShellTimeout.Duration(), time.Minute)
}

// umask is ours, which the ranks get too (ENV-8). It can only be read by setting it.
func umask() int {
	mask := syscall.Umask(0o077) // what is made meanwhile is open to nobody
	syscall.Umask(mask)
	return mask
}
