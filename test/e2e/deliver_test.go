//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// received returns the number of bytes that a host has received over its link.
func (b *testCluster) received(t *testing.T, host string) int64 {
	t.Helper()
	h, err := b.Host(host)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", h.Init))
	if err != nil {
		t.Fatal(err)
	}
	_, numbers, _ := strings.Cut(string(text), "eth0:")
	var bytes int64
	if _, err := fmt.Sscan(numbers, &bytes); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return bytes
}

// helperPathProgram is a program whose rank prints the path of the helper that started it.
var helperPathProgram = []string{"sh", "-c", "readlink /proc/$PPID/exe"}

// helperOn starts a rank on a host and returns the path of the file that its helper runs.
func (b *testCluster) helperOn(t *testing.T, host string) string {
	t.Helper()
	// Not where the test is: a clone below /tmp may be covered by what a test mounts there.
	r := b.runMpiexec(t, append([]string{"-host", host, "-wdir", "/", "-n", "1"}, helperPathProgram...)...)
	r.checkSuccess(t)
	return strings.TrimSuffix(r.out, "\n")
}

// Issue 2, done when 2: a host without any file of ours works; the second start sends
// hardly anything.
func TestSecondStartSendsNothing(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		before := b.received(t, "n1")
		b.runMpiexec(t, "-hosts", hostsWithSlots(b, 1), "-n", "2", "true").checkSuccess(t)
		got := b.received(t, "n1") - before
		t.Logf("first %v: n1 received %d bytes; the program has %d", first, got, info.Size())
		if first && got < info.Size() {
			t.Errorf("the first start sent %d bytes; the program has %d: where did the host get it?", got, info.Size())
		}
		if !first && got > 100_000 {
			t.Errorf("the second start sent %d bytes", got)
		}
	}
	if at := b.helperOn(t, "n2"); !strings.HasPrefix(at, "/root/.cache/remshell/") {
		t.Errorf("the helper runs from %s", at)
	}
	repo, err := testbed.Repo() // is on the hosts too, and may be below /tmp
	if err != nil {
		t.Fatal(err)
	}
	files := b.runOn(t, "n1", "find", "/root/.cache", "/tmp", "/dev/shm", "-path", repo, "-prune", "-o", "-printf", "%y%m %f\n")
	for line := range strings.Lines(files) {
		if strings.HasPrefix(line, "f") && line != "f700 mpiexec\n" && line != "f700 mpiexec" {
			t.Errorf("on n1 there is now: %s", line)
		}
	}
}

// Issue 2, done when 2: with a shared home nothing is sent and nothing is written.
func TestSharedHome(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2, SharedHome: true})
	b.requireNamespaces(t)
	before := b.received(t, "n1")
	if at := b.helperOn(t, "n1"); at != binary {
		t.Errorf("the helper runs from %s, not from the launcher's own path %s", at, binary)
	}
	if got := b.received(t, "n1") - before; got > 100_000 {
		t.Errorf("%d bytes were sent", got)
	}
	if _, err := os.Stat(filepath.Join(b.Home, ".cache", "remshell")); err == nil {
		t.Error("the program was written to the shared home")
	}
}

// mountNoexec mounts file systems with the option noexec over folders of a host.
func (b *testCluster) mountNoexec(t *testing.T, host string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		b.runOn(t, host, "mkdir", "-p", dir)
		b.runOn(t, host, "mount", "-t", "tmpfs", "-o", "noexec,mode=1777", "field", dir)
	}
}

// Issue 2, done when 3: noexec caches. The next folder is taken; without any, a line
// says so, and what else there is.
func TestNoexecCache(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.mountNoexec(t, "n1", "/root/.cache", "/tmp")
	if at := b.helperOn(t, "n1"); !strings.HasPrefix(at, "/dev/shm/remshell-0/") {
		t.Errorf("home and /tmp are noexec; the helper runs from %s", at)
	}
	b.mountNoexec(t, "n1", "/dev/shm")
	r := b.checkRefused(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, 1), "-n", "2", "true"}}, 125,
		"n1: ", "noexec", "/root/.cache/remshell", "/dev/shm/remshell-0", "\n  hint: set XDG_CACHE_HOME")
	if r.took > goneTimeout {
		t.Errorf("it took %v to find that out", r.took)
	}
	// What the line advises does help.
	b.runOn(t, "n1", "mkdir", "-p", "/run/cache")
	b.runOn(t, "n1", "sh", "-c", "echo export XDG_CACHE_HOME=/run/cache >/root/.bashrc")
	if at := b.helperOn(t, "n1"); !strings.HasPrefix(at, "/run/cache/remshell/") {
		t.Errorf("with XDG_CACHE_HOME=/run/cache the helper runs from %s", at)
	}
}

