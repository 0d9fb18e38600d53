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
A Child starts the helper of this machine as a child of ours.

	mpiexec (subreaper) --- helper (subreaper) --- ranks --- ...
	        '<--------- orphans of a killed helper ---'

On other nodes a keeper stands between sshd and the helper; here we take its
place. A helper that ends well leaves nothing behind. One that was killed leaves
orphans, which fall to us and are ended. When we die, the helper sees its input
end and ends its ranks gently; hence no parent-death signal.
*/
type LocalChild struct {
	Self        HelperBinary
	Env         []string // of the helper; nil: ours
	KeepSession bool     // in our session, where a batch system looks for it
}

// closePatience is how long Close waits for a helper that has been told to end. One
// that needs longer to end its ranks does so without us.
const closePatience = 500 * time.Millisecond

var _ Transport = (*LocalChild)(nil)

// Dial starts a helper for each host of a set; several are simulated nodes, or names of this machine.
func (c *LocalChild) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, c.dial)
}

// Route says that there is no way to go.
func (c *LocalChild) Route(Host) (string, error) { return RouteLocal, nil }

// RouteLocal is the route to this machine.
const RouteLocal = "this machine"

// CheckLocalHelper says why the program that the user has named for this machine is another one than
// that which runs and will be the helper; nil: it is not, or he has named none.
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

// dial starts the helper.
func (c *LocalChild) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	if err := CheckLocalHelper(host); err != nil {
		return nil, err
	}
	fail := func(err error) (io.ReadWriteCloser, error) {
		return nil, &Error{Host: host.Name, Step: "start", Kind: KindOther, Why: fmt.Sprintf("the helper cannot be started here: %v", err), Err: err}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, &Error{Host: host.Name, Step: "start", Kind: KindCanceled, Why: fmt.Sprintf("given up: %v", err), Err: err}
	}
	if err := becomeSubreaper(); err != nil {
		return fail(err)
	}
	program, err := runningProgram()
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(program, "--helper-child", c.Self.Build)
	cmd.Args[0] = "remshell" // who kills all that is called mpiexec leaves it to clean up
	cmd.Env = c.Env
	if c.KeepSession {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	var before startTime
	born := make(chan struct{}) // before is set
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
