package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
	"remshell/launch/node"
	"remshell/sshx"
	"remshell/trace"
	"remshell/transport"
	"remshell/usererr"
)

// A hostDialer contains the transports with which mpiexec reaches the hosts of one command line.
type hostDialer struct {
	transport.Transports
	build     string             // that helpers must have; empty: this process's own, since no other starts
	sshDialer *sshx.Dialer       // nil: hosts are not reached by the built-in ssh
	sshLocal  *sshx.LocalMachine // used by sshDialer and its configuration
	warn      func(string)       // called for each line of ssh_config that is ignored
}

var _ node.HelperDialer = (*hostDialer)(nil)

// batchLogins is the type of functions that return the login for the SSH server that a batch job has started on a
// host. Such a function returns false if there is no such server.
type batchLogins func(host string) (transport.SSHLogin, bool)

// newDialer chooses the transports for the hosts of a command line. If guard, which contains the arguments of the guard
// process, is not nil, all ranks run on this machine, and newDialer prepares no transports to other hosts. If starter
// is not nil, it returns the transport that uses the batch system's starter. Its second argument contains other
// transports to fall back on.
func newDialer(j option.JobOptions, sys System, guard []string, starter func(transport.HelperBinary, transport.Transports) transport.Transport, logins batchLogins, attached *attacher, steps *trace.Recorder, log zerolog.Logger) (*hostDialer, error) {
	program, err := remoteShellProgram(j, starter != nil)
	if err != nil {
		return nil, err
	}
	if guard != nil {
		inProc := &inProcess{request.HelperEnv(sys.Environ), guard, sys.probeAhead}
		return &hostDialer{Transports: transport.Transports{Local: inProc, Remote: transport.Unreachable{Why: "the host is not this machine, and the job runs only on this machine"}}}, nil
	}
	self, err := transport.RunningBinary()
	if err != nil {
		return nil, err
	}
	d := &hostDialer{build: self.Build}
	d.Local = &transport.LocalChild{Self: self, Env: request.HelperEnv(sys.Environ), KeepSession: batch.BySessions(batch.Inputs{Env: job.Variables(sys.Environ)}) != nil && !hasTerminal()}
	self = attached.attach(self.WithDelivery(j.ShipHelper)).WithTracer(stepTracer(steps)).WithLoginShell(sys.getenv("SHELL"))
	if starter == nil || j.BatchOption().Fallback {
		err = d.chooseTransport(j, sys, program, self, logins, log)
	}
	if starter != nil {
		d.Remote = starter(self, d.Transports)
	}
	return d, err
}

// chooseTransport sets the transport to other hosts. This is the built-in SSH client, a program such as rsh,
// or none.
func (d *hostDialer) chooseTransport(j option.JobOptions, sys System, program []string, self transport.HelperBinary, logins batchLogins, log zerolog.Logger) error {
	pacer := &sshx.Pacer{Fanout: j.Fanout} // shared by all connections, also those of login shells
	args, err := programArgs(j, program)
	switch {
	case err != nil:
		return err
	case j.Launcher == "fork":
		d.Remote = transport.Unreachable{Why: "the host is not this machine, and -launcher fork starts ranks only on this machine", RouteText: "-launcher fork cannot reach this host"}
	case len(program) > 0:
		d.Remote = &transport.Command{Self: self, Template: program, Args: args, LocalUser: sshUser(sys, ownAccount(sys)).Name,
			Timeout: connectTimeout(j), Shell: shellTimeout(j), Retries: j.Retries, Pacer: pacer, Log: log}
	default:
		fromArgs, err := sshOptions(j.LauncherArgs)
		if err != nil {
			return err
		}
		j.SSHOptions = append(fromArgs, j.SSHOptions...) // the first value of a keyword wins
		d.sshDialer = &sshx.Dialer{Log: log, Timeout: j.ConnectTimeout.Duration(), Retries: j.Retries,
			Pacer: pacer, AcceptNew: j.AcceptNewKeys, Ask: passphrasePrompt()}
		d.sshLocal = sshx.NewLocalMachine(cmp.Or(sys.getenv("SHELL"), "/bin/sh"), j.Fanout)
		d.sshDialer.LookupSystem = d.sshLocal.Addresses
		d.Remote = &transport.SSH{Self: self, Dialer: d.sshDialer, Shell: shellTimeout(j), Resolve: newSSHResolver(j, sys, d.sshLocal, func(text string) { d.warn(text) }), JobLogins: logins}
	}
	return nil
}

