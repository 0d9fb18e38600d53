/*
Package cli is the command line of mpiexec: it reads the world once, hands values to
package launch, and says what came of it.

	args, environment, files --> option.Parse --> request --> launch.Run --> report, exit code
	                                                             |
	                                        dialer (reach, sshx) '

Options and their help stand in one table (package option). Nobody else in the program
reads arguments, the environment or the user's files.
*/
package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/fault"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/stdio"
	"remshell/show"
	"remshell/whatif"
)

// Version is that of the program; the Makefile sets it.
var Version = "development"

// pmiVersions are those that the ranks' server speaks.
var pmiVersions = []string{"PMI-1 1.1", "PMI-2 2.0"}

// Signals are those mpiexec takes care of (cli.md SIG-1 to SIG-5).
var Signals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE, syscall.SIGXCPU,
}

// A System is all the program may know of the world around it.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  <-chan os.Signal
	Catch    func(os.Signal) // has one more signal come on Signals
	Lent     func(func())    // told how to give the terminal back, if we must leave at once; may be nil
	Suspend  func()          // stops this process as ^Z does, and returns when it goes on
	Environ  []string
	Getwd    func() (string, error)
	FS       fs.FS         // "/"
	Dialer   launch.Dialer // nil: chosen from package reach, by host
}

func (s System) getenv(name string) string {
	value, _ := job.Lookup(s.Environ, name)
	return value
}

// Main runs the program and returns its exit code, which is one (TRUST-33).
func Main(ctx context.Context, args []string, sys System) int {
	code := answer(ctx, args, sys)
	return job.Clamp(code, code == exitOK, exitFailure)
}

// answer does what a command line asks for.
func answer(ctx context.Context, args []string, sys System) int {
	failure, err := failureCode(sys.getenv("MPIEXEC_ERROR_CODE"))
	if err != nil {
		report(sys.Err, err)
		return exitFailure
	}
	if port, called := singletonPort(args); called {
		return singleton(ctx, port, sys, failure)
	}
	table := option.Mpiexec()
	line, err := table.Parse(args, option.Sources{Environ: sys.Environ, Read: reader(sys)})
	if err != nil {
		report(sys.Err, err)
		return failure
	}
	if line.Job.Verbosity >= 0 {
		for _, text := range line.Warnings {
			fmt.Fprintf(sys.Err, "mpiexec: %s\n", show.Clean(text))
		}
	}
	if done, code := tell(table, line, sys, failure); done {
		return code
	}
	if err := option.SettleLayout(&line); err != nil {
		report(sys.Err, err)
		return failure
	}
	if err := planUsage(line); err != nil {
		report(sys.Err, err)
		return failure
	}
	if line.Job.ClusterState != "" {
		return planFile(line, sys, failure)
	}
	return run(ctx, line, sys, failure)
}

// tell answers those options that only tell something of ourselves.
func tell(table *option.Table, line option.Line, sys System, failure int) (done bool, code int) {
	var text string
	var err error
	switch {
	case line.Version:
		text = option.VersionText(Version, pmiVersions)
	case line.Help != nil && line.Help.Option != "":
		text, err = table.HelpOn(line.Help.Option)
	case line.Help != nil:
		text = table.Usage()
	case line.Job.Man:
		text = table.Man(Version)
	case line.Job.Completion != "":
		text = table.Completion(line.Job.Completion)
	case line.Job.Info:
		text = table.Info(line, sys.Environ, option.VersionText(Version, pmiVersions))
	default:
		return false, 0
	}
	if err == nil {
		_, err = io.WriteString(sys.Out, text)
	}
	if err != nil {
		report(sys.Err, err)
		return true, failure
	}
	return true, exitOK
}

// failureCode is the exit code of our own failures: 125, or what the user puts in its
// place so that scripts can tell it from a program's.
func failureCode(text string) (int, error) {
	if text == "" {
		return exitFailure, nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, &fault.Error{Text: fmt.Sprintf("MPIEXEC_ERROR_CODE: %q is not an exit code", text), Remedy: "allowed: 1 to 255"}
	}
	return code, nil
}

