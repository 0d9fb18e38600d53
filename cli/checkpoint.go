package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"remshell/fault"
	"remshell/subprocess"
	"remshell/userfile"
)

// A ckptWorld is what checkpoints need of this machine (launch.Checkpointer).
type ckptWorld struct {
	environ []string
	out     io.Writer // takes what the command says
}

// Run runs a command by subprocess.Run in a process group of its own.
func (w ckptWorld) Run(ctx context.Context, command string, vars []string) (why string) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = slices.Concat(w.environ, vars)
	cmd.Stdout, cmd.Stderr = w.out, w.out
	err := subprocess.Run(cmd, subprocess.Group())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Sprintf("failed with exit code %d", exit.ExitCode())
	}
	return fmt.Sprintf("failed: %v", err)
}

// Written reports whether a file has a time at or after another, to the second. A file of another user in a directory such as /tmp does
// not count.
func (w ckptWorld) Written(file string, since time.Time) bool {
	path, err := userfile.Target(file)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && !info.ModTime().Truncate(time.Second).Before(since.Truncate(time.Second))
}

// checkpointed makes the directory that ranks are told of, if it is missing here, and refuses a --ckpt-done that would not count.
func (c *call) checkpointed() error {
	c.env.Checkpoints = ckptWorld{c.sys.Environ, c.env.Err}
	if _, err := userfile.Target(c.req.Ckpt.Done); err != nil {
		return &fault.Error{Text: fmt.Sprintf("--ckpt-done: %v", err), Remedy: fault.Hint(err)}
	}
	if c.req.Ckpt.Dir == "" {
		return nil
	}
	dir, err := userfile.Resolve(c.req.Ckpt.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return &fault.Error{Text: fmt.Sprintf("--ckpt-dir: %v", err), Remedy: fault.Hint(err)}
	}
	return nil
}