func TestFullDisks(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	for _, dir := range []string{"/root/.cache", "/tmp"} {
		b.runOn(t, "n1", "mkdir", "-p", dir)
		b.runOn(t, "n1", "mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "field", dir)
	}
	if at := b.helperOn(t, "n1"); !strings.HasPrefix(at, "/dev/shm/remshell-0/") {
		t.Errorf("home and /tmp are full; the helper runs from %s", at)
	}
	b.runOn(t, "n1", "sh", "-c", "rm -r /dev/shm/remshell-0; mount -t tmpfs -o size=1m field /dev/shm")
	b.checkRefused(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, 1), "-n", "2", "true"}}, 125,
		"n1: ", "no room", "/root/.cache/remshell", "\n  hint: free disk space there")
}

// What somebody else has put where we look is never run, nor is a link followed.
func TestProgramOfSomebodyElse(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	build := path.Base(path.Dir(b.helperOn(t, "n1")))
	trap := "/tmp/remshell-0/" + build
	b.runOn(t, "n1", "sh", "-c", `rm -r /root/.cache
		mkdir -p `+trap+` && printf '#!/bin/sh\ntouch /tmp/trapped\n' >`+trap+`/mpiexec && chmod -R 755 /tmp/remshell-0`)
	b.runOn(t, "n1", "chown", "-R", "1000", "/tmp/remshell-0")
	b.runOn(t, "n1", "ln", "-s", "/tmp/remshell-0", "/dev/shm/remshell-0")
	b.runOn(t, "n1", "sh", "-c", "mkdir /root/.cache && ln -s /tmp/remshell-0 /root/.cache/remshell")
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "true"}}, 125, "n1: ", "belongs to another user")
	b.runOn(t, "n1", "rm", "/dev/shm/remshell-0")
	if at := b.helperOn(t, "n1"); at != "/dev/shm/remshell-0/"+build+"/mpiexec" {
		t.Errorf("the helper runs from %s", at)
	}
	if _, err := os.Stat(b.Root("n1") + "/tmp/trapped"); err == nil {
		t.Error("the program of user 1000 was run")
	}
}

// Login shells that do not speak sh, and all of them noisy: 10 kB on both streams.
func TestLoginShells(t *testing.T) {
	t.Parallel()
	noise := `seq 1 2000; seq 1 2000 1>&2`
	for shell, startup := range map[string]string{
		"/bin/bash":     "/root/.bashrc",
		"/usr/bin/fish": "/root/.config/fish/config.fish",
		"/usr/bin/tcsh": "/root/.tcshrc",
		"/bin/csh":      "/root/.cshrc",
	} {
		t.Run(path.Base(shell), func(t *testing.T) {
			if _, err := os.Stat(shell); err != nil {
				t.Skipf("%v; run as root: testdata/install.sh", err)
			}
			b := newTestCluster(t, testbed.Options{Hosts: 1, Shell: shell})
			b.requireNamespaces(t)
			text := noise
			if strings.HasSuffix(shell, "csh") {
				text = `seq 1 2000; sh -c "seq 1 2000 1>&2"` // csh cannot redirect stderr
			}
			name := b.Root("n1") + startup
			if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			// Ours must not be the only one that prints no noise.
			out, err := b.Command(t.Context(), nil, "ssh", "n1", "true").Output()
			if err != nil || len(out) < 8000 {
				t.Fatalf("%s is not as noisy as wanted: %v, %d bytes", shell, err, len(out))
			}
			for range 2 { // sent, cache
				r := b.runMpiexec(t, "-host", "n1:2", "-n", "2", "sh", "-c", `echo "$PMI_RANK it's $HOME"`)
				r.checkOutput(t, b, []string{"0 it's /root", "1 it's /root"})
			}
		})
	}
}

