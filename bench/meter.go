//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// meterArg makes this program a meter.
const meterArg = "--meter"

// A sample is one run of a launcher.
type sample struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory of its largest process
}

// strayLimit is how long processes that a launcher leaves behind are waited for; their
// time belongs to it.
const strayLimit = 10 * time.Second

// metered runs a command under a meter, on the head of the field or here. Its output
// is thrown away; what it says on standard error is shown only if it fails.
func (b *bench) metered(ctx context.Context, onHead bool, words []string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	args := append([]string{meterArg}, words...)
	cmd := exec.CommandContext(ctx, b.self, args...)
	if onHead {
		cmd = b.field.Command(ctx, nil, b.self, args...)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var s sample
	var code int
	if err == nil {
		_, err = fmt.Sscan(string(out), &s.wall, &s.cpu, &s.peak, &code)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, said.String())
	}
	if code != 0 {
		return s, fmt.Errorf("%s: exit code %d\n%s", strings.Join(words, " "), code, said.String())
	}
	return s, nil
}

// meter runs a command and prints its wall time until it ended, the CPU time of it
// and of all its descendants, also of those that nobody but we waited for, the memory of
// the largest of them, and its exit code.
func meter(words []string) int {
	s, code, err := account(words)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(int64(s.wall), int64(s.cpu), s.peak, code)
	return 0
}

func account(words []string) (s sample, code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s, 0, fmt.Errorf("become a subreaper: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return s, 0, err
	}
	defer null.Close()
	began := time.Now()
	pid, err := syscall.ForkExec(words[0], words, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), 2},
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
	case <-time.After(strayLimit):
		return errors.New("the launcher has left processes behind that do not end")
	}
}
