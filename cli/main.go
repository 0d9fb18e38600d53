/*
Package cli implements the command line of mpiexec. It reads arguments, environment and files once, runs the job with
package launch, and reports the result.

	args, environment --> Table.Parse --> request.Make --> launch.Run --> exitCode, report
	                                            |               |
	            world.go: files, this machine --'               '-- dialer (transport, sshx)

Each action of mpiexec is one function. The functions printInfo and planFromState connect to no host. The methods
runJob, planOnly, planOffline, answerJobQuery, runDoctor and drawTopology of invocation may connect to hosts.
exitCode returns the exit code of every outcome, for Main, --report and --json.

Options and their help are in one table (package option). No other package reads arguments, the
environment or the user's files.
*/
package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/cli/option"
	"remshell/format"
	"remshell/job"
	"remshell/launch/node"
	"remshell/usererr"
)

// Version is the version of the program, as tools/version.sh prints it. The Makefile sets it.
var Version = "development"

// pmiVersions lists the PMI versions that ranks can use (rule PMIX-66).
var pmiVersions = []string{"PMI-1 1.1", "PMI-2 2.0", "pmix 3.0-7.0 (server)"}

// HandledSignals are the signals that mpiexec handles (cli.md SIG-1 to SIG-5).
var HandledSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPIPE, syscall.SIGXCPU,
}

// A System gives the program access to its process and machine: streams, signals, environment, directory and
// files. Tests replace it.
type System struct {
	In           io.Reader
	Out, Err     io.Writer
	Signals      <-chan os.Signal
	CatchSignal  func(os.Signal) // sends one more signal to Signals from now on
	AwaitSignals func()          // waits until signals are sent to Signals; nothing is started before; nil: they already are
	TerminalLent func(func())    // receives a function that restores the terminal, for an immediate exit; may be nil
	Suspend      func()          // stops this process as ^Z does, and returns when it is continued
	Environ      []string
	Getwd        func() (string, error)
	FS           fs.FS             // "/"
	Dialer       node.HelperDialer // nil: chosen from package transport, by host

	frontEnd   string                    // mpiexec, or one of frontEnds; Main sets it
	probeAhead func() (job.Probe, error) // result of a probe of this machine that was begun early (startLocalProbe); nil: none was
}

// getenv returns the value of an environment variable, or "".
func (s System) getenv(name string) string {
	value, _ := job.LookupEnv(s.Environ, name)
	return value
}

// awaitReady waits until mpiexec has installed its signal handlers. Before that, a signal would end the
// process, so nothing may be started yet.
func (s System) awaitReady() {
	if s.AwaitSignals != nil {
		s.AwaitSignals()
	}
}

// Main runs the program with the given arguments and returns its exit code.
func Main(ctx context.Context, args []string, sys System) int {
	sys.frontEnd, args = splitFrontEnd(args)
	code := job.ExitOK
	ours, err := parseOwnErrorCode(sys.getenv("MPIEXEC_ERROR_CODE"))
	if err == nil {
		code, err = runCommandLine(ctx, args, sys, ours)
	}
	sys.newMessagePrinter(sys.Err, option.JobOptions{}).printError(err)
	return exitCode(code, err, ours)
}

// runCommandLine carries out a command line. errorCode is the exit code of mpiexec's own failures.
func runCommandLine(ctx context.Context, args []string, sys System, errorCode int) (code int, err error) {
	if port, isCall := singletonPort(args); isCall {
		sys.awaitReady()
		return job.ExitOK, runSingleton(ctx, port, sys, errorCode)
	}
	table := option.Mpiexec(signalNumber)
	if statusFrontEnds[sys.frontEnd] != nil {
		var done bool
		if args, done, err = translateStatus(args, option.Mpijob(table), sys); done || err != nil {
			return job.ExitOK, err
		}
	}
	if sys.isMpijob() {
		return runMpijob(ctx, args, option.Mpijob(table), sys, errorCode)
	}
	if sys.frontEnd == "aprun" {
		var done bool
		sys.awaitReady()
		if args, done, err = translateAprun(args, table, sys); done || err != nil {
			return job.ExitOK, err
		}
	}
	if words, requested := completionWords(args); requested {
		sys.awaitReady()
		return job.ExitOK, printCompletion(ctx, words, table, sys)
	}
	line, err := table.Parse(args, optionSources(sys))
	sys.awaitReady()
	if err != nil {
		return 0, err
	}
	if line.Job.SelfTest {
		sys.printWarnings(line)
		return runSelfTest(ctx, args, table, sys, errorCode)
	}
	return runLine(ctx, args, line, table, sys, errorCode)
}

