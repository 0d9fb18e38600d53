//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// fakeStarter enters a host as a batch system's own starter does: what it runs there is no child of
// an ssh. What stands before the host, or its number, and what it may say on its own, is its own.
const fakeStarter = `#!/bin/sh
echo "$0 $*" >>%s/calls
case "$*" in %s esac
echo "a starter has something to say" >&2
while [ $# -gt 1 ]; do shift; done
exec nsenter --target $pid --mount --net --uts --ipc --pid --wdns=/tmp -- "$@"
`

// Starters that no test here can have live, LSF's and Flux's, are called as their manuals have it, and
// serve: ranks run on the hosts they reach, signals and ends pass, and one that is killed loses its
// host alone.
func TestStartersNeverTried(t *testing.T) {
	requireNamespaces(t)
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const r = `{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-1"}},{"rank":"3","children":{"core":"0"}}],"nodelist":["n1","n2"]}}`
	for _, test := range []struct {
		name    string
		env     []string
		program string
		cases   [2]string // that lead to n1 and n2
		calls   string
		more    string // what else the program does
	}{
		{"lsf", []string{"LSB_JOBID=7", "LSB_MCPU_HOSTS=n1 2 n2 1"}, "blaunch", [2]string{"'n1 '*", "'n2 '*"}, "blaunch n1 /bin/sh|blaunch n2 /bin/sh", ""},
		{"flux", []string{"FLUX_URI=local:///gone", "FLUX_ENCLOSING_ID=f7"}, "flux", [2]string{"*'-r 0 '*", "*'-r 3 '*"}, "flux exec -r 0 /bin/sh|flux exec -r 3 /bin/sh",
			"if [ \"$1\" = resource ]; then echo '" + r + "'; exit; fi\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			where := ""
			for i, pattern := range test.cases {
				where += fmt.Sprintf("%s) pid=%d;; ", pattern, b.Hosts[i].Init)
			}
			text := strings.Replace(fmt.Sprintf(fakeStarter, dir, where), "echo \"$0", test.more+"echo \"${0##*/}", 1)
			if err := os.WriteFile(filepath.Join(dir, test.program), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			env := append([]string{"PATH=" + dir + ":" + os.Getenv("PATH")}, test.env...)
			res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-v", "-launcher", test.name, "hostname"}}).wait(t)
			if res.code != 0 || countEqualLines(res.out) != "n1:2 n2:1" || !strings.Contains(res.err, "starter "+test.program+" (tight)") || !strings.Contains(res.err, "nobody has told that it works") {
				t.Fatalf("exit %d: %s%s", res.code, res.out, res.err)
			}
			if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-v", "hostname"}}).wait(t); !strings.Contains(res.err, "starter ssh (loose)") {
				t.Errorf("it is the default, although nobody has tried it: %s", res.err)
			}
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			for call := range strings.SplitSeq(test.calls, "|") {
				if n := strings.Count(string(calls), call+"\n"); n != 1 {
					t.Errorf("%q was called %d times, want once:\n%s", call, n, calls)
				}
			}
			if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-launcher", test.name, "sh", "-c", "exit $((MPIEXEC_RANK + 3))"}}).wait(t); res.code < 3 || res.code > 5 {
				t.Errorf("exit %d: %s", res.code, res.err)
			}
			run := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-launcher", test.program, "sh", "-c", `trap 'echo =$MPIEXEC_RANK-USR1=' USR1; echo =ready=; while :; do sleep 1; done`}})
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
			if res := run.wait(t); killed != 1 || res.code != 125 || !strings.Contains(res.err, "lost contact with n2 ("+test.program+": ") {
				t.Errorf("%d killed, exit %d: %s", killed, res.code, res.err)
			}
		})
	}
	t.Run("Fallback", func(t *testing.T) { checkFallback(t, b) })
}

// A starter that fails on one host leaves the job to ssh, for all hosts, if the user has allowed it, and it is told what
// that means; else it fails the job (RM-30, M11).
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
		"mpiexec: warning: blaunch failed on n2 (n2 is drained), using ssh for all hosts: LSF will not account for them\n": 1,
		"ranks on 2 hosts are not visible to LSF (started by ssh)\n":                                                       1,
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
