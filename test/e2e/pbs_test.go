//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// fakePBSAttach is in the place of pbs_attach: it tells how it was called, and of which session the process is.
const fakePBSAttach = `#!/bin/sh
echo "$1 $2 $3" $(ps -o sid= -p $4) $(cat) >/tmp/attached
`

// With -launcher pbs_attach helper and ranks are in a session that pbs_attach was told of, and nothing of the script is lost to it; where there
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
	res := run("-launcher", "pbs_attach", "-host", "n1,n2", "-n", "2", "-ppn", "1", "sh", "-c", rank)
	for _, h := range []string{"n1", "n2"} {
		told, _ := os.ReadFile(filepath.Join(b.Root(h), "tmp/attached"))
		if len(told) == 0 || !strings.Contains(res.out, h+" "+string(told)) {
			t.Errorf("%s attached %q, but the rank says\n%s%s", h, told, res.out, res.err)
		}
	}
	if res.code != 0 || strings.Contains(res.err, "warning") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	put("n2", "#!/bin/sh\nexit 1\n")
	res = run("-launcher", "pbs_attach", "hostname")
	const warning = "mpiexec: warning: pbs_attach failed on n2 and pbs_attach was not found on n3, so PBS will not account for ranks on these hosts\n"
	if res.code != 0 || countEqualLines(res.out) != "n1:1 n2:1 n3:1" || strings.Count(res.err, warning) != 1 || !strings.Contains(res.err, "rm: PBS job 12[3].it's, 3 hosts, 3 tasks, 3 CPUs, starter pbs_attach") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	if res := run("hostname"); res.code != 0 || !strings.Contains(res.err, "starter ssh (loose)") || strings.Contains(res.err, "pbs_attach") {
		t.Errorf("without the job's cookie it is not ssh: %s", res.err)
	}
	env = nil
	if res := run("-launcher", "pbs_attach", "-host", "n1", "true"); res.code != 125 || !strings.Contains(res.err, "mpiexec: -launcher pbs_attach: mpiexec does not run inside a job of PBS\n  hint: start mpiexec in a job script (qsub), or use -launcher ssh") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	if res := run("-launcher", "pbsdsh", "-host", "n1", "true"); res.code != 125 || !strings.Contains(res.err, "pbsdsh does not pass standard input to its programs\n  hint: use -launcher pbs\n") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
}

// fakeTmrsh is in the place of pbs_tmrsh. As PBS does, it starts the program below a pbs_mom on the host, in a session of
// its own, without input and with the environment of the job, and its output goes to files of the job. It ends with the
// program's exit code, and the program goes on if it is killed.
const fakeTmrsh = `#!/bin/sh
host=$1
shift
echo "$host $1 $2 $#" >>%[1]s/calls
case $host in %[2]s *) echo "${0##*/}: host \"$host\" is not a node in job <$PBS_JOBID>" >&2; exit 255;; esac
env -i %[3]s setsid nsenter --target $pid --mount --net --uts --ipc --pid --wdns=/tmp -- %[1]s/pbs_mom "$@" </dev/null >>%[1]s/out 2>>%[1]s/err &
wait $!
`

// fakeMom is in the place of the pbs_mom that starts a task.
const fakeMom = "#!/bin/sh\n\"$@\"\nexit $?\n"

