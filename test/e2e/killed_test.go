//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/proc"
	"remshell/test/ptytest"
	"remshell/tools/testbed"
)

// wrapperScript is a wrapper with children in the background: one as it comes, one in a session of its own, one that ignores
// SIGTERM, and one without its environment, as in a container (apptainer --cleanenv).
var wrapperScript = program{"wrapper", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", `sleep 1000.` + tag + ` & setsid sleep 1000.` + tag + ` & (trap "" HUP TERM; exec sleep 1000.` + tag + `) & env -i PATH=/bin sleep 1000.` + tag + ` & echo ready; wait`}
}, 4}

// A killCase is a way in which a user, a shell or a CI system ends a launcher.
type killCase struct {
	name     string
	before   []string // the program that starts mpiexec; empty: the test does
	terminal bool     // it all has a controlling terminal
	hit      func(t *testing.T, v *taggedJob, master *os.File)
	grace    int // s of the ranks; 0: one
	code     int // of what the test has started
}

// killCases are run with a session of their own each, which the process that the test starts leads.
var killCases = []killCase{
	{name: "SIGKILL to the process", hit: toPID(syscall.SIGKILL), code: 137},
	{name: "SIGKILL to the group", hit: toGroup(syscall.SIGKILL), code: 137},
	{name: "SIGKILL to the session", hit: toSession(syscall.SIGKILL), code: 137},
	{name: "SIGTERM to the process", hit: toPID(syscall.SIGTERM), code: 143},
	{name: "SIGTERM to the group", hit: toGroup(syscall.SIGTERM), code: 143},
	{name: "SIGTERM to the session", hit: toSession(syscall.SIGTERM), code: 143},
	{name: "SIGHUP to the process", hit: toPID(syscall.SIGHUP), code: 129},
	{name: "SIGHUP to the group", hit: toGroup(syscall.SIGHUP), code: 129},
	{name: "SIGHUP to the session", hit: toSession(syscall.SIGHUP), code: 129},
	{name: "SIGKILL to all of that name", hit: toName(syscall.SIGKILL), code: 137},
	{name: "timeout -s KILL", before: []string{"timeout", "-s", "KILL", "1000"}, hit: toPID(syscall.SIGALRM), code: 137},
	{name: "timeout -k: SIGTERM, then SIGKILL", before: []string{"timeout", "-k", "1", "1000"}, hit: toPID(syscall.SIGALRM), grace: 5, code: 137},
	{name: "SIGTERM, then SIGKILL when the ranks have ended", hit: afterRanks(syscall.SIGKILL), grace: 5, code: 137},
	{name: "terminal closed", terminal: true, hit: closeTerminal, code: 129},
	{name: "terminal of a shell closed", before: parentShell, terminal: true, hit: closeTerminal, code: 129},
	{name: "parent shell killed", before: parentShell, terminal: true, hit: toPID(syscall.SIGKILL), code: 137},
}

// parentShell does not become mpiexec, as a shell may with its last command.
var parentShell = []string{"sh", "-c", `"$@"; exit $?`, "sh"}

func toPID(sig syscall.Signal) func(*testing.T, *taggedJob, *os.File) {
	return func(t *testing.T, v *taggedJob, _ *os.File) { signalPIDs(t, sig, "launcher", []int{v.cmd.Process.Pid}) }
}

func toGroup(sig syscall.Signal) func(*testing.T, *taggedJob, *os.File) {
	return func(t *testing.T, v *taggedJob, _ *os.File) {
		signalPIDs(t, sig, "process group", []int{-v.cmd.Process.Pid})
	}
}

// toSession signals one process of the session after the other, as pkill -s does.
func toSession(sig syscall.Signal) func(*testing.T, *taggedJob, *os.File) {
	return func(t *testing.T, v *taggedJob, _ *os.File) {
		var all []int
		for _, looks := range proc.ReadTree() {
			for _, p := range looks {
				if p.Session == v.cmd.Process.Pid {
					all = append(all, p.PID)
				}
			}
		}
		if len(all) == 0 {
			t.Fatal("the session is empty")
		}
		for _, pid := range all {
			syscall.Kill(pid, sig) // it may have ended with the one before
		}
	}
}

// toName signals all that is called mpiexec, as pkill -f does, but on the head of this test alone.
func toName(sig syscall.Signal) func(*testing.T, *taggedJob, *os.File) {
	return func(t *testing.T, v *taggedJob, _ *os.File) {
		var called []int
		for _, pid := range v.cluster.launchers() {
			if strings.Contains(cmdline(pid), "mpiexec") {
				called = append(called, pid)
			}
		}
		signalPIDs(t, sig, "process of that name", called)
	}
}

// afterRanks asks for the end of the job, and signals the group when only what the ranks have left is waited for.
func afterRanks(sig syscall.Signal) func(*testing.T, *taggedJob, *os.File) {
	return func(t *testing.T, v *taggedJob, _ *os.File) {
		signalPIDs(t, syscall.SIGTERM, "launcher", []int{v.cmd.Process.Pid})
		if !poll(goneTimeout, func() bool { return v.countProcesses("sh") == 0 && v.countProcesses("sleep") == v.ranks }) {
			t.Fatalf("%d ranks and %d children", v.countProcesses("sh"), v.countProcesses("sleep"))
		}
		signalPIDs(t, sig, "process group", []int{-v.cmd.Process.Pid})
	}
}

func closeTerminal(_ *testing.T, _ *taggedJob, master *os.File) { master.Close() }

