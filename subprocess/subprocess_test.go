package subprocess

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// When the context ends, all processes of a command end: each of them holds the pipe that the test
// reads.
func TestAllEndsWithTheContext(t *testing.T) {
	for name, attr := range map[string]func() *syscall.SysProcAttr{"session": SessionAttr, "group": GroupAttr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "sleep 100000 & echo ready; wait")
		cmd.Stdout = w
		over := make(chan error, 1)
		go func() { over <- Run(cmd, attr()); w.Close() }()
		out := bufio.NewReader(r)
		if line, err := out.ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err)
		}
		cancel()
		if err := <-over; err == nil {
			t.Errorf("%s: no error", name)
		}
		if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
		r.Close()
	}
}

// A command that exits with 0 is no failure, even if a remaining child keeps its output.
func TestWhatIsLeftHasTheOutput(t *testing.T) {
	r, w := io.Pipe()
	go io.Copy(io.Discard, r)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 100000 & echo $!")
	cmd.Stdout = w
	if err := Run(cmd, GroupAttr()); err != nil {
		t.Error(err)
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