// stepTracer returns a function that adds the steps of connecting to hosts to a trace. If steps is nil, it
// returns nil.
func stepTracer(steps *trace.Recorder) transport.StepTracer {
	if steps == nil {
		return nil
	}
	return func(host, step string) func(error) { return steps.Begin(trace.Row{Host: host}, step).End }
}

func (d *hostDialer) closeAll() {
	if d.sshDialer != nil {
		d.sshDialer.Close()
		d.sshLocal.Close()
	}
}

// An inProcess is the transport to this machine if the helper runs inside the mpiexec process.
type inProcess struct {
	environ, guard []string
	probe          func() (job.Probe, error) // the probe of this machine, if one was begun; else nil
}

var _ transport.Transport = (*inProcess)(nil)

// Dial starts a helper in this process for each host.
func (w *inProcess) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, func(_ context.Context, host transport.Host) (io.ReadWriteCloser, error) {
		if err := transport.CheckLocalHelper(host); err != nil {
			return nil, err
		}
		return newInProcessHelper(w.environ, w.guard, w.probe), nil
	})
}

// Route returns the route to this machine. It is the same for a helper in this process as for a helper that is a
// child.
func (w *inProcess) Route(transport.Host) (string, error) { return transport.RouteLocal, nil }

// remoteShellProgram returns the program, with arguments, that is used to reach hosts. It is empty if the
// built-in SSH client or a batch system's starter is used instead.
func remoteShellProgram(j option.JobOptions, starter bool) ([]string, error) {
	switch {
	case starter:
		return nil, nil
	case len(j.LauncherExec) > 0:
		return j.LauncherExec, nil
	case j.Launcher == "rsh":
		return []string{"rsh"}, nil
	case j.Launcher == "exec":
		return nil, &usererr.Error{Text: "-launcher exec needs a command", Remedy: "give it with -launcher-exec 'COMMAND %h'"}
	}
	return nil, nil
}

// programArgs returns the arguments to put first when program is used to reach hosts. They are the values of
// -launcher-args and, for ssh, also of --ssh-config and --ssh-option.
func programArgs(j option.JobOptions, program []string) ([]string, error) {
	args := j.LauncherArgs[:len(j.LauncherArgs):len(j.LauncherArgs)]
	if len(program) == 0 {
		return args, nil
	}
	name := filepath.Base(program[0])
	if len(j.SSHOptions) > 0 && name != "ssh" {
		return nil, &usererr.Error{Text: fmt.Sprintf("--ssh-option works only with ssh, not with %s", name), Remedy: "pass options to this program with -launcher-args"}
	}
	if j.SSHConfig != "" && name == "ssh" {
		args = append(args, "-F", j.SSHConfig)
	}
	for _, o := range j.SSHOptions {
		args = append(args, "-o", string(o))
	}
	return args, nil
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// passphrasePrompt returns a function that reads a passphrase from the controlling terminal. It returns nil
// if there is no terminal (rule SSH-2).
func passphrasePrompt() func(prompt string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	tty.Close()
	return func(prompt string) ([]byte, error) {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil, errors.New("no terminal")
		}
		defer tty.Close()
		fmt.Fprint(tty, prompt)
		defer fmt.Fprintln(tty)
		return term.ReadPassword(int(tty.Fd()))
	}
}
