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
	Fanout   int           // programs in the set-up phase at once; 0: 64
	Log      zerolog.Logger

	gate gate
}

const (
	defaultRetries = 4
	defaultFanout  = 64
)

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
		limit, err := c.gate.enter(ctx, cmp.Or(max(c.Fanout, 0), defaultFanout))
		if err != nil {
			return nil, &Error{Host: host.Name, Step: "connect", Kind: KindCanceled, Why: fmt.Sprintf("given up: %v", err), Err: err}
		}
		conn, err := c.attempt(ctx, host, argv)
		var e *Error
		busy := errors.As(err, &e) && e.Kind == KindBusy
		c.gate.leave(busy)
		// A drop out of a crowd tells about the crowd, not about this attempt.
		if limit <= crowd {
			tries++
		}
		if err == nil {
			return conn, nil
		}
		if !busy || tries >= cmp.Or(max(c.Retries, 0), defaultRetries) {
			return nil, err
		}
		c.Log.Debug().Str("host", host.Name).Str("said", e.Raw).Msg("server is busy, trying again")
		pause(ctx, backoff(tries, rand.Float64()))
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