// In a job of PBS without ssh, pbs_tmrsh starts the helpers, by itself. They prove by the job's cookie that they belong
// to it, and nothing of it is on a command line. Exit codes, signals and kills pass. What cannot be started is said.
func TestPBSStarter(t *testing.T) {
	requireNamespaces(t)
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "e2e-") // the hosts see it, too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	const cookie = "6B8B4567327B23C6643C986966334873"
	hosts := ""
	for i, h := range b.Hosts {
		hosts += fmt.Sprintf("n%d) pid=%d;; ", i+1, h.Init)
	}
	put("pbs_tmrsh", fmt.Sprintf(fakeTmrsh, dir, hosts, "PATH=/usr/bin:/bin HOME=/root PBS_JOBID=12.n0 PBS_JOBCOOKIE="+cookie), 0o755)
	put("pbs_mom", fakeMom, 0o755)
	put("nodes", "n1\nn1\nn2\n", 0o644)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"PBS_JOBID=12.n0", "PBS_NODEFILE=" + dir + "/nodes", "PBS_JOBCOOKIE=" + cookie, "PBS_TASKNUM=1", "PATH=" + dir + ":" + os.Getenv("PATH")}
	shared := filepath.Join(dir, "mpiexec")
	if err := exec.Command("cp", binary, shared).Run(); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *runningJob {
		return b.startCommand(t, mpiexecCall{env: env}, append([]string{shared}, args...))
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}

	res := start("-v", "hostname").wait(t)
	if res.code != 0 || countEqualLines(res.out) != "n1:2 n2:1" || !strings.Contains(res.err, "starter pbs_tmrsh (tight)") || strings.Contains(res.err, "warning") {
		t.Fatalf("exit %d: %s%s\n%s", res.code, res.out, res.err, read("err"))
	}
	if calls := read("calls"); strings.Count(calls, "n1 /bin/sh -c 3\n") != 1 || strings.Count(calls, "n2 /bin/sh -c 3\n") != 1 || read("out") != "" || read("err") != "" {
		t.Errorf("calls:\n%s\nthe job's files: %q %q", calls, read("out"), read("err"))
	}
	if res := start("sh", "-c", "exit $((MPIEXEC_RANK + 3))").wait(t); res.code < 3 || res.code > 5 {
		t.Errorf("exit %d: %s", res.code, res.err)
	}
	if res := start("-n", "1", "-host", "n2", "sh", "-c", "kill -9 $$").wait(t); res.code != 137 || !strings.Contains(res.err, "rank 0 on n2 died: Killed (signal 9)") {
		t.Errorf("exit %d: %s", res.code, res.err)
	}

	// Signals reach all ranks, and a host whose helper is killed is named.
	run := start("sh", "-c", `trap 'echo =$MPIEXEC_RANK-USR1=' USR1; echo =ready=; while :; do sleep 1; done`)
	run.awaitOut(t, "=ready=", 3)
	for _, pid := range b.ownProcesses(t) {
		if args := strings.ReplaceAll(cmdline(pid), "\x00", " "); strings.Contains(args, cookie) {
			t.Errorf("the cookie is on a command line: %s", args)
		}
	}
	run.cmd.Process.Signal(syscall.SIGUSR1)
	for _, mark := range []string{"=0-USR1=", "=1-USR1=", "=2-USR1="} {
		run.awaitOut(t, mark, 1)
	}
	run.cmd.Process.Signal(syscall.SIGTERM)
	if res := run.wait(t); res.code != 143 {
		t.Errorf("exit %d: %s", res.code, res.err)
	}

	// If mpiexec is killed, its ranks end.
	run = start("sleep", "1000")
	ranks := func() (n int) {
		for _, h := range b.Hosts {
			for _, p := range b.processes(t, h.Name) {
				if slices.Equal(p.Args, []string{"sleep", "1000"}) {
					n++
				}
			}
		}
		return n
	}
	if !poll(goneTimeout, func() bool { return ranks() == 3 }) {
		t.Errorf("%d ranks run, want 3", ranks())
	}
	run.cmd.Process.Kill()
	run.end()
	if !poll(goneTimeout, func() bool { return ranks() == 0 }) {
		t.Errorf("%d ranks run without mpiexec", ranks())
	}

	// A helper that does not know the cookie is refused, and so is a host outside of the job.
	right := read("pbs_tmrsh")
	put("pbs_tmrsh", strings.ReplaceAll(right, cookie, "0000"), 0o755)
	if res := start("-host", "n2", "hostname").wait(t); res.code != 125 || res.out != "" || !strings.Contains(res.err, "wrong token") || !strings.Contains(res.err, "mpiexec: n2: ") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	put("pbs_tmrsh", right, 0o755)
	put("nodes", "n1\nn2\nn3\n", 0o644) // and yet PBS does not know n3
	if res := start("-host", "n3", "hostname").wait(t); res.code != 125 || !strings.Contains(res.err, `host "n3" is not a node in job <12.n0>`) {
		t.Errorf("exit %d: %s", res.code, res.err)
	}

	// pbs_tmrsh gives no input, so it cannot copy mpiexec from a path that the hosts do not have.
	if res := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-host", "n2", "hostname"}}).wait(t); res.code != 125 || !strings.Contains(res.err, "n2: deliver: mpiexec is not on the node, and pbs_tmrsh cannot copy it") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	put("nodes", "n1\nn2\n", 0o644)
	if err := os.Remove(filepath.Join(dir, "pbs_tmrsh")); err != nil {
		t.Fatal(err)
	}
	if res := start("-v", "hostname").wait(t); res.code != 0 || !strings.Contains(res.err, "warning: pbs_tmrsh was not found, so mpiexec uses ssh: PBS will not account for ranks on n[1-2]\n") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
}
