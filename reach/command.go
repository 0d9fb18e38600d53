package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/sshx"
)

// A Command reaches nodes through a program that gives a shell there: ssh, rsh,
// kubectl exec -i, docker exec -i. Its fields must not change after the first Dial.
type Command struct {
	Self     Self
	Template []string      // -launcher-exec, split into words: a program, or words with %h
	Args     []string      // -launcher-args, already split; before ours
	Me       string        // the user here, for %u
	Timeout  time.Duration // how long nothing may move before the helper speaks; 0: 10 s
	Retries  int           // attempts where a server is busy; 0: 4
	Pacer    *sshx.Pacer   // says how many may be in the set-up phase at once
	Log      zerolog.Logger
}

const defaultRetries = 4

var _ Way = (*Command)(nil)

// Dial reaches the hosts of a set.
func (c *Command) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return Each(ctx, hosts, c.dial)
}

// Route is the command that would be run.
func (c *Command) Route(host Host) (string, error) {
	argv, err := c.argv(host)
	return "by " + strings.Join(argv, " "), err
}

func (c *Command) argv(host Host) ([]string, error) {
	return Argv(c.Template, c.Args, host, c.Me, c.timeout())
}

func (c *Command) timeout() time.Duration { return cmp.Or(max(c.Timeout, 0), defaultTimeout) }

// dial starts the program and through it the helper. Where a server is busy it is
// tried again, but never after the helper was started (cli.md SSH-7, SSH-8).
func (c *Command) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	argv, err := c.argv(host)
	if err != nil {
		return nil, &Error{Host: host.Name, Step: "config", Kind: KindConfig, Why: err.Error(), Err: err}
	}
	for tries := 0; ; {
		pass, err := c.Pacer.Enter(ctx, sshx.UnknownServer)
		if err != nil {
			return nil, &Error{Host: host.Name, Step: "connect", Kind: KindCanceled, Why: fmt.Sprintf("given up: %v", err), Err: err}
		}
		conn, err := c.attempt(ctx, host, argv)
		var e *Error
		busy := errors.As(err, &e) && e.Kind == KindBusy
		pass.Leave(outcomeOf(err, busy), nil)
		if !pass.Crowded() {
			tries++
		}
		if err == nil {
			return conn, nil
		}
		if !busy || tries >= cmp.Or(max(c.Retries, 0), defaultRetries) {
			return nil, err
		}
		c.Log.Debug().Str("host", host.Name).Str("said", e.Raw).Msg("server is busy, trying again")
		pause(ctx, sshx.Backoff(tries, rand.Float64()))
	}
}

// outcomeOf is what an attempt says about the servers behind the program. What it is
// refused for otherwise is one host's.
func outcomeOf(err error, busy bool) sshx.Outcome {
	switch {
	case err == nil:
		return sshx.LoggedIn
	case busy:
		return sshx.Dropped
	}
	return sshx.Unclear
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// attempt runs the program once.
func (c *Command) attempt(ctx context.Context, host Host, argv []string) (*Conn, error) {
	c.Log.Debug().Str("host", host.Name).Strs("argv", argv).Msg("starting")
	cmd := exec.Command(argv[0], argv[1:]...)
	p, err := startProcess(cmd, endGroup, endStragglers)
	if err != nil {
		e := &Error{Host: host.Name, Step: "start", Kind: KindOther, Why: fmt.Sprintf("%s cannot be started: %v", argv[0], cause(err)), Err: err}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			e.Kind, e.Remedy = KindMissing, "check -launcher-exec"
		}
		return nil, e
	}
	return c.Self.At(host.Helper).deliver(ctx, host.Name, p, c.timeout())
}

// cause is the innermost error: the system's own word.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Times of a program whose streams were closed: ssh and its like end by
// themselves, then are asked to, then made to.
const (
	streamGrace = 100 * time.Millisecond
	termGrace   = 300 * time.Millisecond
	killGrace   = 500 * time.Millisecond
)

// endGroup ends the program with all it has started in its process group.
func endGroup(p *localCommand) {
	if p.within(streamGrace) {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	if p.within(termGrace) {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.within(killGrace)
}

// endStragglers ends what a program that has just ended left in its group.
func endStragglers(p *localCommand) { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
