package transport

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"remshell/sshx"
)

// A Command connects to nodes with a program that runs a shell there, such as ssh, rsh, kubectl exec -i or
// docker exec -i. Its fields must not change after the first call of Dial.
type Command struct {
	Self      HelperBinary
	Template  []string      // -launcher-exec, split into words: a program, or words with %h
	Args      []string      // -launcher-args, already split; they come before the other arguments
	LocalUser string        // user on this machine, for %u
	Timeout   time.Duration // time limit for a login, which the program does not report; 0 means 10 s
	Shell     time.Duration // time limit for each step after the login; 0 means 60 s
	Retries   int           // number of attempts if a server is busy; 0 means 4
	Pacer     *sshx.Pacer   // limits how many hosts are being set up at once
	Log       zerolog.Logger
}

var _ Transport = (*Command)(nil)

// Dial starts a helper on each of the hosts. The returned channel delivers one Result for each host.
func (c *Command) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, c.dial)
}

// Route returns the word "by" and the command line of the program for a host.
func (c *Command) Route(host Host) (string, error) {
	argv, err := c.argv(host)
	return "by " + strings.Join(argv, " "), err
}

func (c *Command) argv(host Host) ([]string, error) {
	return ShellCommand(c.Template, c.Args, host, c.LocalUser, c.timeout())
}

func (c *Command) timeout() time.Duration { return loginTimeout(c.Timeout) }

// dial runs the program for one host, and returns the stream of the helper that it starts there.
func (c *Command) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	argv, err := c.argv(host)
	if err != nil {
		return nil, &Error{Host: host.Name, Step: "config", Kind: KindConfig, Why: err.Error(), Err: err}
	}
	times := programTimeouts(c.Timeout, c.Shell)
	if isSSH(c.Template) { // ssh itself gives up a host that it cannot reach
		times.suspect = "ssh or the login shell"
	}
	p := shellProgram{self: c.Self, times: times, retries: c.Retries, pacer: c.Pacer, log: c.Log, missingHint: "install it, or give another program with -launcher-exec",
		stop: func(p *localCommand, _ bool) { endGroup(p) }, interpret: defaultStderrReader}
	return p.dial(ctx, host, argv)
}
