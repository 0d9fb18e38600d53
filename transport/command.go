package transport

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"remshell/sshx"
)

// A Command reaches nodes through a program that gives a shell there: ssh, rsh,
// kubectl exec -i, docker exec -i. Its fields must not change after the first Dial.
type Command struct {
	Self      HelperBinary
	Template  []string      // -launcher-exec, split into words: a program, or words with %h
	Args      []string      // -launcher-args, already split; before ours
	LocalUser string        // the user here, for %u
	Timeout   time.Duration // for a login, which the program does not tell of; 0: 10 s
	Shell     time.Duration // for each step from the login on; 0: 60 s
	Retries   int           // attempts where a server is busy; 0: 4
	Pacer     *sshx.Pacer   // says how many may be in the set-up phase at once
	Log       zerolog.Logger
}

var _ Transport = (*Command)(nil)

// Dial reaches the hosts of a set.
func (c *Command) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, c.dial)
}

// Route is the command that would be run.
func (c *Command) Route(host Host) (string, error) {
	argv, err := c.argv(host)
	return "by " + strings.Join(argv, " "), err
}

func (c *Command) argv(host Host) ([]string, error) {
	return ShellCommand(c.Template, c.Args, host, c.LocalUser, c.timeout())
}

func (c *Command) timeout() time.Duration { return loginTimeout(c.Timeout) }

// dial starts the program for a host.
func (c *Command) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	argv, err := c.argv(host)
	if err != nil {
		return nil, &Error{Host: host.Name, Step: "config", Kind: KindConfig, Why: err.Error(), Err: err}
	}
	times := programTimeouts(c.Timeout, c.Shell)
	if isSSH(c.Template) { // it gives up by itself what it cannot reach
		times.suspect = "ssh or the login shell"
	}
	p := shellProgram{self: c.Self, times: times, retries: c.Retries, pacer: c.Pacer, log: c.Log, missingHint: "check -launcher-exec",
		stop: func(p *localCommand, _ bool) { endGroup(p) }, interpret: defaultStderrReader}
	return p.dial(ctx, host, argv)
}