// run starts the job of a command line, sees it to its end, and says what went wrong.
func run(ctx context.Context, line option.Line, sys System, failure int) int {
	out, errs := printers(line.Job, sys)
	code, err := unpanicked(line.Job, errs, func() (int, error) { return start(ctx, line, sys, failure, out, errs) })
	if err == nil {
		return code
	}
	report(errs, err)
	flush(errs)
	return exitCode(err, failure)
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

// flush waits until what was said can be read, within reason.
func flush(errs *stdio.Printer) {
	errs.Close()
	select {
	case <-errs.Done():
	case <-time.After(lastLines):
	}
}

// lastLines is how long we wait for a standard error that takes nothing.
const lastLines = 2 * time.Second

// start builds the world of a launch, and launches.
func start(ctx context.Context, line option.Line, sys System, failure int, out, errs *stdio.Printer) (int, error) {
	site, err := cluster(line.Job, sys.getenv, reader(sys))
	if err != nil {
		return 0, err
	}
	switch {
	case asksOfJobs(line.Job):
		line, err = hostsForProgram(line)
	case line.Job.Doctor:
		line, err = patients(line)
	}
	if err != nil {
		return 0, err
	}
	w := world(sys)
	w.Job, w.Cluster, w.Local = newJobID(time.Now()), site, named(line.Job.LocalHost, thisMachine(sys))
	line, allocation, err := w.Allocated(line)
	if err != nil {
		return 0, err
	}
	req, warnings, err := request.Make(line, w)
	if planError(err) && (line.Job.Plan || line.Job.DryRun) {
		return showPlan(line, sys, whatif.Outcome{Warnings: warnings, Err: err, Request: req}, wayOf(nil))
	}
	if err != nil {
		return 0, err
	}
	env := launchEnv(line, sys, out, errs)
	if allocation != "" {
		env.Log.Info().Msg(allocation)
	}
	parcels, err := shipping(line, w.Local, sys, &req, &env)
	if err != nil {
		return 0, err
	}
	defer parcels.close()
	paint(&req.Streams, line, sys)
	showProgress(line, sys, &env)
	if env.In, err = input(line, req.Streams, sys.In); err != nil {
		return 0, err
	}
	done, err := withDialer(&env, line, sys, req)
	if err != nil {
		return 0, err
	}
	defer done()
	if line.Job.SaveState != "" {
		env.Seen = func(snap job.Snapshot) { save(line.Job.SaveState, req, snap, env.Say) }
	}
	switch {
	case asksOfJobs(line.Job):
		return tellOfJobs(ctx, line, sys, req, env, failure)
	case line.Job.Doctor:
		return examine(ctx, line, sys, req, env, failure)
	case line.Job.Plan || line.Job.DryRun:
		return look(ctx, line, sys, req, warnings, env)
	}
	env.Find = w.Finder(line.Job)
	env.Here = func() string {
		probe, _ := probeHere(sys) // who cannot be looked at is nobody
		return probe.Identity
	}
	env.Again = reread(line, sys, w, req)
	go parcels.read(req.Nodes)
	return carryOut(ctx, line, sys, req, warnings, env, failure)
}

// withDialer gives a launch the dialer for its hosts, unless the world has one, and returns
// what ends it.
func withDialer(env *launch.Env, line option.Line, sys System, req job.Request) (done func(), err error) {
	if env.Dialer != nil {
		return func() {}, nil
	}
	d, err := newDialer(line.Job, sys, guardOf(req), env.Log)
	if err != nil {
		return nil, err
	}
	env.Dialer, env.Build, env.Release = d, d.self.Build, Version
	return d.close, nil
}

// carryOut is the life of a job, with what is around it on this side: signals, terminal, trace
// and report.
func carryOut(ctx context.Context, line option.Line, sys System, req job.Request, warnings []job.Note, env launch.Env, failure int) (int, error) {
	if line.Job.Propagate != "none" && slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return !n.Local }) {
		req.Soft = softLimits()
	}
	req.Ends.Ours = failure
	for _, number := range line.Job.ForwardSignals.Numbers {
		sys.Catch(syscall.Signal(number))
	}
	if line.Job.PMITrace != "" {
		file, err := os.Create(line.Job.PMITrace)
		if err != nil {
			return 0, fmt.Errorf("--pmi-trace: %w", err)
		}
		defer file.Close()
		env.Trace = file
	}
	display(line, req, &env)
	for _, w := range warnings {
		env.Say(w.Text)
	}
	if g, given := line.Sections[0].Origin("ppn"); given && g.Spelled == "-N" {
		env.Log.Info().Msgf("-N %s is ranks on each host, as in Open MPI; srun's -N, a number of nodes, is not meant", g.Value)
	}
	if req.NoPin && !req.NoMemBind {
		env.Log.Info().Msg("--no-pin leaves memory bound to NUMA nodes; see --no-mem-bind")
	}
	done := func(job.Result, error) {}
	if file := line.Job.ReportFile; file != "" {
		done = recorded(sys.Err, file, req, warnings, &env, failure)
	}
	told := func(job.Result, error) {}
	if line.Job.JSON != "" {
		var err error
		if told, err = journalled(line, sys, req, warnings, &env, failure); err != nil {
			return 0, err
		}
	}
	if len(req.Streams.PTY) > 0 {
		restore, err := lendTerminal(sys, &env)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	result, err := launch.Run(ctx, req, env)
	done(result, err)
	told(result, err)
	return result.Code, err
}

