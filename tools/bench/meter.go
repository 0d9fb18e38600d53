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

// The words that make this program a meter; the second one tells what was written, too,
// which must fit into a pipe.
const (
	meterArg       = "--meter"
	meterOutputArg = "--meter-heard"
)

// A meteredRun is a command to be metered.
type meteredRun struct {
	words      []string
	onHead     bool // on the head of the field; else here
	keepOutput bool // what it writes is wanted
}

// A sample is one run of a launcher.
type sample struct {
	wall, cpu time.Duration
	peak      int64  // bytes of memory of its largest process
	said      string // on standard output, if that was wanted
}

// strayTimeout is how long processes that a launcher leaves behind are waited for; their
// time belongs to it.
const strayTimeout = 10 * time.Second

// runMetered runs a command under a meter. What it says on standard error is shown only if
// it fails.
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
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var s sample
	var code int
	if err == nil {
		var line string
		line, s.said, _ = strings.Cut(string(out), "\n")
		_, err = fmt.Sscan(line, &s.wall, &s.cpu, &s.peak, &code)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(r.words, " "), err, said.String())
	}
	if code != 0 {
		return s, fmt.Errorf("%s: exit code %d\n%s", strings.Join(r.words, " "), code, said.String())
	}
	return s, nil
}

// meter runs a command and prints its wall time until it ended, the CPU time of it
// and of all its descendants, also of those that nobody but we waited for, the memory of
// the largest of them, and its exit code; and what it wrote, if heard.
func meter(words []string, heard bool) int {
	s, code, err := measureProcess(words, heard)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(int64(s.wall), int64(s.cpu), s.peak, code)
	fmt.Print(s.said)
	return 0
}

func measureProcess(words []string, heard bool) (s sample, code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s, 0, fmt.Errorf("become a subreaper: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return s, 0, err
	}
	defer null.Close()
	out := null
	if heard {
		from, to, err := os.Pipe()
		if err != nil {
			return s, 0, err
		}
		out = to
		defer func() {
			to.Close()
			text, _ := io.ReadAll(from)
			s.said = string(text)
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

// reapStrays waits for all that the launcher has left to us.
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
