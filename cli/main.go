/*
Package cli is the command line of mpiexec: it reads the world once, hands values to
package launch, and says what came of it.

	args, environment, files --> Parse --> request --> launch.Run --> report, exit code
	                                                      |
	                                 dialer (reach, sshx) '

Options and their help stand in one table (options.go). Nobody else in the program
reads arguments, the environment or the user's files.
*/
package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/launch"
	"remshell/reach"
)

// Version is that of the program; the Makefile sets it.
var Version = "development"

// pmiVersions are those that the ranks' server speaks.
var pmiVersions = []string{"PMI-1 1.1"}

// Signals are those mpiexec takes care of (cli.md SIG-1 to SIG-5).
var Signals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE,
}

// A System is all the program may know of the world around it.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  <-chan os.Signal
	Environ  []string
	Getwd    func() (string, error)
	FS       fs.FS         // "/"
	Dialer   launch.Dialer // nil: chosen from package reach, by host
}

func (s System) getenv(name string) string {
	value, _ := lookup(s.Environ, name)
	return value
}

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, sys System) int {
	failure := exitFailure
	if n, err := strconv.Atoi(sys.getenv("MPIEXEC_ERROR_CODE")); err == nil && 0 < n && n < 256 {
		failure = n
	}
	line, err := Parse(args)
	if err != nil {
		report(sys.Err, err)
		return failure
	}
	if done, code := tell(line, sys, failure); done {
		return code
	}
	if line.Job.Plan || line.Job.ClusterState != "" {
		return planFile(line, sys, failure)
	}
	result, err := run(ctx, line, sys)
	if err != nil {
		report(sys.Err, err)
		return exitCode(err, failure)
	}
	return result
}

// tell answers -help and -version.
func tell(line Line, sys System, failure int) (done bool, code int) {
	switch {
	case line.Version:
		fmt.Fprint(sys.Out, VersionText(Version, pmiVersions))
	case line.Help != nil && line.Help.Option != "":
		text, err := Explain(line.Help.Option)
		if err != nil {
			report(sys.Err, err)
			return true, failure
		}
		fmt.Fprint(sys.Out, text)
	case line.Help != nil:
		fmt.Fprint(sys.Out, Usage())
	default:
		return false, 0
	}
	return true, exitOK
}

// run starts the job of a command line and sees it to its end.
func run(ctx context.Context, line Line, sys System) (int, error) {
	here, err := thisMachine(sys)
	if err != nil {
		return 0, err
	}
	site, err := cluster(line.Job, sys)
	if err != nil {
		return 0, err
	}
	req, warnings, err := request(line, scene{sys.Environ, here, site, opener(sys)})
	if err != nil {
		return 0, err
	}
	self, err := reach.This()
	if err != nil {
		return 0, err
	}
	log := logger(sys.Err, line.Job.Verbosity)
	env := launch.Env{
		Dialer: sys.Dialer, Build: self.Build, Out: sys.Out, Err: sys.Err, Signals: sys.Signals, Log: log,
		Label: line.Job.Label, Greet: connectTimeout(line.Job), Silence: silence, Umask: umask(),
		Say: func(text string) { fmt.Fprintf(sys.Err, "mpiexec: %s\n", text) },
	}
	if line.Job.Verbosity < 0 {
		env.Say = func(string) {}
	}
	for _, w := range warnings {
		env.Say(w.Text)
	}
	if readsInput(line) {
		env.In = sys.In
	}
	if env.Dialer == nil {
		dialer, err := newDialer(line.Job, sys, self, log)
		if err != nil {
			return 0, err
		}
		defer dialer.close()
		env.Dialer = dialer
	}
	result, err := launch.Run(ctx, req, env)
	if err == nil && result.Report != "" {
		fmt.Fprintf(sys.Err, "mpiexec: %s\n", result.Report)
	}
	return result.Code, err
}

// silence is how long a link may be dead before its node is lost (SIG-7).
const silence = 45 * time.Second

// connectTimeout is how long one host may take until it is logged in to, and its
// helper to say its first words.
func connectTimeout(j JobOptions) time.Duration {
	if j.ConnectTimeout > 0 {
		return j.ConnectTimeout.Duration()
	}
	return 10 * time.Second
}

// readsInput reports whether rank 0 gets our standard input: unless that is refused
// or holds the host file (IO-6).
func readsInput(line Line) bool {
	for _, s := range line.Sections {
		if s.HostFile == "-" {
			return false
		}
	}
	return line.Job.Stdin != "none"
}

// umask is ours, which the ranks get too (ENV-8). It can only be read by setting it.
func umask() int {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return mask
}

// opener opens the user's files; "-" is standard input (cli.md -hostfile).
func opener(sys System) func(name string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		if name == "-" {
			return io.NopCloser(sys.In), nil
		}
		return os.Open(name)
	}
}

// logger writes for people to standard error: warnings always, what is going on
// with -v, everything with -vv.
func logger(w io.Writer, verbosity int) zerolog.Logger {
	level := zerolog.WarnLevel
	switch {
	case verbosity < 0:
		level = zerolog.ErrorLevel
	case verbosity == 1:
		level = zerolog.InfoLevel
	case verbosity > 1:
		level = zerolog.DebugLevel
	}
	console := zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: "15:04:05.000"}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}
