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

	"remshell/subprocess"
	"remshell/usererr"
	"remshell/userfile"
)

// A checkpointEnv runs checkpoint commands and looks for checkpoint files on this machine. It implements
// launch.CheckpointRunner.
type checkpointEnv struct {
	environ []string
	out     io.Writer // receives the command's output and errors
}

// Run runs command with /bin/sh in a new process group, with vars added to its environment. It returns
// why the command failed, or "".
func (w checkpointEnv) Run(ctx context.Context, command string, vars []string) (why string) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = slices.Concat(w.environ, vars)
	cmd.Stdout, cmd.Stderr = w.out, w.out
	err := subprocess.Run(cmd, subprocess.GroupAttr())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Sprintf("failed with exit code %d", exit.ExitCode())
	}
	return fmt.Sprintf("failed: %v", err)
}

// Written reports whether file was modified at or after since, compared in whole seconds. In a directory
// such as /tmp it is false for a file of another user.
func (w checkpointEnv) Written(file string, since time.Time) bool {
	path, err := userfile.ResolveForWriting(file)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && !info.ModTime().Truncate(time.Second).Before(since.Truncate(time.Second))
}

// prepareCheckpoints creates the directory of --ckpt-dir on this machine if it is missing. It rejects a --ckpt-done
// file that Written would not accept.
func (c *invocation) prepareCheckpoints() error {
	c.env.CheckpointRunner = checkpointEnv{c.sys.Environ, c.env.Err}
	if _, err := userfile.ResolveForWriting(c.req.Checkpoint.DoneFile); err != nil {
		return &usererr.Error{Text: fmt.Sprintf("--ckpt-done: %v", err), Remedy: usererr.Hint(err)}
	}
	if c.req.Checkpoint.Dir == "" {
		return nil
	}
	dir, err := userfile.Resolve(c.req.Checkpoint.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return &usererr.Error{Text: fmt.Sprintf("--ckpt-dir: %v", err), Remedy: usererr.Hint(err)}
	}
	return nil
}
