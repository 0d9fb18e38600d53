package transport

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

/*
A LocalChild starts the helper of this machine as a child of this process.

	mpiexec (subreaper) --- helper (subreaper) --- ranks --- ...
	        '<--------- orphans of a killed helper ---'

On other nodes a reaper runs between sshd and the helper. On this machine mpiexec takes the place of the reaper. A
helper that exits normally leaves no process behind. If the helper was killed, its orphans become children of mpiexec,
which ends them. When mpiexec dies, the helper reads end of file and gives its ranks a grace period before it kills
them. A parent-death signal would end the helper before that, so none is set.
*/
type LocalChild struct {
	Self        HelperBinary
	Env         []string // environment of the helper; nil means that of this process
	KeepSession bool     // keep the helper in this process's session, where a batch system looks for it
}

// closePatience is the maximum time for which Close waits for a helper to end. A helper that needs longer continues
// without mpiexec.
const closePatience = 500 * time.Millisecond

var _ Transport = (*LocalChild)(nil)

// Dial starts a helper on this machine for each host of a set. If there are several hosts, they are simulated nodes, or
// different names of this machine.
func (c *LocalChild) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, c.dial)
}

// Route returns RouteLocal, for any host.
func (c *LocalChild) Route(Host) (string, error) { return RouteLocal, nil }

// RouteLocal is the value that Route returns for this machine.
const RouteLocal = "this machine"

// CheckLocalHelper checks the path of mpiexec that the user has given for this machine. The helper on this
// machine is the running program. So CheckLocalHelper returns an error if the file at that path is a different
// build.
func CheckLocalHelper(host Host) error {
	if host.Helper == "" {
		return nil
	}
	self, err := RunningBinary()
	if err == nil {
		err = self.CheckSameFile(host.Helper)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", host.Helper, err)
	}
	return nil
}

// dial starts the helper and returns its stream.
func (c *LocalChild) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	if err := CheckLocalHelper(host); err != nil {
		return nil, err
	}
	fail := func(err error) (io.ReadWriteCloser, error) {
		return nil, &Error{Host: host.Name, Step: "start", Kind: KindOther, Why: fmt.Sprintf("the helper cannot be started here: %v", err), Err: err}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, &Error{Host: host.Name, Step: "start", Kind: KindCanceled, Why: fmt.Sprintf("cancelled: %v", err), Err: err}
	}
	if err := becomeSubreaper(); err != nil {
		return fail(err)
	}
	program, err := runningProgram()
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(program, "--helper-child", c.Self.Build)
	cmd.Args[0] = "remshell" // killall mpiexec then leaves the helper to clean up
	cmd.Env = c.Env
	if c.KeepSession {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	var before startTime
	born := make(chan struct{}) // closed when before is set
	outOfMemory := watchOutOfMemory()
	p, err := startProcess(cmd, func(p *localCommand) { p.waitFor(closePatience) }, func(p *localCommand) {
		<-born
		if p.status != nil {
			endOrphans(before)
		}
	})
	if err != nil {
		return fail(err)
	}
	before = startTimeOf(cmd.Process.Pid)
	close(born)
	p.interpret.why = func(status error, stderr string) string {
		if why := outOfMemory(); why != "" && waitErrorText(status) == exitText(128+int(syscall.SIGKILL)) {
			stderr = why
		}
		return defaultStderrReader.why(status, stderr)
	}
	conn := newConn(p)
	conn.source = "child"
	return conn, nil
}
