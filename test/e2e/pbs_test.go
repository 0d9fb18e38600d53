//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// fakePBSAttach is in the place of pbs_attach: it tells how it was called, and of which session the process is.
const fakePBSAttach = `#!/bin/sh
echo "$1 $2 $3" $(ps -o sid= -p $4) $(cat) >/tmp/attached
`

// With -launcher pbs helper and ranks are in a session that pbs_attach was told of, and nothing of the script is lost to it; where there
// is none that is told once, and the job is loose. Nobody has it without asking (RM-30).
func TestPBSAttach(t *testing.T) {
	requireNamespaces(t)
	b := newTestCluster(t, testbed.Options{Hosts: 3, SSHDConfig: "SetEnv PATH=/tmp/bin:/usr/bin:/bin"})
	put := func(host, text string) {
		t.Helper()
		dir := filepath.Join(b.Root(host), "tmp/bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pbs_attach"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("n1", fakePBSAttach)
	put("n2", fakePBSAttach)
	nodes := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(nodes, []byte("n1\nn2\nn3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(nodes), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"PBS_JOBID=12[3].it's", "PBS_NODEFILE=" + nodes}
	run := func(args ...string) result {
		return b.startMpiexec(t, mpiexecCall{env: env, args: append([]string{"-v"}, args...)}).wait(t)
	}
	const rank = `echo $(hostname) -j $PBS_JOBID -p $(ps -o sid= -p $$)`
	res := run("-launcher", "pbs", "-host", "n1,n2", "-n", "2", "-ppn", "1", "sh", "-c", rank)
	for _, h := range []string{"n1", "n2"} {
		told, _ := os.ReadFile(filepath.Join(b.Root(h), "tmp/attached"))
		if len(told) == 0 || !strings.Contains(res.out, h+" "+string(told)) {
			t.Errorf("%s attached %q, but the rank says\n%s%s", h, told, res.out, res.err)
		}
	}
	if res.code != 0 || strings.Contains(res.err, "warning") || !strings.Contains(res.err, "mpiexec was never tested with it") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	put("n2", "#!/bin/sh\nexit 1\n")
	res = run("-launcher", "pbs", "hostname")
	const warning = "mpiexec: warning: pbs_attach failed on n2, pbs_attach not found on n3: PBS will not account for ranks there\n"
	if res.code != 0 || countEqualLines(res.out) != "n1:1 n2:1 n3:1" || strings.Count(res.err, warning) != 1 || !strings.Contains(res.err, "rm: PBS job 12[3].it's, 3 hosts, 3 tasks, 3 CPUs, starter pbs_attach") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	if res := run("hostname"); res.code != 0 || !strings.Contains(res.err, "starter ssh (loose)") || strings.Contains(res.err, "pbs_attach") {
		t.Errorf("it is the default, although nobody has tried it: %s", res.err)
	}
	env = nil
	if res := run("-launcher", "pbs", "-host", "n1", "true"); res.code != 125 || !strings.Contains(res.err, "mpiexec: -launcher pbs: not inside a job of PBS\n  hint: call mpiexec in a script of qsub; or use -launcher ssh") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	if res := run("-launcher", "pbsdsh", "-host", "n1", "true"); res.code != 125 || !strings.Contains(res.err, "pbsdsh does not pass standard input to its programs\n  hint: use -launcher pbs\n") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
}
