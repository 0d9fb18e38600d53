/*
Package cli is the command line of mpiexec: it reads the world once, hands values to
package launch, and says what came of it.

	args, environment --> Table.Parse --> request.Make --> launch.Run --> exitCode, report
	                                            |               |
	            world.go: files, this machine --'               '-- dialer (reach, sshx)

Each thing that a line may ask for has a function: tell, planFile (main.go and plan.go), and
those of a call, which reach hosts or might: run, plan, dryRun, jobs, doctor. Whatever comes of
it, exitCode is asked for the code: by Main, and for --report and --json.

Options and their help stand in one table (package option). Nobody else in the program
reads arguments, the environment or the user's files.
*/
package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/cli/option"
	"remshell/format"
	"remshell/job"
	"remshell/launch/node"
	"remshell/usererr"
)

// Version is that of the program; the Makefile sets it.
var Version = "development"

// pmiVersions are those that the servers of ranks speak (PMIX-66).
var pmiVersions = []string{"PMI-1 1.1", "PMI-2 2.0", "pmix 3.0-7.0 (server)"}

// HandledSignals are those mpiexec takes care of (cli.md SIG-1 to SIG-5).
var HandledSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE, syscall.SIGXCPU,
}

// A System is all the program may know of the world around it.
type System struct {
	In           io.Reader
	Out, Err     io.Writer
	Signals      <-chan os.Signal
	CatchSignal  func(os.Signal) // has one more signal come on Signals
	AwaitSignals func()          // returns when signals come on Signals, before which nothing is begun; nil: they do
	TerminalLent func(func())    // told how to give the terminal back, if we must leave at once; may be nil
	Suspend      func()          // stops this process as ^Z does, and returns when it goes on
	Environ      []string
	Getwd        func() (string, error)
	FS           fs.FS             // "/"
	Dialer       node.HelperDialer // nil: chosen from package transport, by host

	probeAhead func() (job.Probe, error) // a look at this machine, before it is known that the job runs here alone; nil: nobody looks
}

func (s System) getenv(name string) string {
	value, _ := job.LookupEnv(s.Environ, name)
	return value
}

// awaitReady waits until a signal would not end us any more, as one may before anything has begun.
func (s System) awaitReady() {
	if s.AwaitSignals != nil {
		s.AwaitSignals()
	}
}

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, sys System) int {
	code := job.ExitOK
	ours, err := parseOwnErrorCode(sys.getenv("MPIEXEC_ERROR_CODE"))
	if err == nil {
		code, err = runCommandLine(ctx, args, sys, ours)
	}
	sys.newMessagePrinter(sys.Err, option.JobOptions{}).printError(err)
	return exitCode(code, err, ours)
}

// runCommandLine does what a command line asks for. ours is the code of our own failures.
func runCommandLine(ctx context.Context, args []string, sys System, ours int) (code int, err error) {
	if port, called := singletonPort(args); called {
		sys.awaitReady()
		return job.ExitOK, runSingleton(ctx, port, sys, ours)
	}
	table := option.Mpiexec(signalNumber)
	if words, asked := completionWords(args); asked {
		sys.awaitReady()
		return job.ExitOK, printCompletion(ctx, words, table, sys)
	}
	if len(args) > 0 && args[0] == aprunArg {
		var done bool
		sys.awaitReady()
		if args, done, err = translateAprun(args[1:], table, sys); done || err != nil {
			return job.ExitOK, err
		}
	}
	line, err := table.Parse(args, optionSources(sys))
	sys.awaitReady()
	if err != nil {
		return 0, err
	}
	if line.Job.Verbosity >= 0 {
		for _, text := range line.Warnings {
			sys.newMessagePrinter(sys.Err, line.Job).printMessage(message{messageKind: warningMessage, text: format.EscapeSentence(text)})
		}
	}
	if done, err := printInfo(table, line, sys); done {
		return job.ExitOK, err
	}
	if line.Job.SelfTest {
		return runSelfTest(ctx, args, table, sys, ours)
	}
	if err := line.MergeLayout(); err != nil {
		return 0, err
	}
	if err := checkQueries(line); err != nil {
		return 0, err
	}
	if line.Job.ClusterState != "" {
		return job.ExitOK, planFromState(line, sys)
	}
	return runWithHosts(ctx, args, line, sys, ours)
}

// signalNumber is option.SignalNumbers of this system.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }

// printInfo answers those options that only tell something of ourselves.
func printInfo(table *option.Table, line option.Line, sys System) (done bool, err error) {
	var text string
	switch {
	case line.Version:
		text = option.VersionText(Version, pmiVersions)
	case line.ListPMI:
		text = option.PMIOffersText()
	case line.Help != nil && line.Help.Option != "":
		text, err = table.HelpOn(line.Help.Option)
	case line.Help != nil:
		text = table.Usage()
	case line.Job.Man:
		text = table.Man(Version)
	case line.Job.Completion != "":
		text = table.CompletionScript(line.Job.Completion)
	case line.Job.Info:
		text = table.Info(line, sys.Environ, option.VersionText(Version, pmiVersions)) + nodeSetInfo(line, sys)
	default:
		return false, nil
	}
	if err == nil {
		_, err = io.WriteString(sys.Out, text)
	}
	return true, err
}

// checkQueries refuses what cannot be asked together, and what has no meaning for what is asked.
func checkQueries(line option.Line) error {
	j := line.Job
	file, several := j.ClusterState != "", len(line.Apps) > 1
	if err := line.Misplaced(startsRanks(j)); err != nil {
		return err
	}
	switch {
	case file && j.NoLocal: // by --map-by, too
		return &usererr.Error{Text: "-nolocal has no meaning with --cluster-state, which does not tell where mpiexec runs", Remedy: "leave it out"}
	case file && several, j.SaveState != "" && several:
		return &usererr.Error{Text: "a cluster state covers a single executable", Remedy: "run it for each app context alone"}
	case j.SaveState != "" && (file || j.Probe == "no"):
		return &usererr.Error{Text: "--save-cluster-state needs a look at the hosts", Remedy: "leave --cluster-state and --no-probe out"}
	case j.JSON != "" && j.Plan && !j.DryRun:
		return &usererr.Error{Text: "--json has no meaning with --plan, which writes JSON as it is", Remedy: "leave it out"}
	case j.Outputs().JSON && (j.JSON == "" || !startsRanks(j)):
		return &usererr.Error{Text: "--output json has a meaning only with --json and a run", Remedy: "add --json, or leave it out"}
	case j.Doctor && (j.Plan || j.DryRun || isJobQuery(j)):
		return &usererr.Error{Text: "--doctor is a question of its own", Remedy: "ask one at a time"}
	case j.SelfTest && (j.Plan || j.DryRun || j.Doctor || isJobQuery(j) || j.Resume != "" || j.JSON != ""):
		return &usererr.Error{Text: "--selftest is a question of its own", Remedy: "ask one at a time"}
	case len(oneJobOptions(j)) > 1:
		return &usererr.Error{Text: strings.Join(oneJobOptions(j), " and ") + " cannot be asked together", Remedy: "ask one at a time"}
	case isJobQuery(j) && isOnLine(line, "wait"):
		return &usererr.Error{Text: "--wait has no meaning beside what is asked of jobs", Remedy: "leave it out"}
	case j.Resume != "" && (isJobQuery(j) || j.Doctor || file):
		return &usererr.Error{Text: "--resume takes up a job, and the other option asks of something else", Remedy: "leave one of them out"}
	}
	return nil
}

// isOnLine reports whether an option that holds for the whole job was said for this run alone.
func isOnLine(line option.Line, name string) bool {
	g, given := line.Origin(name)
	return given && g.OnLine()
}

// startsRanks reports whether a command line starts ranks, and does not only ask for something.
func startsRanks(j option.JobOptions) bool {
	return !isJobQuery(j) && !j.Doctor && !j.Plan && !j.DryRun
}

// The words by which this program is started on a node, before any parsing. They are
// for nobody but us: no user's program can begin with them, since options do.
const (
	reaperStartArg = "--helper"       // on another host: the helper and its keeper (package helper/reaper)
	reaperArg      = "--keeper"       // what such a keeper calls itself
	helperArg      = "--helper-child" // the helper itself; on this host mpiexec is its keeper
	guardArg       = "--helper-guard" // who ends the ranks of an mpiexec that was killed
)

// IsHelper reports whether the first argument starts a helper or its keeper.
func IsHelper(arg string) bool {
	return arg == reaperStartArg || arg == reaperArg || arg == helperArg || arg == guardArg || arg == relayArg || arg == selfTestArg
}