// Startup files that are in the way: the usual early return does no harm, nor that it takes longer than a login may; one that
// ends the shell or never ends is named, with what it printed. doctor says the same.
func TestStartupFileInTheWay(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2, Shell: "/bin/bash"})
	b.requireNamespaces(t)
	args := []string{"-hosts", hostsWithSlots(b, 1), "-n", "2", "true"}
	b.addStartupFile(t, "n1", "case $- in *i*) ;; *) return ;; esac\n")
	b.runMpiexec(t, args...).checkSuccess(t)
	b.addStartupFile(t, "n1", "sleep 12\n")
	for _, way := range transports() {
		b.runMpiexec(t, slices.Concat(way, []string{"--connect-timeout", "10"}, args)...).checkSuccess(t)
	}
	b.addStartupFile(t, "n1", "echo closed for maintenance\nexit 0\n")
	b.checkRefused(t, mpiexecCall{args: args}, 125, "n1: ", "closed for maintenance")
	const advice = "see what ~/.bashrc (of bash) does there: ssh n1 true; or raise --shell-timeout"
	for _, test := range []struct{ text, printed string }{
		{"echo one moment please\nsleep infinity\n", `"one moment please"`},
		{"exec fish\n", ""}, // what fish says of its home differs
	} {
		b.addStartupFile(t, "n1", test.text)
		late := func(args ...string) *runningJob {
			return b.startMpiexec(t, mpiexecCall{args: append([]string{"--shell-timeout", "20"}, args...), env: []string{"SHELL=/bin/bash"}})
		}
		start, doctor := late(args...), late("--doctor", "n1", "n2")
		says := "n1: shell: the login shell did not run /bin/sh within 20 s; it printed " + test.printed
		if r := start.wait(t); r.code != 125 || !strings.HasPrefix(r.err, "mpiexec: "+says) || !strings.Contains(r.err, "\n  hint: "+advice) || r.took > 20*time.Second+goneTimeout {
			t.Errorf("exit %d after %v: %q, want %q", r.code, r.took, r.err, says)
		}
		if r := doctor.wait(t); r.code != 125 || !strings.Contains(r.out, "failure  "+says) || !strings.Contains(r.out, "\n         "+advice+"\n") {
			t.Errorf("doctor: exit %d, %q, want %q", r.code, r.out, says)
		}
		// Nobody but the user can end what the user's own shell waits for.
		for _, p := range b.processes(t, "n1") {
			if slices.Equal(p.Args, []string{"sleep", "infinity"}) {
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
	}
	if len(transports()) > 1 { // ssh itself does not tell that it has logged in
		r := b.startMpiexec(t, mpiexecCall{args: append([]string{"-launcher-exec", "ssh", "--connect-timeout", "20", "--shell-timeout", "5"}, args...)}).wait(t)
		if want := "mpiexec: n1: shell: ssh or the login shell did not run /bin/sh within 25 s; it printed "; r.code != 125 || !strings.HasPrefix(r.err, want) {
			t.Errorf("exit %d: %q, want %q", r.code, r.err, want)
		}
	}
}

// A start-up file that leaves the system's folders out of the PATH. ssh starts a program by its path there.
func TestStartupFileThatSetsPath(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1, Shell: "/bin/bash"})
	b.requireNamespaces(t)
	b.addStartupFile(t, "n1", "export PATH=/opt/tool/bin\n")
	b.runMpiexec(t, "-hosts", "n1:1", "-hybrid-hosts", "-n", "1", "sh", "-c", "echo $PATH").checkOutput(t, b, []string{"/opt/tool/bin:/usr/bin:/bin"})
}

// limitConnection makes connections to n1 pass so many pieces of at most 64 KiB, as they come,
// and no more; a login needs about ten. bash has a TCP client.
func limitConnection(pieces int) string {
	return fmt.Sprintf("Host n1\n\tProxyCommand bash -c 'exec 3<>/dev/tcp/10.88.0.1/22; cat <&3 & "+
		"dd bs=64K count=%d >&3 2>/dev/null; cat >/dev/null; kill $!'\n", pieces)
}

