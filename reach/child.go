package reach

import (
	"context"
	"fmt"
	"io"
	"os"
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
type Child struct {
	Self Self
	Env  []string // of the helper; nil: ours
	Stay bool     // in our session, where a batch system looks for it
}

// closePatience is how long Close waits for a helper that has been told to end. One
// that needs longer to end its ranks does so without us.
const closePatience = 500 * time.Millisecond

// Dial starts the helper. The name of the host serves for messages only.
func (c *Child) Dial(ctx context.Context, host string) (io.ReadWriteCloser, error) {
	fail := func(err error) (io.ReadWriteCloser, error) {
		return nil, &Error{Host: host, Step: "start", Kind: KindOther, Why: fmt.Sprintf("the helper cannot be started here: %v", err), Err: err}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, &Error{Host: host, Step: "start", Kind: KindCanceled, Why: fmt.Sprintf("given up: %v", err), Err: err}
	}
	if err := adopt(); err != nil {
		return fail(err)
	}
	program, err := runningProgram()
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(program, "--helper-child", c.Self.Build)
	cmd.Args[0] = os.Args[0]
	cmd.Env = c.Env
	if c.Stay {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	var before birth
	born := make(chan struct{}) // before is set
	p, err := startProcess(cmd, func(p *localCommand) { p.within(closePatience) }, func(p *localCommand) {
		<-born
		if p.status != nil {
			endOrphans(before)
		}
	})
	if err != nil {
		return fail(err)
	}
	before = birthOf(cmd.Process.Pid)
	close(born)
	conn := newConn(p)
	conn.way = "child"
	return conn, nil
}
