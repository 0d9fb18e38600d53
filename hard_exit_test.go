//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A hungMpiexec is an mpiexec process that hangs.
type hungMpiexec struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	errs  strings.Builder
	ended chan struct{} // closed when it has ended
}

// startHung starts mpiexec in a process group of its own, as a shell does.
func startHung(t *testing.T, env []string, args ...string) *hungMpiexec {
	t.Helper()
	return startHungCommand(t, exec.Command("/proc/self/exe", args...), env)
}

// startHungCommand starts a command that is, or starts, mpiexec.
func startHungCommand(t *testing.T, cmd *exec.Cmd, env []string) *hungMpiexec {
	t.Helper()
	s := &hungMpiexec{cmd: cmd, ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "MPIEXEC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "MPIEXEC_LEDGER="+t.TempDir())
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out, s.cmd.Stderr = bufio.NewReader(out), &s.errs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	return s
}

// awaitLine reads a line of the process's output, and fails the test if it is not the wanted one.
func (s *hungMpiexec) awaitLine(t *testing.T, want string) {
	t.Helper()
	if line, err := s.out.ReadString('\n'); line != want+"\n" {
		t.Fatalf("%q, %v; want %q", line, err, want)
	}
}

// awaitOpen waits until the process hangs while it opens a file. The kernel shows the system call of a sleeping
// thread.
func (s *hungMpiexec) awaitOpen(t *testing.T) *hungMpiexec {
	t.Helper()
	again, limit := time.NewTicker(10*time.Millisecond), time.After(5*time.Minute)
	defer again.Stop()
	for {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", s.cmd.Process.Pid))
		for _, file := range threads {
			if call, _ := os.ReadFile(file); strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_OPENAT, " ")) {
				return s
			}
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatal("it does not hang")
		}
	}
}

// repeatSignal sends a signal repeatedly until the process ends, and returns how long that took. Signals that come
// faster than they are handled count once.
func (s *hungMpiexec) repeatSignal(t *testing.T, number syscall.Signal) time.Duration {
	t.Helper()
	began := time.Now()
	go func() {
		io.Copy(io.Discard, s.out)
		s.cmd.Wait()
		close(s.ended)
	}()
	again, limit := time.NewTicker(50*time.Millisecond), time.After(5*time.Minute)
	defer again.Stop()
	for {
		select {
		case <-s.ended:
			return time.Since(began)
		case <-again.C:
			s.cmd.Process.Signal(number)
		case <-limit:
			t.Fatalf("%v does not end it", number)
		}
	}
}

// checkExit checks exit code and message of the process.
func (s *hungMpiexec) checkExit(t *testing.T, number syscall.Signal) {
	t.Helper()
	if code := s.cmd.ProcessState.ExitCode(); code != 128+int(number) {
		t.Errorf("exit code %d, want %d; stderr %q", code, 128+int(number), s.errs.String())
	}
	if strings.Count(s.errs.String(), hardExitMessage) != 1 {
		t.Errorf("stderr %q, want %q in it", s.errs.String(), hardExitMessage)
	}
}

// fifo creates a fifo. A process that opens it blocks.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Wherever mpiexec hangs, the third ^C ends it at once, and a second SIGTERM or SIGHUP after 5 s (TRUST-34).
func TestHardExit(t *testing.T) {
	where := map[string]func(*testing.T) *hungMpiexec{
		"the supervising loop": func(t *testing.T) *hungMpiexec {
			s := startHung(t, []string{"MPIEXEC_TEST_STOP=never"}, "-host", "localhost:1", "-n", "1", "sh", "-c", "echo ready; exec sleep 600")
			s.awaitLine(t, "ready")
			s.cmd.Process.Signal(syscall.SIGTSTP)
			s.awaitLine(t, "the loop hangs")
			return s
		},
		"a file before the start": func(t *testing.T) *hungMpiexec {
			return startHung(t, nil, "-hostfile", fifo(t), "-n", "1", "true").awaitOpen(t)
		},
		"a file of the start": func(t *testing.T) *hungMpiexec {
			return startHung(t, nil, "-outfile-pattern", fifo(t), "-host", "localhost:1", "-n", "1", "echo", "x").awaitOpen(t)
		},
	}
	for what, start := range where {
		for _, number := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(what+"/"+number.String(), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				took := s.repeatSignal(t, number)
				if s.checkExit(t, number); number != syscall.SIGINT && took < hardExitPatience {
					t.Errorf("left after %v", took)
				}
			})
		}
	}
}

// A standard error that accepts no data does not block the hard exit.
func TestHardExitWithoutAReader(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	for full := false; !full; {
		_, err := unix.Write(pipe[1], make([]byte, 4096))
		full = err != nil
	}
	unix.SetNonblock(pipe[1], false)
	w := os.NewFile(uintptr(pipe[1]), "stderr")
	s := &hungMpiexec{cmd: exec.Command("/proc/self/exe", "-hostfile", fifo(t), "-n", "1", "true"), ended: make(chan struct{}), out: bufio.NewReader(strings.NewReader(""))}
	s.cmd.Env = append(os.Environ(), "MPIEXEC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.awaitOpen(t).repeatSignal(t, syscall.SIGINT)
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}

// ^Z waits at most a second for a host that reads nothing, and later signals still count.
func TestStopBesideAHostThatReadsNothing(t *testing.T) {
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zeros.Close()
	s := &hungMpiexec{cmd: exec.Command("/proc/self/exe", "--simulate-nodes", "2", "-n", "2", "-ppn", "1", "-stdin", "all", "sh", "-c", "echo ready; exec sleep 600"), ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "MPIEXEC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "MPIEXEC_LEDGER="+t.TempDir())
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdin, s.cmd.Stderr, s.out = zeros, &s.errs, bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := s.cmd.Process.Pid
	t.Cleanup(func() { s.cmd.Process.Kill() })
	s.awaitLine(t, "ready")
	s.awaitLine(t, "ready")
	helper := helperOf(t, pid)
	awaitFullPipe(t, helper) // if the helper stopped first, the data could be spread over its pipes and its memory
	syscall.Kill(helper, syscall.SIGSTOP)
	t.Cleanup(func() { syscall.Kill(helper, syscall.SIGCONT) })
	limit := time.AfterFunc(5*time.Minute, func() { syscall.Kill(pid, syscall.SIGKILL) })
	defer limit.Stop()
	syscall.Kill(pid, syscall.SIGTSTP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("after SIGTSTP: %v, %v; want it stopped", status, err)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	s.repeatSignal(t, syscall.SIGINT)
	s.checkExit(t, syscall.SIGINT)
}

// helperOf waits for a helper that is a child of a process, and returns it.
func helperOf(t *testing.T, parent int) int {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/task/" + strconv.Itoa(parent) + "/children")
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
		for _, list := range lists {
			more, _ := os.ReadFile(list)
			text = append(text, more...)
		}
		for word := range strings.FieldsSeq(string(text)) {
			if line, _ := os.ReadFile("/proc/" + word + "/cmdline"); strings.Contains(string(line), "--helper-child") {
				pid, _ := strconv.Atoi(word)
				return pid
			}
		}
	}
	t.Fatal("there is no helper")
	return 0
}

// awaitFullPipe waits until a pipe of a process is full.
func awaitFullPipe(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		if slices.ContainsFunc(files, isFullPipe) {
			return
		}
	}
	t.Fatal("nothing was written that nobody reads")
}

// isFullPipe reports whether a file descriptor is a pipe without space.
func isFullPipe(file string) bool {
	if link, _ := os.Readlink(file); !strings.HasPrefix(link, "pipe:") {
		return false
	}
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n >= 60<<10
}
