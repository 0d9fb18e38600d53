//go:build linux

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/batch"
	"remshell/tools/testbed"

	"github.com/rogpeppe/go-internal/txtar"
)

// fakeStarter enters a host as a batch system's own starter does: what it runs there is no child of an ssh. Its cases set
// pid to a process of the host that its arguments name.
const fakeStarter = `#!/bin/sh
echo "${0##*/} $*" >>%s/calls
case "$*" in %s esac
echo "a starter has something to say" >&2
while [ $# -gt 1 ]; do shift; done
exec nsenter --target $pid --mount --net --uts --ipc --pid --wdns=/tmp -- "$@"
`

// A fakeJob is a job of a batch system on n1, with 2 tasks, and n2, with 1. A script takes the place of the starter.
type fakeJob struct {
	dir   string   // of the script and of the job's files
	env   []string // of the job
	calls []string // that the starter should get, one for each host
}

// newFakeJob makes the job that batch/testdata/starters/SYSTEM.txtar describes: a line for each variable, and the files
// that they name, in the directory $JOB. The file answer is what the starter prints if it is called for another purpose.
func newFakeJob(t *testing.T, b *testCluster, s *batch.System) fakeJob {
	t.Helper()
	archive, err := txtar.ParseFile("../../batch/testdata/starters/" + s.Name + ".txtar")
	if err != nil {
		t.Fatalf("%s has a starter, and no job to try it in: %v", s.Name, err)
	}
	job := fakeJob{dir: t.TempDir()}
	if err := os.Chmod(job.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(job.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	answer := ""
	for _, file := range archive.Files {
		write(file.Name, string(file.Data), 0o644)
		if file.Name == "answer" {
			answer = string(file.Data)
		}
	}
	values := make(map[string]string)
	for line := range strings.Lines(strings.ReplaceAll(string(archive.Comment), "$JOB", job.dir)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[name] = value
		job.env = append(job.env, name+"="+value)
	}
	job.env = append(job.env, "PATH="+job.dir+":"+os.Getenv("PATH"))
	a, err := batch.Read(s.Name, batch.Inputs{
		Env:  func(name string) (string, bool) { value, defined := values[name]; return value, defined },
		Open: func(name string) (io.ReadCloser, error) { return os.Open(name) },
		Run:  func(string, ...string) (string, error) { return answer, nil },
	}, batch.Options{})
	if err != nil || len(a.Hosts) != 2 {
		t.Fatalf("the hosts of %s are %+v, %v", s.Name, a.Hosts, err)
	}
	cases := ""
	for i, h := range a.Hosts {
		args := strings.Join(s.Starter.Argv(batch.Call{Host: h.Name, Part: -1, Rank: h.Rank})[1:], " ")
		job.calls = append(job.calls, s.Starter.Program+" "+args)
		cases += fmt.Sprintf("'%s') pid=%d;; ", args, b.Hosts[i].Init)
	}
	if answer != "" {
		cases += "*) cat " + job.dir + "/answer; exit;;"
	}
	write(s.Starter.Program, fmt.Sprintf(fakeStarter, job.dir, cases), 0o755)
	return job
}

// liveStarters are the systems in whose own jobs, or with whose stand-ins, other tests of this package start helpers.
var liveStarters = []string{"slurm", "sge", "pbs"}

// Starters of systems that no test here can have live are called as their manuals have it, and serve: ranks run on the
// hosts they reach, signals and ends pass, and one that is killed loses its host alone.
func TestStartersNeverTried(t *testing.T) {
	requireNamespaces(t)
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, s := range batch.Systems {
		if s.Starter == nil || slices.Contains(liveStarters, s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			job := newFakeJob(t, b, s)
			program, env := s.Starter.Program, job.env
			res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-v", "-launcher", s.Name, "hostname"}}).wait(t)
			if res.code != 0 || countEqualLines(res.out) != "n1:2 n2:1" || !strings.Contains(res.err, "starter "+program+" (tight)") || strings.Contains(res.err, "but mpiexec was never tested with this batch system") != s.Untried {
				t.Fatalf("exit %d: %s%s", res.code, res.out, res.err)
			}
			calls, _ := os.ReadFile(filepath.Join(job.dir, "calls"))
			for _, call := range job.calls {
				if n := strings.Count(string(calls), call+"\n"); n != 1 {
					t.Errorf("%q was called %d times, want once:\n%s", call, n, calls)
				}
			}
			if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-v", "hostname"}}).wait(t); strings.Contains(res.err, "starter ssh (loose)") != s.Untried {
				t.Errorf("its starter is the default unless nobody has tried it (%t): %s", s.Untried, res.err)
			}
			if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-launcher", s.Name, "sh", "-c", "exit $((MPIEXEC_RANK + 3))"}}).wait(t); res.code < 3 || res.code > 5 {
				t.Errorf("exit %d: %s", res.code, res.err)
			}
			run := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-launcher", program, "sh", "-c", `trap 'echo =$MPIEXEC_RANK-USR1=' USR1; echo =ready=; while :; do sleep 1; done`}})
			run.awaitOut(t, "=ready=", 3)
			run.cmd.Process.Signal(syscall.SIGUSR1)
			for _, mark := range []string{"=0-USR1=", "=1-USR1=", "=2-USR1="} {
				run.awaitOut(t, mark, 1)
			}
			killed := 0
			for _, pid := range children(run.cmd.Process.Pid) {
				if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(args), "nsenter") && strings.Contains(string(args), fmt.Sprint(b.Hosts[1].Init)) {
					syscall.Kill(pid, syscall.SIGKILL)
					killed++
				}
			}
			if res := run.wait(t); killed != 1 || res.code != 125 || !strings.Contains(res.err, "lost contact with n2 ("+program+": ") {
				t.Errorf("%d killed, exit %d: %s", killed, res.code, res.err)
			}
		})
	}
	t.Run("Fallback", func(t *testing.T) { checkFallback(t, b) })
}

// A starter that fails on one host leaves the job to ssh, for all hosts, if the user has allowed it, and it is told what
// that means; else it fails the job (RM-30).
func checkFallback(t *testing.T, b *testCluster) {
	dir := t.TempDir()
	where := fmt.Sprintf("'n1 '*) pid=%d;; *) echo 'blaunch: n2 is drained' >&2; exit 1;;", b.Hosts[0].Init)
	err := os.Chmod(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "blaunch"), fmt.Appendf(nil, fakeStarter, dir, where), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LSB_JOBID=7", "LSB_MCPU_HOSTS=n1 2 n2 1"}
	if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-launcher", "lsf", "hostname"}}).wait(t); res.code != 125 || res.out != "" || !strings.Contains(res.err, "n2 is drained") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	report := filepath.Join(t.TempDir(), "report")
	res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-v", "-launcher", "lsf", "--batch-option", "fallback=ssh", "--report", report, "hostname"}}).wait(t)
	for text, want := range map[string]int{
		"mpiexec: warning: blaunch failed on n2 (n2 is drained). mpiexec uses ssh for all hosts, so LSF will not account for their ranks\n": 1,
		"LSF does not see the ranks on 2 hosts, because ssh started them\n":                                                                 1,
	} {
		if n := strings.Count(res.err, text); n != want {
			t.Errorf("%d times %q in\n%s", n, text, res.err)
		}
	}
	told, _ := os.ReadFile(report)
	if res.code != 0 || countEqualLines(res.out) != "n1:2 n2:1" || !strings.Contains(string(told), `"starter": "ssh"`) || !strings.Contains(string(told), `"grade": "loose"`) {
		t.Errorf("exit %d: %s%s%s", res.code, res.out, res.err, told)
	}
}