// guardOf is how the guard of a job on one node is called; nil for more nodes, where the
// helper here is a process of its own. So it is for a job that may wait: stopped
// together with mpiexec, its helper would keep the place in the queue.
func guardOf(req job.Request) []string {
	elsewhere := req.Queue.Host != nil && (len(req.Nodes) != 1 || !req.Queue.Host.Same(req.Nodes[0]))
	beyond := func(def job.NodeDef) bool { return !def.Local }
	if req.Spawn.Any || slices.ContainsFunc(req.Spawn.List, beyond) {
		return nil // there may be more hosts later
	}
	if len(req.Nodes) != 1 || !req.Nodes[0].Local || req.Wait || elsewhere || runtime.GOOS != "linux" {
		return nil
	}
	return []string{guardArg, string(req.Job), strconv.FormatInt(req.Limits.Grace.Milliseconds(), 10)}
}

// launchEnv is what a launch may know of the world around it.
func launchEnv(line option.Line, sys System, out, errs *stdio.Printer) launch.Env {
	env := launch.Env{
		Dialer: sys.Dialer, Out: out, Err: errs, Signals: sys.Signals, Suspend: sys.Suspend,
		Log: logger(errs, line.Job.Verbosity, coloured(line.Job.Color, sys.getenv, isTerminal(sys.Err))), Greet: connectTimeout(line.Job), Silence: silence, Umask: umask(),
		Report: line.Job.ReportBindings,
		Say:    func(text string) { fmt.Fprintf(errs, "mpiexec: %s\n", show.Clean(text)) },
	}
	if line.Job.Verbosity < 0 {
		env.Say = func(string) {}
	}
	return env
}

// silence is how long a link may be dead before its node is lost (SIG-7).
const silence = 45 * time.Second

// connectTimeout is how long one host may take until it is logged in to, and its
// helper to say its first words.
func connectTimeout(j option.Job) time.Duration {
	if j.ConnectTimeout > 0 {
		return j.ConnectTimeout.Duration()
	}
	return 10 * time.Second
}

// umask is ours, which the ranks get too (ENV-8). It can only be read by setting it.
func umask() int {
	mask := syscall.Umask(0o077) // what is made meanwhile is open to nobody
	syscall.Umask(mask)
	return mask
}

// fineTime has all logs tell of parts of a second; the default has whole ones.
var fineTime = sync.OnceFunc(func() { zerolog.TimeFieldFormat = time.RFC3339Nano })

// logger writes for people to standard error: warnings always, what is going on
// with -v, everything with -vv.
func logger(w io.Writer, verbosity int, color bool) zerolog.Logger {
	level := zerolog.WarnLevel
	switch {
	case verbosity < 0:
		level = zerolog.ErrorLevel
	case verbosity == 1:
		level = zerolog.InfoLevel
	case verbosity > 1:
		level = zerolog.DebugLevel
	}
	fineTime()
	clean := func(text any) string { // nil: there is none
		if text == nil {
			return ""
		}
		return show.Clean(fmt.Sprintf("%s", text))
	}
	console := zerolog.ConsoleWriter{Out: w, NoColor: !color, TimeFormat: "15:04:05.000", FormatMessage: clean, FormatFieldValue: clean}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}

// world is what a request may know, beside this machine and its cluster.
func world(sys System) request.World {
	return request.World{
		Environ: sys.Environ, Open: remembering(opener(sys)), Stat: os.Stat,
		OpenToAll: func(name string) bool { return openToAll(name, 0) },
	}
}
