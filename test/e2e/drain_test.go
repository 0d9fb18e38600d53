//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// newDrainCluster returns hosts whose /etc are their own, and functions that run mpijob on the head and a command line
// in a shell on n2.
func newDrainCluster(t *testing.T) (b *testCluster, mpijob func(line string) (out, errs string, code int), onN2 func(script string) string) {
	t.Parallel()
	b = newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	for _, host := range []string{"n1", "n2"} {
		b.addEtcFile(t, host, "node.toml", "")
	}
	b.copyToHost(t, "n2", binary, "/etc/mpiexec") // for other users of n2
	link := filepath.Join(t.TempDir(), "mpijob")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	mpijob = func(line string) (out, errs string, code int) {
		t.Helper()
		return b.runOnHead(t, "sh", "-c", "exec "+link+" "+line)
	}
	return b, mpijob, func(script string) string { t.Helper(); return b.runOn(t, "n2", "sh", "-ec", script) }
}

// copyToHost copies an executable file to a path on a host.
func (b *testCluster) copyToHost(t *testing.T, host, file, path string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	copied := b.On(t.Context(), host, "sh", "-ec", `cat >"$1"; chmod 755 "$1"`, "sh", path)
	copied.Stdin = f
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Root drains a host: a job that runs there goes on, the next start leaves the host out or says why, ps, doctor and a
// dry run show it, until undrain. allow restricts users and ranks in the same way. Others than root are refused.
func TestDrain(t *testing.T) {
	b, mpijob, onN2 := newDrainCluster(t)
	want := func(code int, text string, line string) {
		t.Helper()
		if out, errs, got := mpijob(line); got != code || !strings.Contains(out+errs, text) {
			t.Errorf("mpijob %s: exit %d, %q, %q; want %d, %q", line, got, out, errs, code, text)
		}
	}
	starts := func(code int, text string, args ...string) {
		t.Helper()
		if r := b.runMpiexec(t, append(args, "hostname")...); r.code != code || !strings.Contains(r.out+r.err, text) {
			t.Errorf("%v: exit %d, %q, %q; want %d, %q", args, r.code, r.out, r.err, code, text)
		}
	}
	const drained = "n2 was drained by root on 20"
	running := b.startHolding(t, "-host", "n2", "-n", "1")
	running.awaitCPUs(t)
	want(0, "mpijob: "+drained, `drain n2 --reason "disk fault"`)
	starts(0, "n1\n", "-host", "n1,n2", "-n", "1")
	starts(125, ": disk fault", "-host", "n2", "-n", "1")
	starts(125, "or ask root to run: mpijob undrain root@n2\n", "-host", "n2", "-n", "1")
	starts(125, "n2: was drained by root on 20", "-host", "n1:1,n2:1", "-n", "2")
	starts(0, ": disk fault", "--dry-run", "-host", "n1,n2", "-n", "1")
	want(0, drained, "ps n1 n2")
	want(0, `"settings":[{"node":"n2","drained_since":"20`, "ps --json n2")
	want(125, ": disk fault", "doctor n2")
	want(125, "ask root to run: mpijob undrain root@HOST", "doctor n2")
	if out, errs, _ := mpijob("doctor n1 n2"); strings.Count(out+errs, "disk fault") != 1 {
		t.Errorf("doctor has the drain not once: %q, %q", out, errs)
	}
	fmt.Fprintln(running.input, "still here")
	if r := running.end(t); r.code != 0 || !strings.Contains(r.out, "still here") {
		t.Errorf("the running job: exit %d, %q, %q", r.code, r.out, r.err)
	}
	if mode := onN2("stat -c %a:%u:%h /etc/remshell/state.toml; ls -A /etc/remshell"); mode != "644:0:1\n.state.lock\nnode.toml\nstate.toml" {
		t.Errorf("files: %q", mode)
	}
	want(0, "n2 is not drained, and mpijob allow does not restrict it", "undrain root@n2") // as the hint says
	starts(0, "n2\n", "-host", "n2", "-n", "1")
	want(0, "no jobs\n", "ps n2")

	want(0, "n2 runs only jobs of users daemon, 4711, and at most 1 process at a time (set by mpijob allow)", "allow users=daemon,4711 maxproc=1 n2")
	starts(125, "the administrator's maxproc allows 1 on n2", "-host", "n2:2", "-n", "2")
	as := func(uid string) string {
		return onN2("cd /; HOME=/ USER=x; export HOME USER; setpriv --reuid " + uid + " --regid " + uid + " --clear-groups /etc/mpiexec -host localhost -n 1 id -u 2>&1 || echo exit $?")
	}
	for uid, text := range map[string]string{"1": "1", "4711": "4711", "12345": "the host is reserved for other users (/etc/remshell/state.toml)"} {
		if out := as(uid); !strings.Contains(out, text) {
			t.Errorf("uid %s: %q, want %q", uid, out, text)
		}
	}
	want(0, "n2 runs only jobs of users daemon, 4711 (set by mpijob allow)", "allow maxproc=any n2")
	want(125, `no user "nobody-here" exists`, "allow users=nobody-here n2")
	want(0, "only jobs of users daemon, 4711", "doctor n2")
	want(0, "n2 is not drained", "allow users=any n2")

	for _, word := range []string{"drain", "undrain", "allow users=any"} {
		out := onN2("cd /; HOME=/; export HOME; setpriv --reuid 12345 --regid 12345 --clear-groups /etc/mpiexec --mpijob " + word + " localhost 2>&1 || echo exit $?")
		if !strings.Contains(out, "only root on localhost may change its settings") || !strings.Contains(out, "exit 125") {
			t.Errorf("%s by another user: %q", word, out)
		}
	}
	want(125, "drain: no host is given", "drain")
	want(125, "nosuchhost: not changed: ", "drain nosuchhost n1")
	want(0, "n1 was drained by root", "ps n1")
}

// A settings file that root has not written, or that is not a small file of settings, ends each start and each change
// with a message, and never hangs them.
func TestHostileSettings(t *testing.T) {
	b, mpijob, onN2 := newDrainCluster(t)
	const f = "/etc/remshell/state.toml"
	for name, test := range map[string]struct{ script, want string }{
		"another's": {"echo '[allow]' >" + f + "; chown 12345 " + f, "the file belongs to uid 12345, but must belong to root"},
		"writable":  {"echo '[allow]' >" + f + "; chmod 666 " + f, "users other than root may write to it"},
		"a link":    {"echo '[allow]' >/etc/remshell/x; ln -s x " + f, "must be a regular file, not a symbolic link"},
		"a FIFO":    {"mkfifo -m 644 " + f, "is not a regular file"},
		"a folder":  {"mkdir " + f, "is not a regular file"},
		"garbage":   {"head -c 1000 /dev/urandom >" + f, "state.toml"},
		"unknown":   {"printf '[drain]\\nsince = 3\\n[x]\\n' >" + f, f + ":2: since: 3 is not a time"},
		"10 MB":     {"head -c 10000000 /dev/zero >" + f, "has 10000000 bytes, but at most 65536 are allowed"},
	} {
		onN2("rm -rf " + f + "; " + test.script)
		r := b.runMpiexec(t, "-host", "n2", "-n", "1", "true")
		if r.code != 125 || !strings.Contains(r.err, "the host does not allow jobs, because mpiexec cannot read the rules of its administrator: ") || !strings.Contains(r.err, test.want) {
			t.Errorf("%s: a start: exit %d, %q; want %q", name, r.code, r.err, test.want)
		}
		for _, line := range []string{"drain n2", "undrain n2"} {
			if _, errs, code := mpijob(line); code != 125 || !strings.Contains(errs, "n2: not changed: ") || !strings.Contains(errs, test.want) {
				t.Errorf("%s: %s: exit %d, %q; want %q", name, line, code, errs, test.want)
			}
		}
	}
	onN2("rm -rf " + f + "; rm " + "/etc/remshell/.state.lock; ln -s /etc/passwd /etc/remshell/.state.lock")
	if _, errs, code := mpijob("drain n2"); code != 125 || !strings.Contains(errs, ".state.lock: too many levels of symbolic links") {
		t.Errorf("a link as lock: exit %d, %q", code, errs)
	}
	onN2("rm /etc/remshell/.state.lock; ln -s /etc/passwd /etc/remshell/.state.toml.new; cp /etc/passwd /etc/before")
	if _, errs, code := mpijob("drain n2"); code != 0 || onN2("cmp /etc/passwd /etc/before; cat "+f) == "" {
		t.Errorf("a link as new file: exit %d, %q", code, errs)
	}
	onN2("chmod 777 /etc/remshell")
	if _, errs, code := mpijob("undrain n2"); code != 125 || !strings.Contains(errs, "/etc/remshell: must belong to root, and only root may write to it") {
		t.Errorf("an open folder: exit %d, %q", code, errs)
	}
}
