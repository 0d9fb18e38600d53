package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"remshell/job"
)

// askTime is how long a batch system's program may take to answer (RM-4).
const askTime = 10 * time.Second

// maxAnswer is how much of its answer is read.
const maxAnswer = 16 << 20

// runProgram runs a batch system's own program without input, and returns what it prints.
func runProgram(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out, errs := &bounded{most: maxAnswer}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s: command not found", name)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not answer within %v", name, askTime)
	case err != nil:
		return "", fmt.Errorf("%s: %s", name, lastLine(errs.String(), err.Error()))
	case out.full:
		return "", fmt.Errorf("%s printed more than %d MB", name, maxAnswer>>20)
	}
	return out.String(), nil
}

// lastLine is the last line of a text that is not blank, if there is one.
func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return otherwise
}

// A bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	most int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.most-b.Len())]
	b.full = b.full || len(keep) < len(p)
	b.Buffer.Write(keep)
	return len(p), nil
}

// idle is what a copy of us does that a batch system has started beside the one that starts the
// job: it keeps its place until it is told to go (RM-10, HTCondor's parallel universe).
func (c *call) idle(ctx context.Context) (int, error) {
	if starts(c.line.Job) {
		select {
		case <-ctx.Done():
		case <-c.sys.Signals:
		}
	}
	return job.ExitOK, nil
}
