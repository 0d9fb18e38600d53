package sshx

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/subprocess"
)

// commandLimit is the maximum time for each command of an ssh configuration that is run before the connection
// is made. ssh itself has no such limit.
const commandLimit = 10 * time.Second

// runCommand runs a command without input, in a new session (setsid(2)), with subprocess.Run. It kills the command when
// ctx is done or after limit. If the command exits with a code other than 0, the error is an *ExitError with the end of
// the command's stderr. If out is nil, the command's output is dropped.
func runCommand(ctx context.Context, limit time.Duration, out *boundedOutput, words ...string) error {
	late := fmt.Errorf("the program did not end within %s", formatDuration(limit))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	var stderr Tail
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stderr = &stderr
	if out != nil {
		cmd.Stdout = out
	}
	err := subprocess.Run(cmd, subprocess.SessionAttr())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &exit):
		return fmt.Errorf("%s cannot be started: %w", words[0], innermost(err))
	}
	failed := &ExitError{Code: max(exit.ExitCode(), 0), Message: stderr.Line()}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		failed.Signal = strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	}
	return failed
}

// quoted returns a command as a user would type it into a shell.
func quoted(words []string) string {
	var list []string
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`;&|<>(){}[]*?!~^#") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

// A boundedOutput is a writer that keeps the first captureMax bytes of a command's output.
type boundedOutput struct {
	strings.Builder
	truncated bool // there was more output
}

const captureMax = 1 << 20

func (c *boundedOutput) Write(p []byte) (int, error) {
	kept := p[:min(len(p), captureMax-c.Len())]
	c.truncated = c.truncated || len(kept) < len(p)
	c.Builder.Write(kept)
	return len(p), nil
}