// However a launcher is killed, nothing of its job is left, and nothing is started again.
func TestNothingIsLeftHoweverTheLauncherIsKilled(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t) // ours on the head are told from those of other tests
	for _, k := range killCases {
		for _, at := range []struct {
			where, hosts string
			ranks        int
			restart      bool
		}{
			{"local", "localhost:1", 1, false}, // the helper is inside mpiexec
			{"local", "localhost:1", 1, true},
			{"overbooked", fmt.Sprint("localhost:", runtime.NumCPU()+1), runtime.NumCPU() + 1, false}, // it is a process
			{"hosts", "localhost:1,n1:1,n2:1", 3, false},
			{"hosts", "localhost:1,n1:1,n2:1", 3, true},
		} {
			t.Run(fmt.Sprintf("%s/%s/restart %v", k.name, at.where, at.restart), func(t *testing.T) {
				b.runKillCase(t, k, at.hosts, at.ranks, at.restart)
			})
		}
	}
}

func (b *testCluster) runKillCase(t *testing.T, k killCase, hosts string, ranks int, restart bool) {
	j := mpiexecCall{attr: &syscall.SysProcAttr{Setsid: true, Setctty: k.terminal}}
	var master *os.File
	if k.terminal {
		master, j.stdin = ptytest.Open(t)
	}
	v := &taggedJob{cluster: b, tag: strconv.FormatInt(time.Now().UnixNano(), 10), ranks: ranks}
	words := append(slices.Clone(k.before), binary, "--kill-grace", strconv.Itoa(max(1, k.grace)), "-hosts", hosts, "-n", strconv.Itoa(ranks))
	if restart {
		words = append(words, "--restart", "1", "--restart-on", "any", "--restart-delay", "0.1")
	}
	v.runningJob = b.startCommand(t, j, append(words, wrapperScript.args(t, v.tag)...))
	t.Cleanup(func() {
		for _, pid := range v.processes() { // of a test that has failed
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	v.awaitRanks(t, wrapperScript, ranks)
	k.hit(t, v, master)
	r := v.wait(t)
	v.checkGone(t, goneTimeout)
	if r.code != k.code || strings.Count(r.out, "ready") != ranks {
		t.Errorf("exit %d, want %d, and %d ranks\nstdout: %s\nstderr: %s", r.code, k.code, ranks, r.out, r.err)
	}
	if jobs := b.readListing(t, "localhost", "n1", "n2").Jobs; len(jobs) > 0 {
		t.Errorf("claims are left: %+v", jobs)
	}
}

// A rank that ends at once, before there is a guard, may have left somebody.
func TestWhatARankLeavesAtOnceIsGuarded(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	v := &taggedJob{cluster: b, tag: strconv.FormatInt(time.Now().UnixNano(), 10)}
	v.runningJob = b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1", "sh", "-c", "sleep 1000." + v.tag + " >/dev/null 2>&1 &"}})
	if !poll(goneTimeout, func() bool { return len(v.guards()) == 1 }) {
		t.Fatal("there is no guard")
	}
	v.cmd.Process.Kill()
	v.wait(t)
	v.checkGone(t, goneTimeout)
}

// A command that writes checkpoints is a process of the launching machine, with a process group of its own.
func TestACheckpointCommandEndsWithAKilledLauncher(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	v := &taggedJob{cluster: b, tag: strconv.FormatInt(time.Now().UnixNano(), 10)}
	begun := filepath.Join(t.TempDir(), "begun")
	v.runningJob = b.startMpiexec(t, mpiexecCall{attr: &syscall.SysProcAttr{Setsid: true}, args: append([]string{"-hosts", "localhost:1,n1:1", "-n", "2", "--ckpt-every", "0.1",
		"--ckpt-cmd", "echo >" + begun + "; exec sleep 1000." + v.tag}, shellProgram.args(t, v.tag)...)})
	if !poll(goneTimeout, func() bool { _, err := os.Stat(begun); return err == nil }) {
		t.Fatal("no checkpoint has begun")
	}
	signalPIDs(t, syscall.SIGKILL, "process group", []int{-v.cmd.Process.Pid})
	v.wait(t)
	v.checkGone(t, goneTimeout)
}

// The guard is in no process group of mpiexec's, and in its session only where a batch system looks for it there.
func TestTheGuardLeavesTheSessionButUnderPBS(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	nodes := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(nodes, []byte("localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, pbs := range []bool{false, true} {
		v := &taggedJob{cluster: b, tag: strconv.FormatInt(time.Now().UnixNano(), 10)}
		j := mpiexecCall{args: append([]string{"-host", "localhost", "-n", "1"}, shellProgram.args(t, v.tag)...)}
		if pbs {
			j.env = []string{"PBS_JOBID=1", "PBS_NODEFILE=" + nodes}
		}
		v.runningJob = b.startMpiexec(t, j)
		v.awaitRanks(t, shellProgram, 1)
		var guards []int
		if !poll(goneTimeout, func() bool { guards = v.guards(); return len(guards) == 1 }) {
			t.Fatalf("PBS %v: guards %v", pbs, guards)
		}
		guard, _ := proc.ReadInfo(guards[0])
		launcher, _ := proc.ReadInfo(v.cmd.Process.Pid)
		if guard.Group != guard.PID || (guard.Session == launcher.Session) != pbs {
			t.Errorf("PBS %v: guard %+v, mpiexec %+v", pbs, guard, launcher)
		}
		v.cmd.Process.Signal(syscall.SIGTERM)
		v.wait(t)
		v.checkGone(t, goneTimeout)
	}
}
