package checkpoint

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
	"remshell/userfile"
)

// A runner runs checkpoint commands and checks for checkpoint files (survive.md 4).
type runner interface {
	// run runs the user's command with vars (NAME=VALUE) added to its environment, until it or ctx ends. It returns why the
	// command failed, or "". It may be called from any goroutine.
	run(ctx context.Context, command string, vars []string) (failure string)
	// isWritten reports whether file was last changed at or after since, to the second.
	isWritten(file string, since time.Time) bool
}

// A localRunner implements runner. It runs commands on this machine.
type localRunner struct {
	environ []string
	out     io.Writer // receives the command's output and errors
}

// run implements runner: it runs the command with /bin/sh in a process group of its own.
func (w localRunner) run(ctx context.Context, command string, vars []string) (failure string) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = slices.Concat(w.environ, vars)
	cmd.Stdout, cmd.Stderr = w.out, w.out
	err := subprocess.Run(cmd, subprocess.GroupAttr())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Sprintf("the command of --ckpt-cmd exited with code %d", exit.ExitCode())
	}
	return fmt.Sprintf("the command of --ckpt-cmd failed: %v", err)
}

// isWritten implements runner. It compares times in whole seconds, because some file systems store no more. It
// returns false for a file of another user in a directory such as /tmp.
func (w localRunner) isWritten(file string, since time.Time) bool {
	path, err := userfile.ResolveForWriting(file)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && !info.ModTime().Truncate(time.Second).Before(since.Truncate(time.Second))
}
