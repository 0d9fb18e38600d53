package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/deadline"
	"remshell/sshx"
)

// A shellProgram is a program on this machine that runs a shell on a host. Command and ByStarter use a
// shellProgram.
type shellProgram struct {
	self        HelperBinary
	env         []string // environment of the program; nil means that of this process
	times       stepTimeouts
	retries     int // number of attempts if a server is busy; 0 means 4
	pacer       *sshx.Pacer
	log         zerolog.Logger
	missingHint string // hint if the program does not exist
	stop        func(p *localCommand, helperRuns bool)
	interpret   stderrReader
	dialBack    *dialBack // how the helper connects to mpiexec; nil if it uses the program's streams
}

// A stderrReader uses the exit code and the stderr of a program to determine why the program has ended.
type stderrReader struct {
	verdict func(stderr string, exit int) Verdict    // for an end before the helper's first byte
	why     func(status error, stderr string) string // for an end after that
}

var defaultStderrReader = stderrReader{verdict: Classify, why: func(status error, stderr string) string {
	return withLastLine(waitErrorText(status), stderr)
}}

const defaultRetries = 4

// dial runs the program and starts the helper with it. If the SSH server or the batch system is busy, dial retries, but
// never after the helper was started (cli.md SSH-7, SSH-8).
func (r shellProgram) dial(ctx context.Context, host Host, argv []string) (io.ReadWriteCloser, error) {
	for tries := 0; ; {
		entered := r.self.tracer.begin(host.Name, "wait to connect")
		pass, err := r.pacer.Acquire(ctx, sshx.UnknownServer)
		entered(err)
		if err != nil {
			return nil, &Error{Host: host.Name, Step: "connect", Kind: KindCanceled, Why: fmt.Sprintf("cancelled: %v", err), Err: err}
		}
		conn, err := r.attempt(ctx, host, argv)
		var e *Error
		busy := errors.As(err, &e) && e.Kind.isDropped()
		pass.Release(outcomeOf(err, busy), nil)
		if !pass.IsCrowded() {
			tries++
		}
		if err == nil {
			return conn, nil
		}
		if !busy || tries >= cmp.Or(max(r.retries, 0), defaultRetries) {
			return nil, err
		}
		r.log.Debug().Str("host", host.Name).Str("said", e.Raw).Msg("the server is busy, so mpiexec tries again")
		paused := r.self.tracer.begin(host.Name, "pause")
		sleepContext(ctx, sshx.Backoff(tries, rand.Float64()))
		paused(ctx.Err())
	}
}

// outcomeOf returns the outcome of an attempt to connect, for sshx.Pacer. Only a busy server matters; other failures
// concern a single host.
func outcomeOf(err error, busy bool) sshx.Outcome {
	switch {
	case err == nil:
		return sshx.LoggedIn
	case busy:
		return sshx.Dropped
	}
	return sshx.OwnFailure
}

// sleepContext waits for the duration d, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// attempt runs the program once for a host and starts the helper with it.
func (r shellProgram) attempt(ctx context.Context, host Host, argv []string) (*Conn, error) {
	r.log.Debug().Str("host", host.Name).Strs("argv", argv).Msg("starting")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = r.env
	var spoken atomic.Bool
	p, err := startProcess(cmd, func(p *localCommand) { r.stop(p, spoken.Load()) }, endLeftovers)
	if err != nil {
		e := &Error{Host: host.Name, Step: "start", Kind: KindOther, Why: fmt.Sprintf("%s cannot be started: %v", argv[0], innermost(err)), Err: err}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			e.Kind, e.Remedy = KindMissing, r.missingHint
		}
		if errors.Is(err, exec.ErrNotFound) {
			e.Why = argv[0] + " is not in the PATH"
		}
		return nil, e
	}
	p.interpret = r.interpret
	self := r.self.AtPath(host.Helper)
	if r.dialBack != nil {
		self.dialBack = &invitedHelper{r.dialBack, p}
	}
	conn, err := self.deliver(deadline.New(ctx, r.times.shell, errStepTimeout, nil), host.Name, p, r.times)
	spoken.Store(err == nil)
	return conn, err
}

// innermost returns the innermost wrapped error, which usually comes from the operating system.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// These are times to wait after the streams of a program were closed. A program may end by itself within closeGrace.
// Otherwise it receives SIGTERM and, after termGrace, SIGKILL. killGrace is the maximum time to wait after SIGKILL.
const (
	closeGrace = 100 * time.Millisecond
	termGrace  = 300 * time.Millisecond
	killGrace  = 500 * time.Millisecond
)

// endGroup ends the processes of the program's process group. If the program does not end by itself within a short
// time, endGroup sends SIGTERM and, after a grace period, SIGKILL.
func endGroup(p *localCommand) {
	if p.waitFor(closeGrace) {
		return
	}
	p.signalGroup(syscall.SIGTERM)
	if p.waitFor(termGrace) {
		return
	}
	p.signalGroup(syscall.SIGKILL)
	p.waitFor(killGrace)
}

// endLeftovers kills processes that a program has left in its process group when it exited.
func endLeftovers(p *localCommand) { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
