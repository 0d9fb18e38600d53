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
	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/reach"
	"remshell/sshx"
	"remshell/timeline"
)

// A dialer is the ways to the hosts of one command line.
type dialer struct {
	reach.Ways
	build  string       // that helpers have to be; empty: ours, since nothing else is started
	client *sshx.Dialer // nil: another way
	local  *sshx.Local  // what client and its configuration ask this machine
	warn   func(string) // told of a line of that configuration which is passed over
}

var _ node.Dialer = (*dialer)(nil)

// logins finds out how the SSH server of a host lets us in that was started there for this job; nil: there is none.
type logins func(host string) (reach.Login, bool)

// newDialer chooses the ways of a command line; starter makes that of a batch system, with the others at hand; nil: none
// is used. With a guard there is one node, this one,
// and nothing else is made ready: half of such a job's time is our own start.
func newDialer(j option.Job, sys System, guard []string, starter func(reach.Self, reach.Ways) reach.Way, logins logins, attached *attacher, steps *timeline.Recorder, log zerolog.Logger) (*dialer, error) {
	program, err := remoteShell(j, starter != nil)
	if err != nil {
		return nil, err
	}
	if guard != nil {
		here := &inside{request.HelperEnv(sys.Environ), guard, sys.ahead}
		return &dialer{Ways: reach.Ways{Here: here, There: reach.Nowhere{Why: "is not this machine, the only one of the job"}}}, nil
	}
	self, err := reach.This()
	if err != nil {
		return nil, err
	}
	d := &dialer{build: self.Build}
	d.Here = &reach.Child{Self: self, Env: request.HelperEnv(sys.Environ), Stay: batch.BySessions(batch.World{Env: job.Variables(sys.Environ)}) != nil && !hasTerminal()}
	self = attached.attach(self.Ship(j.ShipHelper)).Watched(watching(steps)).LoginShell(sys.getenv("SHELL"))
	if starter == nil || j.BatchOption().Fallback {
		err = d.choose(j, sys, program, self, logins, log)
	}
	if starter != nil {
		d.There = starter(self, d.Ways)
	}
	return d, err
}

// choose chooses the way to other hosts: none, a program, or our SSH client.
func (d *dialer) choose(j option.Job, sys System, program []string, self reach.Self, logins logins, log zerolog.Logger) error {
	pacer := &sshx.Pacer{Fanout: j.Fanout} // of all connections, whichever way they go
	args, err := programArgs(j, program)
	switch {
	case err != nil:
		return err
	case j.Launcher == "fork":
		d.There = reach.Nowhere{Why: "is not this machine, and -launcher fork starts nowhere else", Words: "out of reach of -launcher fork"}
	case len(program) > 0:
		d.There = &reach.Command{Self: self, Template: program, Args: args, Me: userOf(sys, account(sys)).Name,
			Timeout: connectTimeout(j), Shell: shellTimeout(j), Retries: j.Retries, Pacer: pacer, Log: log}
	default:
		said, err := sshOptions(j.LauncherArgs)
		if err != nil {
			return err
		}
		j.SSHOptions = append(said, j.SSHOptions...) // the first of a key holds
		d.client = &sshx.Dialer{Log: log, Timeout: j.ConnectTimeout.Duration(), Retries: j.Retries,
			Pacer: pacer, AcceptNew: j.AcceptNewKeys, Ask: asker()}
		d.local = sshx.NewLocal(cmp.Or(sys.getenv("SHELL"), "/bin/sh"), j.Fanout)
		d.client.System = d.local.Addresses
		d.There = &reach.SSH{Self: self, Dialer: d.client, Shell: shellTimeout(j), Resolve: resolver(j, sys, d.local, func(text string) { d.warn(text) }), Logins: logins}
	}
	return nil
}

// watching has the steps of the way to hosts noted; nil: nobody wants to know.
func watching(steps *timeline.Recorder) reach.Watch {
	if steps == nil {
		return nil
	}
	return func(host, step string) func(error) { return steps.Begin(timeline.Row{Host: host}, step).End }
}

func (d *dialer) close() {
	if d.client != nil {
		d.client.Close()
		d.local.Close()
	}
}

// inside is the way to the helper in this process.
type inside struct {
	environ, guard []string
	probed         func() (job.Probe, error) // nil: nobody has looked at this machine yet
}

var _ reach.Way = (*inside)(nil)

// Dial starts it.
func (w *inside) Dial(ctx context.Context, hosts []reach.Host) <-chan reach.Result {
	return reach.Each(ctx, hosts, func(_ context.Context, host reach.Host) (io.ReadWriteCloser, error) {
		if err := reach.SameHere(host); err != nil {
			return nil, err
		}
		return newInside(w.environ, w.guard, w.probed), nil
	})
}

// Route is that of a child, too.
func (w *inside) Route(reach.Host) (string, error) { return reach.RouteHere, nil }

// remoteShell is the program that reaches hosts instead of our own SSH; empty: none. With a
// starter it is that.
func remoteShell(j option.Job, starter bool) ([]string, error) {
	switch {
	case starter:
		return nil, nil
	case len(j.LauncherExec) > 0:
		return j.LauncherExec, nil
	case j.Launcher == "rsh":
		return []string{"rsh"}, nil
	case j.Launcher == "exec":
		return nil, &fault.Error{Text: "-launcher exec needs a command", Remedy: "give it with -launcher-exec 'COMMAND %h'"}
	}
	return nil, nil
}

// programArgs are what stands before our own arguments of a program that reaches hosts.
func programArgs(j option.Job, program []string) ([]string, error) {
	args := j.LauncherArgs[:len(j.LauncherArgs):len(j.LauncherArgs)]
	if len(program) == 0 {
		return args, nil
	}
	name := filepath.Base(program[0])
	if len(j.SSHOptions) > 0 && name != "ssh" {
		return nil, &fault.Error{Text: fmt.Sprintf("--ssh-option is for ssh, and %s is another program", name), Remedy: "give it arguments of its own with -launcher-args"}
	}
	if j.SSHConfig != "" && name == "ssh" {
		args = append(args, "-F", j.SSHConfig)
	}
	for _, o := range j.SSHOptions {
		args = append(args, "-o", string(o))
	}
	return args, nil
}

// hasTerminal reports whether we have a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// asker reads a passphrase from the terminal; nil when there is none (SSH-2).
func asker() func(prompt string) ([]byte, error) {
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
