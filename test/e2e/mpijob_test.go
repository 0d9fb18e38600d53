package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// The program under the name of mpijob lists a job on two hosts, says what its ranks do, signals, suspends, resumes and
// ends it from another host.
func TestMpijobOnTwoHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	mpijob := filepath.Join(t.TempDir(), "mpijob")
	if err := os.Symlink(binary, mpijob); err != nil {
		t.Fatal(err)
	}
	job := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-n", "3", "sh", "-c", `trap 'echo got USR1' USR1; echo ready; while :; do sleep 1000 & wait; done`}})
	job.awaitOut(t, "ready", 3)
	id := b.readListing(t, "n1", "n2").Jobs[0].Job
	for _, test := range []struct {
		line, out, err string // what standard output has, and standard error
		code           int
	}{
		{"ps n1 n2", id, "", 0},
		{"ps -host n1,n2 --json", `"nodes":[{"node":"n1"`, "", 0},
		{"ps n[1-2]", " n[1-2] ", "", 0},
		{"queue n1", "nobody waits", "", 0},
		{"status " + id + " n1", "2     n2 ", "", 0},
		{"status last n2", "job      " + id + " runs", "", 0},
		{"signal USR1 " + id + " n1 n2", "", "", 0},
		{"suspend " + id + " n1", "", "", 0},
		{"checkpoint " + id + " n1", "", "hint: mpijob resume " + id + " continues the job", 125},
		{"resume " + id + " n2", "", "", 0},
		{"migrate " + id + " --to n1 n1", "", "hint: start the job with --restart N", 125},
		{"end nojob n1 n2", "", "mpijob: there is no job nojob\n", 125},
		{"doctor n1 n2", "2 hosts", "", 0},
		{"end " + id + " n2", "", "", 0},
		{"ps n1 n2", "no jobs\n", "", 0},
		{"evict " + id + " n1", "", "there is no job", 125},
	} {
		out, errs, code := b.runOnHead(t, mpijob, strings.Fields(test.line)...)
		if warned := code == 1 && strings.HasPrefix(test.line, "doctor"); code != test.code && !warned || !strings.Contains(out, test.out) || !strings.Contains(errs, test.err) {
			t.Errorf("mpijob %s: exit %d, %q, %q", test.line, code, out, errs)
		}
	}
	r := job.wait(t)
	if r.code != 143 || strings.Count(r.out, "got USR1") != 3 {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
