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

// A shellProgram is a program of this machine that gives a shell on a host, as all calls of it have it:
// what Command and ByStarter have in common.
type shellProgram struct {
	self        HelperBinary
	env         []string // of the program; nil: ours
	times       stepTimeouts
	retries     int // attempts where a server is busy; 0: 4
	pacer       *sshx.Pacer
	log         zerolog.Logger
	missingHint string // what to do where there is no such program
	stop        func(p *localCommand, spoken bool)
	interpret   stderrReader
	dialBack    *dialBack // how the helper calls us; nil: it speaks over the program's streams
}

// stderrReader reads what a program has said on its standard error when it has ended.
type stderrReader struct {
	verdict func(stderr string, exit int) Verdict    // before the helper has spoken
	why     func(status error, stderr string) string // after that
}

var defaultStderrReader = stderrReader{verdict: Classify, why: func(status error, stderr string) string {
	return withLastLine(waitErrorText(status), stderr)
}}

const defaultRetries = 4

// dial starts the program and through it the helper. Where a server is busy it is
// tried again, but never after the helper was started (cli.md SSH-7, SSH-8).
func (r shellProgram) dial(ctx context.Context, host Host, argv []string) (io.ReadWriteCloser, error) {
	for tries := 0; ; {
		entered := r.self.tracer.begin(host.Name, "turn")
		pass, err := r.pacer.Acquire(ctx, sshx.UnknownServer)
		entered(err)
		if err != nil {
			return nil, &Error{Host: host.Name, Step: "connect", Kind: KindCanceled, Why: fmt.Sprintf("given up: %v", err), Err: err}
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
		r.log.Debug().Str("host", host.Name).Str("said", e.Raw).Msg("server is busy, trying again")
		paused := r.self.tracer.begin(host.Name, "pause")
		sleepContext(ctx, sshx.Backoff(tries, rand.Float64()))
		paused(ctx.Err())
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
	return sshx.OwnFailure
}

// sleepContext waits for d or the end of ctx.
func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// attempt runs the program once.
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

// innermost is the innermost error: the system's own word.
func innermost(err error) error {
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
	closeGrace = 100 * time.Millisecond
	termGrace  = 300 * time.Millisecond
	killGrace  = 500 * time.Millisecond
)

// endGroup ends the program with all it has started in its process group.
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

// endLeftovers ends what a program that has just ended left in its group.
func endLeftovers(p *localCommand) { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
