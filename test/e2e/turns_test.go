//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// counting is a rank that says on which CPUs it may run, and writes a line into a file of its host again and again.
const counting = `grep Cpus_allowed_list: /proc/self/status; while :; do echo >> "$1.$MPIEXEC_RANK"; sleep 0.05; done`

// looking is a rank of another job on the same hosts: it says its CPUs, and whether counting stood still for a
// while. It ends when a file tells it to.
const looking = `grep Cpus_allowed_list: /proc/self/status; size() { cat "$1".* | wc -c; }
a=$(size "$1"); sleep 0.3; [ "$a" = "$(size "$1")" ] && echo still || echo moves; until [ -e "$2" ]; do sleep 0.05; done`

// masks are the CPUs that ranks have told, sorted.
func masks(out string) string {
	var all []string
	for line := range strings.Lines(out) {
		if cpus, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			all = append(all, strings.TrimSpace(cpus))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// counted is how much ranks have counted on a host.
func (b *bed) counted(host, file string) (bytes int64) {
	files, _ := filepath.Glob(b.Root(host) + file + ".*")
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// ask has a word with a job; one of a slow machine may not have answered in 10 s yet, and may have done it all the same.
func (b *bed) ask(t *testing.T, args ...string) (r result) {
	t.Helper()
	for i := range 20 {
		if r = b.run(t, args...); i > 0 && (strings.Contains(r.err, "already suspended") || strings.Contains(r.err, "not suspended")) {
			r.code = 0
		}
		if !strings.Contains(r.err, "no answer from job") {
			break
		}
	}
	return r
}

// Two jobs take turns on the same CPUs of two hosts: what the first gives up the second gets, and nobody
// takes it back from that one, on no host if not on all (survive.md SV-29, SV-30).
func TestTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	b.needNamespaces(t)
	file := diaryFile()
	both := []string{"-hosts", "n1:2,n2:2", "-n", "4", "--kill-grace", "1"}
	first := b.start(t, job{args: append(slices.Clone(both), "sh", "-c", counting, "sh", file)})
	first.await(t, "Cpus_allowed_list:", 4)
	id := b.listing(t, "n1").Jobs[0].Job
	refused := func(what, want string, args ...string) {
		t.Helper()
		if r := b.ask(t, args...); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d, %q, want %q", what, r.code, r.err, want)
		}
	}
	done := func(what, want string, args ...string) {
		t.Helper()
		if r := b.ask(t, args...); r.code != 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d, %q, want %q", what, r.code, r.err, want)
		}
	}
	refused("while the first runs", "all 2 CPUs are in use", append(slices.Clone(both), "true")...)
	done("suspended", "suspended", "--suspend=free", "last", "n1")
	if r := b.run(t, "--ps", "n1", "n2"); !strings.Contains(r.out, "(suspended) ") {
		t.Errorf("it is not told: %q", r.out)
	}
	second := b.start(t, job{args: append(slices.Clone(both), "--wait", "sh", "-c", looking, "sh", file, file+"-go")})
	second.await(t, "still\n", 4)
	if one, two := masks(first.out.String()), masks(second.out.String()); one != two {
		t.Errorf("they had CPUs %s and %s", one, two)
	}
	refused("while the second runs", "its CPUs are not free: n1: CPU ", "--resume-job", id, "n2")
	refused("while the second runs", "mpiexec --resume-job "+id+" --wait waits for them", "--resume-job", id, "n1")
	for _, host := range []string{"n1", "n2"} {
		if err := os.WriteFile(b.Root(host)+file+"-go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second.wait(t).good(t)

	third := b.hold(t, "-host", "n2", "-n", "1")
	third.cpus(t)
	before := b.counted("n1", file) + b.counted("n2", file)
	refused("while n2 alone is taken", "its CPUs are not free: n2: CPU ", "--resume-job", id, "n1")
	if r := b.run(t, "-hosts", "n1:2", "-n", "2", "true"); r.code != 0 {
		t.Errorf("it has claimed n1: exit %d, %q", r.code, r.err)
	}
	wait := func() *running {
		r := b.start(t, job{args: []string{"--resume-job", id, "--wait", "n1", "n2"}})
		if !r.err.wait(t.Context(), func(all string) bool { return strings.Contains(all, "waiting until job "+id+" can go on: ") }) {
			t.Errorf("it does not wait: %q", r.err.String())
		}
		return r
	}
	killed := wait()
	killed.cmd.Process.Kill()
	killed.end()
	waiting := wait()
	if after := b.counted("n1", file) + b.counted("n2", file); after != before {
		t.Errorf("it has gone on: %d, then %d", before, after)
	}
	third.end(t).good(t)
	if r := waiting.wait(t); r.code != 0 || !strings.Contains(r.err, "goes on") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	for _, host := range []string{"n1", "n2"} {
		was := b.counted(host, file)
		if !poll(gone, func() bool { return b.counted(host, file) > was }) {
			t.Errorf("nothing goes on on %s", host)
		}
		refused("when the first goes on", "all 2 CPUs are in use", "-host", host, "-n", "1", "true")
	}
	done("suspended again", "suspended", "--suspend=free", id, "n2")
	kill(t, syscall.SIGKILL, "helper on n1", []int{b.helpers(t, "n1")[0].PID})
	if r := first.wait(t); r.code != 125 || !strings.Contains(r.err, "lost contact with n1") {
		t.Errorf("with a helper killed: exit %d, %q", r.code, r.err)
	}
	b.nothingIsLeft(t, "n1", "n2")

	last := b.start(t, job{args: append(slices.Clone(both), "sh", "-c", counting, "sh", file)})
	last.await(t, "Cpus_allowed_list:", 4)
	done("the last one is suspended", "suspended", "--suspend=free", "last", "n2")
	last.cmd.Process.Kill()
	last.end()
	b.nothingIsLeft(t, "n1", "n2")
}

// nothingIsLeft asserts that soon hosts have neither claims nor helpers.
func (b *bed) nothingIsLeft(t *testing.T, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		b.noClaims(t, host)
		if !poll(gone, func() bool { return len(b.helpers(t, host)) == 0 }) {
			t.Errorf("helpers are left on %s: %s", host, fmt.Sprint(b.helpers(t, host)))
		}
	}
}
