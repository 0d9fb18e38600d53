//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// somebody is another user on the hosts than whose jobs give way: his helpers run there with a number of their own.
func (b *bed) somebody(t *testing.T, name string, uid int, hosts ...string) (launcher []string) {
	t.Helper()
	home, number := "/var/tmp/"+name, strconv.Itoa(uid)
	for _, host := range hosts {
		b.on(t, host, "install", "-d", "-o", number, "-g", number, home)
	}
	return []string{"-launcher-exec", fmt.Sprintf("ssh -q %%h setpriv --reuid=%[1]s --regid=%[1]s --clear-groups env HOME=%s USER=%s %%c", number, home, name)}
}

// twoUsers are two full hosts, for us and for alice, and a file that ranks may write on each.
func twoUsers(t *testing.T) (b *bed, file string, both, hers []string) {
	t.Parallel()
	b = newBed(t, testbed.Options{Hosts: 2})
	b.needNamespaces(t)
	both = []string{"-hosts", "n1:2,n2:2", "-n", "4", "--kill-grace", "1"}
	return b, diaryFile(), both, append(both[:len(both):len(both)], b.somebody(t, "alice", 12345, "n1", "n2")...)
}

// A job gives way to another user's that has no room without (survive.md SV-33): it stands still, its CPUs are his, and it goes on
// by itself when he is done, also if his mpiexec is killed. Nobody else gets anything of it, and nothing is left.
func TestPreemptibleJob(t *testing.T) {
	b, file, both, hers := twoUsers(t)
	bob := b.start(t, job{args: append(slices.Clone(both), "--preemptible", "sh", "-c", counting, "sh", file)})
	bob.await(t, "Cpus_allowed_list:", 4)
	if r := b.run(t, "--ps", "n1", "n2"); !strings.Contains(r.out, "(preemptible) ") {
		t.Errorf("it is not told: %q", r.out)
	}
	moves := func(when string) {
		t.Helper()
		for _, host := range []string{"n1", "n2"} {
			was := b.counted(host, file)
			if !poll(gone, func() bool { return b.counted(host, file) > was }) {
				t.Fatalf("%s nothing goes on on %s: %q", when, host, bob.err.String())
			}
		}
	}
	told := func(text string, times int) {
		t.Helper()
		if !poll(gone, func() bool { return strings.Count(bob.err.String(), text) == times }) {
			t.Errorf("not %d times %q: %q", times, text, bob.err.String())
		}
	}
	moves("at first")

	alice := b.start(t, job{args: append(slices.Clone(hers), "sh", "-c", looking, "sh", file, file+"-go")})
	alice.await(t, "still\n", 4)
	if one, two := masks(bob.out.String()), masks(alice.out.String()); one != two {
		t.Errorf("they had CPUs %s and %s", one, two)
	}
	told("preempted by job ", 1)
	for _, host := range []string{"n1", "n2"} {
		if err := os.WriteFile(b.Root(host)+file+"-go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := alice.wait(t); r.code != 0 || !strings.Contains(r.err, "asking job ") || !strings.Contains(r.err, "(suspend) to give way") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	told("goes on after ", 1)
	moves("after alice")

	killed := b.start(t, job{args: append(slices.Clone(hers), "--wait", "sh", "-c", "echo up; exec sleep 600")})
	killed.await(t, "up\n", 4)
	told("preempted by job ", 2)
	killed.cmd.Process.Kill()
	killed.end()
	told("goes on after ", 2)
	moves("after a killed mpiexec")

	brief := b.run(t, append(slices.Clone(hers), "true")...)
	if brief.code != 0 {
		t.Errorf("exit %d, %q", brief.code, brief.err)
	}
	told("goes on after ", 3)
	moves("after a brief job")

	// Somebody else, as alice may be refused for a while: on a machine that is slow enough nobody has seen her brief job.
	last := b.start(t, job{args: append(append(both[:len(both):len(both)], b.somebody(t, "carol", 12346, "n1", "n2")...), "sh", "-c", "echo up; exec sleep 600")})
	last.await(t, "up\n", 4)
	told("preempted by job ", 4)
	bob.cmd.Process.Kill()
	bob.end()
	if jobs := b.listing(t, "n1", "n2").Jobs; len(jobs) != 1 || !strings.Contains(jobs[0].Command, "echo up") {
		t.Errorf("with bob's mpiexec killed: %+v", jobs)
	}
	last.cmd.Process.Signal(syscall.SIGTERM)
	last.end()
	b.nothingIsLeft(t, "n1", "n2")
}

// saving is a rank that counts where the attempt before has stopped, alone as long as it lives, and writes a checkpoint when it is asked to.
const saving = `f=$1.$MPIEXEC_RANK; n=$(cat "$f" 2>/dev/null || echo 0); mkdir "$f.lives" || echo two lives
trap 'echo "$n" >"$f"; rmdir "$f.lives"; exit 85' USR1; echo "up $MPIEXEC_ATTEMPT $MPIEXEC_RESTART_REASON from $((n > 0))"; while :; do n=$((n + 1)); sleep 0.05; done`

// nosy is a rank of another job: it says whether one of saving lives on its host, and ends when a file tells it to.
const nosy = `ls -d "$1".*.lives 2>/dev/null; echo here; until [ -e "$2" ]; do sleep 0.05; done`

// A job gives way by being queued again: behind a checkpoint it ends before the other one begins, stands in the queue, and goes on where it was. Never
// do two lives of it, or it and the other, run at once; nobody has to be there for it.
func TestRequeuedJob(t *testing.T) {
	b, file, both, hers := twoUsers(t)
	bob := b.start(t, job{args: append(slices.Clone(both), "--preemptible=requeue", "--ckpt-signal", "USR1", "sh", "-c", saving, "sh", file)})
	bob.await(t, "up 0  from 0\n", 4)

	alice := b.start(t, job{args: append(slices.Clone(hers), "sh", "-c", nosy, "sh", file, file+"-go")})
	alice.await(t, "here\n", 4)
	if out := alice.out.String(); strings.Contains(out, "lives") {
		t.Errorf("it runs beside the other: %q", out)
	}
	waits := func() bool { return strings.Contains(b.run(t, "--queue", "n1", "n2").out, "sh -c") }
	if !poll(gone, waits) {
		t.Errorf("it does not queue: %q", bob.err.String())
	}
	for _, host := range []string{"n1", "n2"} {
		if err := os.WriteFile(b.Root(host)+file+"-go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := alice.wait(t); r.code != 0 || !strings.Contains(r.err, "(requeue) to give way") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	bob.await(t, "up 1 preempt from 1\n", 4)

	killed := b.start(t, job{args: append(slices.Clone(hers), "--wait", "sh", "-c", "echo up; exec sleep 600")})
	killed.await(t, "up\n", 4)
	killed.cmd.Process.Kill()
	killed.end()
	bob.await(t, "up 2 preempt from 1\n", 4)

	// Somebody else, as alice may be refused for a while: on a machine that is slow enough nobody has seen her brief job.
	last := b.start(t, job{args: append(append(both[:len(both):len(both)], b.somebody(t, "carol", 12346, "n1", "n2")...), "sh", "-c", "echo up; exec sleep 600")})
	last.await(t, "up\n", 4)
	if !poll(gone, waits) {
		t.Errorf("it does not queue: %q", bob.err.String())
	}
	bob.cmd.Process.Kill()
	bob.end()
	if out, err := bob.out.String(), bob.err.String(); strings.Contains(out, "two lives") || strings.Count(err, "it is being queued again") != 3 {
		t.Errorf("%q, %q", out, err)
	}
	if jobs := b.listing(t, "n1", "n2").Jobs; len(jobs) != 1 || !strings.Contains(jobs[0].Command, "echo up") {
		t.Errorf("with bob's mpiexec killed: %+v", jobs)
	}
	last.cmd.Process.Signal(syscall.SIGTERM)
	last.end()
	b.nothingIsLeft(t, "n1", "n2")
}
