//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// writingProgram is a rank that writes a line into a file of its host again and again.
const writingProgram = `echo ready; while :; do echo >> "$1.$MPIEXEC_RANK"; sleep 0.05; done`

// bytesWritten is how much ranks have counted on a host.
func (b *testCluster) bytesWritten(host, file string) (bytes int64) {
	files, _ := filepath.Glob(b.Root(host) + file + ".*")
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// sendControlRequest has a word with a job; one of a slow machine may not have answered in 10 s yet, and may have done it all the same.
func (b *testCluster) sendControlRequest(t *testing.T, args ...string) (r result) {
	t.Helper()
	for i := range 20 {
		if r = b.runMpiexec(t, args...); i > 0 && (strings.Contains(r.err, "already suspended") || strings.Contains(r.err, "not suspended")) {
			r.code = 0
		}
		if !strings.Contains(r.err, "the job did not reply") {
			break
		}
	}
	return r
}

// A job on two hosts that somebody suspends stands still on both, and keeps its CPUs; it goes on when it is told to. One that
// loses a host while it stands still is ended, and leaves nothing.
func TestASuspendedJobKeepsItsCPUs(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	file := diaryFile()
	both := []string{"-hosts", "n1:2,n2:2", "-n", "4", "--kill-grace", "1"}
	r := b.startMpiexec(t, mpiexecCall{args: append(slices.Clone(both), "sh", "-c", writingProgram, "sh", file)})
	r.awaitOut(t, "ready\n", 4)
	done := func(option, host string) {
		t.Helper()
		if r := b.sendControlRequest(t, option, "last", host); r.code != 0 {
			t.Errorf("%s: exit %d, %q", option, r.code, r.err)
		}
	}
	moves := func() (on []string) {
		before := map[string]int64{"n1": b.bytesWritten("n1", file), "n2": b.bytesWritten("n2", file)}
		<-time.After(300 * time.Millisecond) // six times as long as a rank takes to count
		for _, host := range []string{"n1", "n2"} {
			if b.bytesWritten(host, file) > before[host] {
				on = append(on, host)
			}
		}
		return on
	}
	done("--suspend", "n1")
	if !poll(goneTimeout, func() bool { return moves() == nil }) {
		t.Error("it goes on while it is suspended")
	}
	if r := b.runMpiexec(t, "-host", "n2", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "have used all 2 CPUs since") {
		t.Errorf("another job: exit %d, %q", r.code, r.err)
	}
	done("--resume-job", "n2")
	if !poll(goneTimeout, func() bool { return len(moves()) == 2 }) {
		t.Errorf("it does not go on: %q", r.err.String())
	}
	done("--suspend", "n2")
	signalPIDs(t, syscall.SIGKILL, "helper on n1", []int{b.helperProcesses(t, "n1")[0].PID})
	if r := r.wait(t); r.code != 125 || !strings.Contains(r.err, "lost contact with n1") {
		t.Errorf("with a helper killed: exit %d, %q", r.code, r.err)
	}
	b.checkNothingLeft(t, "n1", "n2")
}

// checkNothingLeft asserts that soon hosts have neither claims nor helpers.
func (b *testCluster) checkNothingLeft(t *testing.T, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		b.noClaims(t, host)
		if !poll(goneTimeout, func() bool { return len(b.helperProcesses(t, host)) == 0 }) {
			t.Errorf("helpers are left on %s: %s", host, fmt.Sprint(b.helperProcesses(t, host)))
		}
	}
}

// A job that ^Z has stopped was said to be starting, after 10 s, and --signal TERM left its ranks and claims as they were.
func TestAJobStoppedAtItsTerminalIsEndedFromElsewhere(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	// The kernel ignores SIGTSTP in an orphaned process group, such as that of a test in the background.
	r := b.startMpiexec(t, mpiexecCall{attr: &syscall.SysProcAttr{Setpgid: true}, args: []string{"-host", "n1,n2", "-ppn", "1", "-n", "2", "sh", "-c", "echo ready; exec sleep 600"}})
	r.awaitOut(t, "ready\n", 2)
	r.cmd.Process.Signal(syscall.SIGTSTP)
	if !poll(goneTimeout, func() bool { return strings.Contains(b.runMpiexec(t, "--status", "last", "n1").out, "is suspended") }) {
		t.Fatalf("it is not stopped: %q", r.err.String())
	}
	for _, option := range []string{"--end", "--suspend", "--resume-job"} {
		got := b.runMpiexec(t, option, "last", "n1")
		if got.code != 125 || !strings.Contains(got.err, "n1: the mpiexec of the job is stopped (by ^Z or by a batch system)") || !strings.Contains(got.err, "mpiexec --signal KILL "+b.readListing(t, "n1").Jobs[0].Job+" n1\n") {
			t.Errorf("%s: exit %d, %q", option, got.code, got.err)
		}
	}
	if got := b.runMpiexec(t, "--signal", "TERM", "last", "n1", "n2"); got.code != 0 {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
	if !poll(goneTimeout, func() bool { return len(b.readListing(t, "n1", "n2").Jobs) == 0 }) {
		t.Error("its claims are left")
	}
	r.cmd.Process.Signal(syscall.SIGCONT)
	r.wait(t)
}
