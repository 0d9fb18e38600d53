//go:build linux

package reaper_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper"
	"remshell/helper/reaper"
	"remshell/proc"
	"remshell/test/cgrouptest"
)

// testTimeout is for a very busy machine.
const testTimeout = 5 * time.Minute

// each runs a test for a reaper that waits before Go's runtime starts, and for one in Go.
func each(t *testing.T, test func(t *testing.T, program string)) {
	for name, program := range programs(t) {
		t.Run(name, func(t *testing.T) { test(t, program) })
	}
}

// dir holds the programs that all tests start.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "reaper"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// programs builds testdata/reaped, linked with the entry, as make links mpiexec, and without.
func programs(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{"plain": ""}
	if flags := linkerFlags(t, runtime.GOARCH); strings.Contains(flags, "-E ") {
		list["entry"] = flags
	}
	for name, flags := range list {
		list[name] = filepath.Join(dir, name)
		if _, err := os.Stat(list[name]); err != nil {
			build(t, list[name], flags)
		}
	}
	return list
}

func linkerFlags(t *testing.T, arch string) string {
	t.Helper()
	cmd := exec.Command("../../tools/ldflags.sh", "test")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func build(t *testing.T, output, flags string, environ ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags", flags, "-o", output, "./testdata/reaped")
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A testProcess is a reaper with its helper.
type testProcess struct {
	*exec.Cmd
	in             io.WriteCloser
	out            *bufio.Reader
	helper, orphan proc.Info // orphan is zero if there is none
	blocked        string    // signals that the helper found blocked
}

// start starts a reaper by a shell, which first runs the commands in first. what is the helper's third argument.
func start(t *testing.T, first, program, what string) *testProcess {
	t.Helper()
	k := &testProcess{Cmd: exec.Command("/bin/sh", "-c", first+`exec "$0" --helper "$1"`, program, what)}
	k.Stderr = os.Stderr
	var err error
	if k.in, err = k.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := k.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.out = bufio.NewReader(out)
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range []proc.Info{k.helper, k.orphan} {
			if alive(p) {
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		k.in.Close()
	})
	var helper, parent, orphan int
	if _, err := fmt.Fscan(k.out, &helper, &parent, &orphan, &k.blocked); err != nil {
		t.Fatal(err)
	}
	k.helper, _ = proc.ReadInfo(helper)
	k.orphan, _ = proc.ReadInfo(orphan)
	if parent != k.Process.Pid || k.helper.Parent != parent || (k.orphan.Parent == helper) != (orphan > 0) {
		t.Fatalf("helper %+v says that its parent is %d, started was %d; orphan %d: %+v", k.helper, parent, k.Process.Pid, orphan, k.orphan)
	}
	k.out.ReadString('\n')
	return k
}

// exitCode waits for the reaper and returns its exit code, or the negative signal that killed it.
func (k *testProcess) exitCode(t *testing.T) int {
	t.Helper()
	err := k.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status := k.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return k.ProcessState.ExitCode()
}

// alive reports whether a process runs. A zombie does not, nor does another process with the same PID.
func alive(p proc.Info) bool {
	now, there := proc.ReadInfo(p.PID)
	return there && p.PID > 0 && now.StartTime == p.StartTime && now.State != 'Z'
}

// until waits until so returns true.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so after %v", what, testTimeout)
		}
	}
}

// The reaper exits with its helper's code, also if the reaper's parent ignores SIGCHLD.
func TestTheReaperEndsAsItsHelper(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		for _, first := range []string{"", "trap '' CHLD HUP; "} {
			for _, want := range []int{0, 1, 125} {
				k := start(t, first, program, "")
				fmt.Fprintln(k.in, want)
				if got := k.exitCode(t); got != want {
					t.Errorf("%sthe helper ended with %d, the reaper with %d", first, want, got)
				}
			}
		}
	})
}

// The reaper ends processes that a killed helper has left, and exits with 128 plus the signal.
func TestTheReaperEndsOrphans(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "orphan")
		syscall.Kill(k.helper.PID, syscall.SIGKILL)
		if got := k.exitCode(t); got != 137 {
			t.Errorf("the reaper ended with %d", got)
		}
		if alive(k.orphan) {
			t.Error("the orphan lives")
		}
	})
}

