//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// ENV-8: soft limits are those of mpiexec, as far as the hard ones of the host allow.
func TestLimitsAreTakenAlong(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, test := range []struct{ name, option, want string }{
		{"as here", "", "321 4000 77"},
		{"none", "--propagate none ", ""},
	} {
		script := `ulimit -Sn 321; ulimit -Ss 4000; ulimit -Sc 77; exec "$0" ` + test.option +
			`-host n1 -n 1 sh -c 'echo $(ulimit -Sn) $(ulimit -Ss) $(ulimit -Sc)'`
		out, errs, code := b.runOnHead(t, "sh", "-c", script, binary)
		if code != 0 || errs != "" || (strings.TrimSpace(out) == "321 4000 77") != (test.want != "") {
			t.Errorf("%s: exit %d, %q, %q", test.name, code, out, errs)
		}
	}
}

// ENV-8: ranks on hosts get mpiexec's niceness, I/O priority and OOM score adjustment, as ranks beside it do.
func TestPriorityIsTakenAlong(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, tool := range []string{"nice", "ionice"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	const ranks = `echo "$(nice) $(ionice -p $$) $(cat /proc/self/oom_score_adj)"`
	own := ownNice(t) // of the test and of the hosts
	taken := fmt.Sprint(own+7, " best-effort: prio 6 300")
	for option, want := range map[string]string{"": taken, "--propagate none": fmt.Sprint(own, " none: prio 0 0")} {
		out, errs, code := b.runOnHead(t, "sh", "-c", `echo 300 >/proc/self/oom_score_adj; exec nice -n 7 ionice -c 2 -n 6 "$0" `+option+` -l -host localhost:1,n1:1 -n 2 sh -c '`+ranks+`'`, binary)
		if code != 0 || errs != "" || !strings.Contains(out, "[0] "+taken+"\n") || !strings.Contains(out, "[1] "+want+"\n") {
			t.Errorf("%s: exit %d, %q, %q, want %s", option, code, out, errs, want)
		}
	}
}

// ENV-8: a host raises no priority that the account may not raise there. What mpiexec has because of its user is a warning.
func TestPriorityIsNotRaised(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	const denies = "ssh %h setpriv --bounding-set=-sys_nice,-sys_resource --inh-caps=-sys_nice,-sys_resource nice -n 5 %c"
	for _, tool := range []string{"nice", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	own := ownNice(t)
	for _, test := range []struct {
		name       string
		here, want int
		warning    string
	}{
		{"nothing is allowed", -5, own + 5, fmt.Sprintf("this host does not allow niceness -5, so ranks run with %d", own+5)},
		{"the usual one", 0, own + 5, ""},
		{"less", own + 9, own + 9, ""},
	} {
		out, errs, code := b.runOnHead(t, "nice", "-n", fmt.Sprint(test.here-own), binary, "-launcher-exec", denies, "-host", "n1:2", "-n", "2", "nice")
		warned := strings.Count(errs, "priority of ranks: ")
		if code != 0 || out != strings.Repeat(fmt.Sprintln(test.want), 2) || (warned == 1) != (test.warning != "") || !strings.Contains(errs, test.warning) {
			t.Errorf("%s: exit %d, %q, %q, want %d %q", test.name, code, out, errs, test.want, test.warning)
		}
	}
}

// ownNice returns the niceness of the test, which is also that of the hosts. It skips the test if too little is left.
func ownNice(t *testing.T) int {
	t.Helper()
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // the system call returns 20 - niceness
	if err != nil || 20-raw > 10 {
		t.Skip("the test has niceness ", 20-raw, ", ", err)
	}
	return 20 - raw
}

// SIG-6: signals go to the process group of a rank, or to it alone.
func TestSignalsGoToTheGroupOrTheLeader(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const script = `trap "echo leader" USR1; (trap "echo child; exit" USR1; echo ready; while :; do sleep 0.05; done) & echo ready; wait; sleep 1; kill -9 $! 2>/dev/null; echo over`
	for option, want := range map[string]string{"": "child,leader,over,ready,ready", "--signal-leader-only": "leader,over,ready,ready"} {
		args := strings.Fields(option + " -host n1 -n 1 sh -c")
		r := b.startMpiexec(t, mpiexecCall{args: append(args, script)})
		r.awaitOut(t, "ready", 2)
		r.cmd.Process.Signal(syscall.SIGUSR1)
		res := r.wait(t)
		if got := strings.Join(slices.Sorted(strings.FieldsSeq(res.out)), ","); got != want || res.code != 0 {
			t.Errorf("%q: exit %d, %s, want %s; %s", option, res.code, got, want, res.err)
		}
	}
}

// The kernel shares a busy CPU among sessions (sched_autogroup), so each rank leads one.
func TestEachRankLeadsASession(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const script = `read -r _ _ _ _ group session _ </proc/$$/stat; test $group = $$ && test $session = $$ && echo leads`
	r := b.runMpiexec(t, "--no-pin", "-host", "n1:2,n2:1", "-n", "3", "sh", "-c", script)
	if r.code != 0 || r.err != "" || r.out != "leads\nleads\nleads\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// EXIT-6: what ranks leave behind goes on if it may, also where a reaper stands above it.
func TestLeaveChildren(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	r := b.runMpiexec(t, "--leave-children", "-host", "n1", "-n", "1", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo done")
	if r.code != 0 || r.out != "done\n" || r.err != "" {
		t.Fatalf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	var left []int
	if !poll(goneTimeout, func() bool { left = b.pids(t, "n1"); return len(left) == 1 }) {
		t.Fatalf("on the host there are %v", b.processes(t, "n1"))
	}
	syscall.Kill(left[0], syscall.SIGKILL)
}

// pids lists the pids on a host.
func (b *testCluster) pids(t *testing.T, host string) (pids []int) {
	for _, p := range b.processes(t, host) {
		pids = append(pids, p.PID)
	}
	return pids
}

// DIAG-1: the plan of a dry run is that of the run.
func TestReportHoldsThePlanOfADryRun(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	file := filepath.Join(t.TempDir(), "run.json")
	args := []string{"-hosts", "n1:2,n2:2", "-n", "3", "--bind-to", "none", "sh", "-c", "sleep 0.1; exit $((PMI_RANK/2*5))"} // long enough for its memory to be seen
	r := b.runMpiexec(t, append([]string{"--report", file}, args...)...)
	if r.code != 5 {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	dry := b.runMpiexec(t, append([]string{"--dry-run", "--json"}, args...)...)
	var told struct {
		Code     int
		Cause    string
		Plan     any
		Connects []struct{ Node, Error string }
		Starts   []struct{ Rank, PID int }
		Exits    []struct {
			Rank, Code int
			Wall       float64
			MaxRSS     int64 `json:"max_rss"`
		}
		Usage []struct{ Node string }
	}
	var plan any
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err == nil {
		err = json.Unmarshal([]byte(dry.out), &plan)
	}
	if err != nil {
		t.Fatalf("%v in %s and %s%s", err, text, dry.out, dry.err)
	}
	if !reflect.DeepEqual(plan, told.Plan) {
		t.Errorf("the run's plan is\n%v\nthe dry run's\n%v", told.Plan, plan)
	}
	if told.Code != 5 || told.Cause != "rank 2 on n2 exited with code 5" || len(told.Connects) != 2 || len(told.Starts) != 3 ||
		len(told.Exits) != 3 || len(told.Usage) != 2 {
		t.Errorf("%s", text)
	}
	for _, e := range told.Exits {
		if e.Wall <= 0 || e.MaxRSS <= 0 {
			t.Errorf("rank %d used %+v", e.Rank, e)
		}
	}
}

// REP-5: if no PMI is offered to an Open MPI program, mpiexec prints a note. If its ranks use PMIx, it does not.
func TestProgramBuiltForAnotherLauncher(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	program := mpiProgram(t, "hello.openmpi")
	note := "mpiexec: note: no rank connected to mpiexec by PMI, although " + program + " uses libmpi.so.40; mpiexec offered nothing; try --pmi auto\n"
	r := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-host", "n1:2", "-n", "2", "--pmi", "none", program}}).wait(t)
	if r.code != 0 || strings.Count(r.out, "rank 0 of 1") != 2 || !strings.Contains(r.err, note) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	b.runMpiexec(t, "-host", "n1:2", "-n", "2", mpiProgram(t, "hello")).checkSuccess(t)
}

// REP-3: /dev/shm is looked at when a rank dies of SIGBUS.
func TestFullSharedMemoryIsTold(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.runOn(t, "n1", "sh", "-c", "mount -o remount,size=1m /dev/shm; head -c 2000000 /dev/zero >/dev/shm/full; test -s /dev/shm/full")
	r := b.runMpiexec(t, "-host", "n1", "-n", "1", "sh", "-c", "kill -BUS $$")
	if r.code != 135 || !strings.Contains(r.err, "  hint      /dev/shm is full (1 MiB)\n") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	b.runOn(t, "n1", "rm", "/dev/shm/full")
}

// DIAG-12: who waits for whom.
func TestTimeoutTellsWhoWaits(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	misc := mpiProgram(t, "misc")
	script := fmt.Sprintf(`if [ $PMI_RANK = 1 ]; then exec sleep 1000; fi; exec %s spin`, misc)
	r := b.runMpiexec(t, "-timeout", "10", "-hosts", "n1,n2", "-ppn", "1", "-n", "2", "sh", "-c", script)
	lines := strings.Split(r.err, "\n")
	if r.code != 124 || len(lines) < 4 || lines[0] != "mpiexec: what each rank is doing:" || !strings.Contains(lines[2], "in barrier 1") || !strings.Contains(lines[3], "not yet connected") {
		t.Errorf("exit %d after %v:\n%s", r.code, r.took, r.err)
	}
	if r.took > 10*time.Second+goneTimeout {
		t.Errorf("it took %v", r.took)
	}
}

// A quota of CPU time counts: in a control group of this machine, where one can be made.
func TestAQuotaIsSlots(t *testing.T) {
	for _, kind := range []struct{ top, file, quota string }{
		{"/sys/fs/cgroup", "cpu.max", "100000 100000"}, {"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"},
	} {
		dir, err := os.MkdirTemp(kind.top, "remshell-test-")
		if err != nil {
			continue
		}
		defer os.Remove(dir)                                                    // which is empty when its process is gone
		file, err := os.OpenFile(filepath.Join(dir, kind.file), os.O_WRONLY, 0) // the kernel has made it
		if err != nil {
			continue
		}
		_, err = file.WriteString(kind.quota)
		if file.Close(); err != nil {
			continue
		}
		out, err := exec.Command("sh", "-c", `echo $$ >`+dir+`/cgroup.procs; exec "$0" --rmk none --dry-run -host localhost --probe true`, binary).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "1 of ") || !strings.Contains(string(out), "by the CPU quota") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	t.Skip("no control group with a quota can be made here")
}
