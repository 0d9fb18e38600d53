//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// These are the arguments that make this program measure the command that follows. With meterOutputArg, it also
// prints the command's standard output, which must fit into a pipe.
const (
	meterArg       = "--meter"
	meterOutputArg = "--meter-keepOutput"
)

// A meteredRun is a command to run and to measure.
type meteredRun struct {
	words      []string
	onHead     bool // run on the head of the test cluster, else on this machine
	keepOutput bool // keep its standard output
}

// A sample contains the values that were measured in one run of a launcher.
type sample struct {
	wall, cpu time.Duration
	peak      int64  // peak memory in bytes of its largest process
	output    string // its standard output, if kept
}

// strayTimeout is the maximum time to wait for processes that a launcher has left behind. Their CPU time is added to
// the launcher's.
const strayTimeout = 10 * time.Second

// runMetered runs a command for at most two minutes and measures it. If the command fails, the error contains the
// command's standard error.
func (b *bench) runMetered(ctx context.Context, r meteredRun) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	args := append([]string{meterArg}, r.words...)
	if r.keepOutput {
		args[0] = meterOutputArg
	}
	cmd := exec.CommandContext(ctx, b.self, args...)
	if r.onHead {
		cmd = b.cluster.Command(ctx, nil, b.self, args...)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var s sample
	var code int
	if err == nil {
		var line string
		line, s.output, _ = strings.Cut(string(out), "\n")
		_, err = fmt.Sscan(line, &s.wall, &s.cpu, &s.peak, &code)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(r.words, " "), err, stderr.String())
	}
	if code != 0 {
		return s, fmt.Errorf("%s: exit code %d\n%s", strings.Join(r.words, " "), code, stderr.String())
	}
	return s, nil
}

// meter runs a command and prints its wall time, CPU time, memory and exit code. The CPU time includes all descendants
// of the command, even orphans. The memory is the largest peak memory of any of these processes. If keepOutput is true,
// meter then prints the command's standard output. The result of meter is the exit code of bench, not of the command.
func meter(words []string, keepOutput bool) int {
	s, code, err := measureProcess(words, keepOutput)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(int64(s.wall), int64(s.cpu), s.peak, code)
	fmt.Print(s.output)
	return 0
}

// measureProcess runs a command as a child of this process, which becomes a subreaper. It returns the sample and
// the command's exit code, which is 128+n if signal n has ended the command.
func measureProcess(words []string, keepOutput bool) (s sample, code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s, 0, fmt.Errorf("become a subreaper: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return s, 0, err
	}
	defer null.Close()
	out := null
	if keepOutput {
		from, to, err := os.Pipe()
		if err != nil {
			return s, 0, err
		}
		out = to
		defer func() {
			to.Close()
			text, _ := io.ReadAll(from)
			s.output = string(text)
		}()
	}
	began := time.Now()
	pid, err := syscall.ForkExec(words[0], words, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), out.Fd(), 2},
	})
	if err != nil {
		return s, 0, err
	}
	var status unix.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	s.wall = time.Since(began)
	if err != nil {
		return s, 0, err
	}
	if err := reapStrays(); err != nil {
		return s, 0, err
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &used); err != nil {
		return s, 0, err
	}
	s.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	s.peak = used.Maxrss << 10 // getrusage(2): kilobytes
	if status.Signaled() {
		return s, 128 + int(status.Signal()), nil
	}
	return s, status.ExitStatus(), nil
}

// reapStrays waits for the end of all orphans of the launcher. It returns an error if some orphans still run after
// strayTimeout.
func reapStrays() error {
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if err == unix.ECHILD {
			return nil
		}
		return err
	case <-time.After(strayTimeout):
		return errors.New("the launcher has left processes behind that do not end")
	}
}