// Half a program is never run, and nothing of it stays: neither when the line gets
// stuck, nor when mpiexec is killed meanwhile. The next start works.
func TestHalfDelivered(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2, SSHConfig: limitConnection(60)})
	b.requireNamespaces(t)
	args := []string{"-hosts", hostsWithSlots(b, 1), "--shell-timeout", "20", "-n", "2", "true"}
	b.checkRefused(t, mpiexecCall{args: args}, 125, "n1: ", "the copy of mpiexec arrives at less than 10 KB/s")
	b.awaitClean(t, goneTimeout)
	for _, kill := range []string{"-KILL", "-TERM"} {
		j := b.startMpiexec(t, mpiexecCall{args: args})
		if !poll(goneTimeout, func() bool { return b.hasUnfinishedFile(100_000) }) {
			t.Fatalf("nothing arrives: %s", &j.err)
		}
		b.runOn(t, testbed.Head, "kill", kill, fmt.Sprint(j.cmd.Process.Pid))
		if r, want := j.wait(t), map[string]int{"-KILL": 137, "-TERM": 143}[kill]; r.code != want || r.took > goneTimeout {
			t.Errorf("kill %s: exit %d after %v, want %d at once: %s", kill, r.code, r.took, want, r.err)
		}
		if !poll(goneTimeout, func() bool { return len(b.leftFiles()) == 0 }) {
			t.Errorf("kill %s left %q", kill, b.leftFiles())
		}
		b.awaitClean(t, goneTimeout)
	}
	if err := os.WriteFile(filepath.Join(b.Home, ".ssh", "config"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.runMpiexec(t, args...).checkSuccess(t)
}

// hasUnfinishedFile reports whether a host has an unfinished file of at least size bytes.
func (b *testCluster) hasUnfinishedFile(size int64) bool {
	for _, name := range b.leftFiles() {
		if info, err := os.Stat(name); err == nil && info.Size() >= size {
			return true
		}
	}
	return false
}

// A copy that was damaged after its delivery, say by a power failure: the line says how
// to get rid of it, and that helps.
func TestDamagedCopy(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	at := b.helperOn(t, "n1")
	b.awaitClean(t, goneTimeout) // what runs cannot be written to
	b.runOn(t, "n1", "truncate", "-s", "100000", at)
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "true"}}, 125, "n1: ", "damaged", "--ship-helper")
	if r := b.runMpiexec(t, "--ship-helper", "-host", "n1", "-n", "1", "true"); r.code != 0 {
		t.Fatalf("with --ship-helper: %v", r)
	}
	b.helperOn(t, "n1")
}

// Several starts at once deliver to the same empty host without harm.
func TestSimultaneousDeliveries(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	var jobs []*runningJob
	for range 4 {
		jobs = append(jobs, b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "echo", "hi"}}))
	}
	for _, j := range jobs {
		j.wait(t).checkOutput(t, b, []string{"hi"})
	}
}

// On the machine that launches, whatever the limit: a job whose ranks have that limit, or two lines that say what is missing. Below 64 MB the kernel may not even
// execute the program.
func TestTooLittleAddressSpaceHere(t *testing.T) {
	t.Parallel()
	ledger := t.TempDir()
	for mb := 64; mb <= 2112; mb += 32 {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" -n 2 sh -c "ulimit -v"`, mb<<10), binary)
		cmd.Env = append(os.Environ(), "MPIEXEC_LEDGER="+ledger)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run()
		code, lines := cmd.ProcessState.ExitCode(), strings.Count(errs.String(), "\n")
		refused := code == 125 && lines == 2 && strings.HasPrefix(errs.String(), "mpiexec: start: the address space is limited (ulimit -v), but mpiexec needs 900 MB; type: ulimit -v unlimited\n")
		ran := code == 0 && out.String() == strings.Repeat(fmt.Sprintln(mb<<10), 2)
		if refused != (mb < 900) || ran != (mb >= 900) {
			t.Errorf("%d MB: exit %d: %s%.300s", mb, code, out.String(), errs.String())
		}
	}
}

// A host that limits address space too much for the helper says so; with as much as that asks for all
// goes well (RM-57).
func TestAddressSpace(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	if b.Kind == testbed.InProcess {
		t.Skip("needs ssh")
	}
	limited := func(kib string) result {
		return b.runMpiexec(t, "-hosts", "n1,n2", "-ppn", "1", "-n", "2", "-launcher-exec", "ssh %h ulimit -v "+kib+"; exec %c", "sh", "-c", "ulimit -v")
	}
	if r := limited("409600"); r.code != 125 || r.out != "" || !strings.Contains(r.err, "mpiexec: n[1-2]: start: the address space of processes on the node is limited to 400 MB, but the helper needs 900 MB\n  hint: raise ulimit -v on the node") {
		t.Errorf("400 MB: exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, enough := range []string{"921600", "1228800"} {
		if r := limited(enough); r.code != 0 || r.err != "" || countEqualLines(r.out) != enough+":2" {
			t.Errorf("%s kB: exit %d: %s%s", enough, r.code, r.out, r.err)
		}
	}
}