// The same holds for a helper that exits with 0. With helper.LeaveProcessesCode the processes stay.
func TestTheReaperEndsLeftoverProcesses(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		for what, code := range map[string]int{"orphan": 0, "stay": helper.LeaveProcessesCode} {
			k := start(t, "", program, what)
			fmt.Fprintln(k.in, code)
			if got := k.exitCode(t); got != 0 || alive(k.orphan) != (what == "stay") {
				t.Errorf("%s: exit %d, the orphan lives: %v", what, got, alive(k.orphan))
			}
		}
	})
}

// A helper whose reaper is killed gets SIGTERM.
func TestTheHelperOfAKilledReaper(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "")
		syscall.Kill(k.Process.Pid, syscall.SIGKILL)
		if line, err := k.out.ReadString('\n'); line != "got SIGTERM\n" {
			t.Errorf("it prints %q, %v", line, err)
		}
		if got := k.exitCode(t); got != -int(syscall.SIGKILL) {
			t.Errorf("the reaper ended with %d", got)
		}
		until(t, "the helper has ended", func() bool { return !alive(k.helper) })
	})
}

// A batch system signals every process of a job. The reaper ignores it (RM-60), and cleans up afterwards.
func TestTheReaperIgnoresSignals(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "orphan")
		k.sendSignals(t)
		syscall.Kill(k.helper.PID, syscall.SIGKILL)
		if got := k.exitCode(t); got != 137 || alive(k.orphan) {
			t.Errorf("exit %d, the orphan lives: %v", got, alive(k.orphan))
		}
	})
}

// It also ignores signals while it cleans up, which takes its whole grace here.
func TestTheReaperIgnoresSignalsWhileItCleansUp(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "stubborn")
		syscall.Kill(k.helper.PID, syscall.SIGKILL)
		if line, err := k.out.ReadString('\n'); line != "asked to end\n" {
			t.Fatalf("the orphan says %q, %v", line, err)
		}
		k.sendSignals(t)
		if got := k.exitCode(t); got != 137 || alive(k.orphan) {
			t.Errorf("exit %d, the orphan lives: %v", got, alive(k.orphan))
		}
	})
}

// sendSignals sends the reaper the signals that a batch system or a user may send to all processes of a job.
func (k *testProcess) sendSignals(t *testing.T) {
	t.Helper()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGCONT, syscall.SIGXCPU, syscall.SIGPIPE} {
		if err := syscall.Kill(k.Process.Pid, s); err != nil {
			t.Fatal(s, err)
		}
	}
}

// A helper that was killed for lack of memory cannot report that: its reaper does, on stderr.
func TestTheReaperReportsLackOfMemory(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "exec 2>&1; echo $$ >"+cgrouptest.MemoryGroup(t, 96<<20)+"/cgroup.procs; ", program, "greedy")
		fmt.Fprintln(k.in, 0)
		text, err := io.ReadAll(k.out)
		if got := k.exitCode(t); got != 137 || err != nil || string(text) != "out of memory: the kernel has killed a process in the job's control group, whose limit is 96 MiB\n" {
			t.Errorf("exit %d, %q, %v", got, text, err)
		}
	})
}

// The reaper prints nothing about a helper that another process has killed.
func TestTheReaperOfAKilledHelperPrintsNothing(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "exec 2>&1; ", program, "greedy")
		syscall.Kill(k.helper.PID, syscall.SIGKILL)
		if text, err := io.ReadAll(k.out); len(text) > 0 || err != nil {
			t.Errorf("it prints %q, %v", text, err)
		}
		if got := k.exitCode(t); got != 137 {
			t.Errorf("exit %d", got)
		}
	})
}

// Only the helper holds input and output: a reader sees their end when the helper exits, while the reaper still works.
func TestTheReaperHoldsNoStream(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "")
		until(t, "the reaper has closed its streams", func() bool {
			for fd := range 2 {
				to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", k.Process.Pid, fd))
				if err == nil && to != os.DevNull {
					return false
				}
			}
			return true
		})
		fmt.Fprintln(k.in, 0)
		if rest, err := io.ReadAll(k.out); err != nil || len(rest) > 0 {
			t.Errorf("it prints %q, %v", rest, err)
		}
		if got := k.exitCode(t); got != 0 {
			t.Errorf("exit %d", got)
		}
	})
}

// "killall -9 mpiexec" spares the reaper, which then ends what the helper has left.
func TestTheReaperHasItsOwnName(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := start(t, "", program, "")
		until(t, "its name is "+reaper.Name, func() bool {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.Process.Pid))
			return string(name) == reaper.Name+"\n"
		})
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.helper.PID)); string(name) == reaper.Name+"\n" || err != nil {
			t.Errorf("the helper has the reaper's name, %v", err)
		}
		fmt.Fprintln(k.in, 0)
		if got := k.exitCode(t); got != 0 {
			t.Errorf("exit %d", got)
		}
	})
}

