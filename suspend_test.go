//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job whose process group has a parent in the same session, as under a shell, is stopped by ^Z. SIGCONT continues it
// and its ranks.
func TestSuspendUnderAShell(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-host", "localhost:1", "-n", "1", "sh", "-c",
		`trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done`)
	cmd.Env = append(os.Environ(), "MPIEXEC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "MPIEXEC_LEDGER="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	pid := cmd.Process.Pid
	time.AfterFunc(5*time.Minute, func() { syscall.Kill(pid, syscall.SIGKILL) })
	syscall.Kill(pid, syscall.SIGTSTP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("after SIGTSTP: %v, %v; want it stopped", status, err)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	syscall.Kill(pid, syscall.SIGUSR1)
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 7 {
		t.Errorf("after SIGCONT: %v, %v; want exit code 7", status, err)
	}
}

// ^Z does not stop a session leader, which is in an orphaned process group: no process could continue it.
func TestSuspendWithoutAShell(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-host", "localhost:1", "-n", "1", "sh", "-c",
		`trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done`)
	cmd.Env = append(os.Environ(), "MPIEXEC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "MPIEXEC_LEDGER="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	limit := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer limit.Stop()
	cmd.Process.Signal(syscall.SIGTSTP)
	cmd.Process.Signal(syscall.SIGUSR1)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, want 7; stderr %q", code, errs.String())
	}
}

// A process that is continued before it has stopped does not stop. The next SIGTSTP stops it.
func TestContinuedBeforeTheStop(t *testing.T) {
	p, stops := new(stopState), 0
	for i, test := range []struct {
		signals []os.Signal
		want    int
	}{
		{[]os.Signal{syscall.SIGTSTP}, 1},
		{[]os.Signal{syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGTSTP}, 2},
		{[]os.Signal{syscall.SIGTSTP, syscall.SIGCONT}, 2},
		{[]os.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGTSTP}, 3},
	} {
		for _, s := range test.signals {
			p.noteSignal(s)
		}
		if p.stopUnlessContinued(func() { stops++ }); stops != test.want {
			t.Errorf("%d: after %v stopped %d times, want %d", i, test.signals, stops, test.want)
		}
	}
}