// runLine carries out a parsed command line of any front end. errorCode is the exit code of mpiexec's own
// failures.
func runLine(ctx context.Context, args []string, line option.Line, table infoTexts, sys System, errorCode int) (code int, err error) {
	sys.printWarnings(line)
	if done, err := printInfo(table, line, sys); done {
		return job.ExitOK, err
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
	return runWithHosts(ctx, args, line, sys, errorCode)
}

// printWarnings prints the warnings about the options of a command line, unless -q is given.
func (s System) printWarnings(line option.Line) {
	if line.Job.Verbosity < 0 {
		return
	}
	for _, text := range line.Warnings {
		s.newMessagePrinter(s.Err, line.Job).printMessage(message{messageKind: warningMessage, text: format.EscapeSentence(text)})
	}
}

// signalNumber returns the number of a signal on this operating system, or 0 if there is no such signal. Package option
// gets it as a function.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }

// infoTexts is the interface to the help and the manual page of one program name. Both are generated from the table
// of options of that program name.
type infoTexts interface {
	HelpOn(topic string) (string, error) // topic is a word or an option; empty: general help
	Man(version string) string
	Info(line option.Line, environ []string, version string) string
}

// printInfo prints the information that an option such as --version or --help asks for. done is false if there is no
// such option.
func printInfo(table infoTexts, line option.Line, sys System) (done bool, err error) {
	var text string
	switch {
	case line.Version:
		text = option.VersionText(Version, pmiVersions)
	case line.ListPMI:
		text = option.PMIOffersText()
	case line.Help != nil:
		text, err = table.HelpOn(line.Help.Option)
	case line.Job.Man:
		text = table.Man(Version)
	case line.Job.Completion != "":
		text = option.CompletionScript(line.Job.Completion)
	case line.Job.Info:
		text = table.Info(line, sys.Environ, option.VersionText(Version, pmiVersions)) + nodeSetInfo(line, sys)
	default:
		return false, nil
	}
	if err == nil && line.Help == nil && isOnLine(line, "json") {
		err = &usererr.Error{Text: "--json cannot be used with options such as --version and --info, which print text about mpiexec itself", Remedy: "leave out --json"}
	}
	if err == nil {
		_, err = io.WriteString(sys.Out, text)
	}
	return true, err
}

// checkQueries returns an error for an option that has no meaning together with the requested action. It
// checks the tags "needs" and "excludes" of the options, and rules about the values of several options.
func checkQueries(line option.Line) error {
	j := line.Job
	file, manyApps := j.ClusterState != "", len(line.Apps) > 1
	if err := line.Misplaced(startsRanks(line)); err != nil {
		return err
	}
	switch {
	case file && j.NoLocal: // by --map-by, too
		return &usererr.Error{Text: "-nolocal cannot be used with --cluster-state: the file does not say which node runs mpiexec", Remedy: "leave out -nolocal"}
	case file && manyApps, j.SaveState != "" && manyApps:
		return &usererr.Error{Text: "--cluster-state and --save-cluster-state accept only one app context", Remedy: "run mpiexec once for each app context"}
	case j.JSON != "" && j.Plan && !j.DryRun:
		return &usererr.Error{Text: "--json is not needed with --plan, which always writes JSON", Remedy: "leave out --json"}
	case j.Outputs().JSON && !startsRanks(line):
		return &usererr.Error{Text: "--output json cannot be used in a command that starts no ranks", Remedy: "leave out --output json"}
	case j.Outputs().JSON && j.JSON == "":
		return &usererr.Error{Text: "--output json requires --json", Remedy: "add --json, or leave out --output json"}
	case printsTopologyOnly(line) && isOnLine(line, "json"):
		return &usererr.Error{Text: "--display topo cannot print JSON", Remedy: "leave out --json"}
	}
	return nil
}

// isOnLine reports whether an option was given on the command line itself. It returns false for options from variables
// and files.
func isOnLine(line option.Line, name string) bool {
	g, given := line.Origin(name)
	return given && g.OnLine()
}

// startsRanks reports whether the command line starts ranks. A command line that only asks for information
// does not.
func startsRanks(line option.Line) bool {
	return line.Query.Command == "" && !line.Job.Plan && !line.Job.DryRun
}

// These are the first arguments with which mpiexec starts itself as a helper process. They are checked before
// options are parsed. They are not in the table of options, so no command line of a user begins with them.
const (
	reaperStartArg = "--helper"       // on another host: the helper and its reaper (package helper/reaper)
	reaperArg      = "--reaper"       // the reaper
	helperArg      = "--helper-child" // the helper itself; on this host mpiexec is its reaper
	guardArg       = "--helper-guard" // the guard, which ends the ranks if mpiexec is killed
)

// IsHelper reports whether arg, the first argument of this process, is one with which mpiexec starts itself
// as a helper process. The process then runs HelperMain, as a helper, reaper, guard, relay or rank of
// --selftest.
func IsHelper(arg string) bool {
	return arg == reaperStartArg || arg == reaperArg || arg == helperArg || arg == guardArg || arg == relayArg || arg == selfTestArg
}