// A reaper that has nothing to clean up never becomes a Go program, and is small.
func TestTheEntryWaitsBeforeTheRuntime(t *testing.T) {
	program, there := programs(t)["entry"]
	if !there {
		t.Skip("no entry for this kind of CPU: the reaper is in Go")
	}
	k := start(t, "", program, "")
	until(t, "it is called --reaper", func() bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", k.Process.Pid))
		return strings.HasPrefix(string(line), program+"\x00--reaper\x00")
	})
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", k.Process.Pid))
	if err != nil || len(tasks) != 1 {
		t.Errorf("it has %d threads, %v", len(tasks), err)
	}
	until(t, "it blocks all signals", func() bool {
		return ^blocked(k.Process.Pid) == 1<<(unix.SIGKILL-1)|1<<(unix.SIGSTOP-1)
	})
	if own, err := exec.Command("grep", "SigBlk", "/proc/self/status").Output(); err != nil || k.blocked != strings.Fields(string(own))[1] {
		t.Errorf("the helper blocks %s, another child %q, %v", k.blocked, own, err)
	}
	fmt.Fprintln(k.in, 0)
	if got := k.exitCode(t); got != 0 {
		t.Errorf("exit %d", got)
	}
}

// A guard ignores signals and waits until the pipe to mpiexec ends. Then it ends the job. With the entry it becomes a
// Go program only then.
func TestTheGuardWaits(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		k := guard(t, program, "reaper.test."+strconv.Itoa(os.Getpid()))
		until(t, "it ignores signals", func() bool { return signals(k.Process.Pid, "SigIgn")&(1<<(unix.SIGTERM-1)) != 0 })
		k.sendSignals(t)
		syscall.Kill(k.Process.Pid, syscall.SIGSTOP)
		until(t, "it is stopped", func() bool { look, _ := proc.ReadInfo(k.Process.Pid); return look.State == 'T' })
		syscall.Kill(k.Process.Pid, syscall.SIGCONT)
		until(t, "it waits", func() bool { look, _ := proc.ReadInfo(k.Process.Pid); return look.State == 'S' })
		if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", k.Process.Pid)); err != nil || filepath.Base(program) == "entry" && len(tasks) != 1 {
			t.Errorf("it has %d threads, %v", len(tasks), err)
		}
		if !alive(k.orphan) {
			t.Error("a process of the job has ended before mpiexec")
		}
		k.in.Close()
		if got := k.exitCode(t); got != 0 {
			t.Errorf("exit %d", got)
		}
		until(t, "the job has ended", func() bool { return !alive(k.orphan) })
	})
}

// guard starts a guard, and a process of its job, which is returned as orphan.
func guard(t *testing.T, program, job string) *testProcess {
	t.Helper()
	k := &testProcess{Cmd: exec.Command(program, "--helper-guard", job, "0")}
	k.Env, k.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir(), "HOME="+t.TempDir()), os.Stderr
	var err error
	if k.in, err = k.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "100000")
	left.Env = append(os.Environ(), "MPIEXEC_JOBID="+job)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	go left.Wait()
	t.Cleanup(func() {
		k.in.Close()
		left.Process.Kill()
	})
	k.orphan, _ = proc.ReadInfo(left.Process.Pid)
	return k
}

// blocked returns the signals that a process blocks.
func blocked(pid int) uint64 { return signals(pid, "SigBlk") }

// signals returns a set of signals of a process (proc_pid_status(5)).
func signals(pid int, kind string) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, line, _ := strings.Cut(string(text), kind+":\t")
	line, _, _ = strings.Cut(line, "\n")
	set, _ := strconv.ParseUint(line, 16, 64)
	return set
}

// Every architecture for which the linker is told of an entry has one, and links with it.
func TestEveryEntryLinks(t *testing.T) {
	kinds := []string{"amd64", "arm64", "riscv64"}
	if testing.Short() { // the standard library has to be compiled for the others
		kinds = []string{runtime.GOARCH}
	}
	for _, arch := range kinds {
		flags := linkerFlags(t, arch)
		if found, _ := filepath.Glob("entry_linux_" + arch + ".s"); strings.Contains(flags, "-E ") != (len(found) == 1) {
			t.Errorf("%s has %q; the linker is told %q", arch, found, flags)
		}
		build(t, filepath.Join(t.TempDir(), arch), flags, "GOOS=linux", "GOARCH="+arch)
	}
}
