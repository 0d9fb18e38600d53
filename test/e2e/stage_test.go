//go:build linux

package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// writeOnHead writes a file that only the head has, and returns its name there.
func (b *testCluster) writeOnHead(t *testing.T, name string, text []byte, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(b.Home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, mode); err != nil {
		t.Fatal(err)
	}
	return filepath.Join("/root", name)
}

// copyOnHead is put for a program that the hosts know, so that it is a new file to them.
func (b *testCluster) copyOnHead(t *testing.T, name, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return b.writeOnHead(t, name, text, 0o755)
}

// libraries is where the MPICH is that mpi's programs are linked with. A copy of one does not find it by itself, and
// takes the machine's, whose MPI_Finalize hangs at times over several hosts (testdata/mpich341.sh).
func libraries(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(repoRoot, "build/mpich341/usr/lib/*/libmpich.so.12"))
	if len(found) != 1 {
		t.Skipf("MPICH 3.4.1 is not on this machine: %q; run testdata/programs.sh", found)
	}
	return filepath.Dir(found[0])
}

// stagedFiles lists what --stage has on a host.
func (b *testCluster) stagedFiles(host string) (files []string) {
	for _, dir := range []string{"tmp", "var/tmp", "dev/shm", "root/.cache"} {
		found, _ := filepath.Glob(filepath.Join(b.Root(host), dir, "remshell*", "stage", "*"))
		files = append(files, found...)
	}
	return files
}

// awaitUnstaged waits until no host has anything left of --stage.
func (b *testCluster) awaitUnstaged(t *testing.T) {
	t.Helper()
	for _, h := range append(b.hosts(), testbed.Head) {
		var left []string
		if !poll(goneTimeout, func() bool { left = b.stagedFiles(h); return len(left) == 0 }) {
			t.Errorf("%s: left behind: %q", h, left)
		}
	}
}

// Issue 11: an MPI program and a file that only the launching machine has run on three hosts,
// and are gone with the job.
func TestStage(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	hello := b.copyOnHead(t, "app/hello", mpiProgram(t, "hello"))
	b.checkRefused(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, 1), "-n", "3", hello}}, 127, "n[1-3]: program "+hello+": no such file")
	for _, args := range [][]string{
		{"--stage", hello, "-n", "3", hello}, {"--stage", hello, "-n", "3", "hello"}, {"-preload-binary", "-n", "3", hello},
		{"--bcast", "-gpath", "/root/app", "-n", "3", "hello"},
	} {
		b.runMpiexec(t, append([]string{"-hosts", hostsWithSlots(b, 1), "-genv", "LD_LIBRARY_PATH", libraries(t)}, args...)...).checkOutput(t, b, b.helloLines(b.hosts(), 1))
		b.awaitUnstaged(t)
	}
	data := b.writeOnHead(t, "data/in.dat", []byte("forty-two\n"), 0o644)
	for _, args := range [][]string{{"--stage", data, "--stage", hello}, {"--preload-files", hello + "," + data}} {
		r := b.runMpiexec(t, append(args, "-hosts", hostsWithSlots(b, 1)+",localhost:1", "-n", "4", "-l",
			"sh", "-c", `cat "$MPIEXEC_STAGE_DIR/in.dat"; test -x "$MPIEXEC_STAGE_DIR/hello"`)...)
		r.checkSuccess(t)
		if got := strings.Join(sortedLines(r.out), "|"); got != "[0] forty-two|[1] forty-two|[2] forty-two|[3] forty-two" {
			t.Errorf("%q: %s", args, got)
		}
		b.awaitUnstaged(t)
	}
}

// A file goes over the wire once for each node, and not at all where it is already: in the
// same place of a shared home, or with another job of ours.
func TestStagedFilesAreSentOnce(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	noise := make([]byte, 3<<20+17)
	rand.Read(noise)
	one := b.writeOnHead(t, "one", noise, 0o600)
	two := b.writeOnHead(t, "two", noise, 0o600)
	b.runMpiexec(t, "-hosts", hostsWithSlots(b, 1), "-n", "2", "true").checkSuccess(t) // our own program is there from now on
	size := int64(len(noise))
	came := func(args ...string) int64 {
		before := b.received(t, "n1")
		b.runMpiexec(t, append([]string{"-hosts", "n1", "-n", "1"}, args...)...).checkSuccess(t)
		b.awaitStagedFolders(t, "n1", 1)
		return b.received(t, "n1") - before
	}
	check := []string{"sh", "-c", "cmp $MPIEXEC_STAGE_DIR/one $MPIEXEC_STAGE_DIR/two"}
	holder := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1", "--stage", one, "-n", "1", "sh", "-c", "echo ready; read x"}, stdin: openEndless(t)})
	holder.awaitOut(t, "ready", 1)
	if got := came(append([]string{"--stage", one, "--stage", two}, check...)...); got > size/4 {
		t.Errorf("another job has the file, and %d bytes came", got)
	}
	holder.cmd.Process.Signal(syscall.SIGTERM)
	holder.wait(t)
	b.awaitUnstaged(t)
	before := b.received(t, "n1")
	b.runMpiexec(t, append([]string{"-hosts", "n1", "-n", "1", "--stage", one, "--stage", two}, check...)...).checkSuccess(t)
	if got := b.received(t, "n1") - before; got < size || got > size+size/4 {
		t.Errorf("%d bytes came for two files that are the same %d", got, size)
	}
	b.awaitUnstaged(t)
}

// awaitStagedFolders waits until a host has so many folders of --stage.
func (b *testCluster) awaitStagedFolders(t *testing.T, host string, folders int) {
	t.Helper()
	if !poll(goneTimeout, func() bool { return len(b.stagedFiles(host)) == 2*folders }) { // with their locks
		t.Errorf("%s: %q", host, b.stagedFiles(host))
	}
}

// openEndless is an input that never ends.
func openEndless(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

// Where the same file lies under the same path, as in a shared home, it is taken from there.
func TestStagedFileOfASharedHome(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2, SharedHome: true})
	b.requireNamespaces(t)
	noise := make([]byte, 2<<20)
	rand.Read(noise)
	file := b.writeOnHead(t, "noise", noise, 0o600)
	before := b.received(t, "n1")
	r := b.runMpiexec(t, "-hosts", hostsWithSlots(b, 1), "-n", "2", "--stage", file, "sh", "-c", "cmp $MPIEXEC_STAGE_DIR/noise "+file+"; case $MPIEXEC_STAGE_DIR in /root/*) exit 1;; esac")
	r.checkSuccess(t)
	if got := b.received(t, "n1") - before; got > 500_000 {
		t.Errorf("%d bytes came", got)
	}
	b.awaitUnstaged(t)
}

// Whoever is killed, no file stays: mpiexec, or a helper, while ranks run and while the
// files are on their way, on the hosts and on this machine.
func TestStageLeavesNothingWhenKilled(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	file := b.writeOnHead(t, "in.dat", []byte("x"), 0o600)
	for _, hosts := range []string{"n1:1,n2:1", "localhost:2"} {
		for what, kill := range map[string]func(r *runningJob){
			"mpiexec": func(r *runningJob) { r.cmd.Process.Kill() },
			"helpers": func(r *runningJob) {
				for _, pid := range b.ownProcesses(t) {
					if isHelperArgs(strings.Split(cmdline(pid), "\x00")) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				if hosts == "localhost:2" { // its helper is in mpiexec
					r.cmd.Process.Kill()
				}
			},
			"both": func(r *runningJob) {
				for _, pid := range b.ownProcesses(t) {
					if args := strings.Split(cmdline(pid), "\x00"); !isReaperArgs(args) && !secondArgIs("--helper-guard")(args) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			},
		} {
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", hosts, "-n", "2", "--stage", file, "sh", "-c", "echo ready; exec sleep 1000"}})
			r.awaitOut(t, "ready", 2)
			some := 0
			for _, h := range append(b.hosts(), testbed.Head) {
				some += len(b.stagedFiles(h))
			}
			if some == 0 {
				t.Fatalf("%s, %s: nothing was staged", hosts, what)
			}
			kill(r)
			r.end()
			b.awaitUnstaged(t)
		}
	}
}

// cmdline is that of a process, as the kernel has it.
func cmdline(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(text)
}

// A file that is larger than what may be in memory goes to three hosts, while mpiexec and the
// helpers stay small. ^C on the way ends it, and leaves nothing. With E2E_LONG 1 GiB.
func TestStageALargeFile(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	size := int64(192 << 20)
	if os.Getenv("E2E_LONG") != "" {
		size = 1 << 30
	}
	file := b.writeOnHead(t, "large", nil, 0o600)
	noise := make([]byte, 8<<20)
	rand.Read(noise)
	f, err := os.OpenFile(filepath.Join(b.Home, "large"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < size; at += int64(len(noise)) {
		noise[0]++
		if _, err := f.WriteAt(noise, at); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	defer os.Remove(f.Name())
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, 1), "-n", "3", "--stage", file,
		"sh", "-c", "stat -Lc %s $MPIEXEC_STAGE_DIR/large; echo ready; exec sleep 1000"}, timeout: 5 * time.Minute})
	if !poll(4*time.Minute, func() bool { return strings.Count(r.out.String(), "ready") == 3 || r.cmd.ProcessState != nil }) {
		t.Fatal("it does not run")
	}
	t.Logf("%d MiB to 3 hosts: %v", size>>20, time.Since(r.began).Round(time.Millisecond))
	if got := strings.Count(r.out.String(), fmt.Sprintf("%d\n", size)); got != 3 {
		t.Errorf("%s", &r.out)
	}
	for _, pid := range b.ownProcesses(t) {
		size := fieldOf(pid, "status", "VmHWM")
		t.Logf("%q: %d KiB", cmdline(pid), size)
		if size > maxProcessMemory {
			t.Errorf("process %d, %q, had %d KiB", pid, cmdline(pid), size)
		}
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait(t)
	b.awaitUnstaged(t)

	r = b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, 1), "-n", "3", "--stage", file, "true"}})
	if !poll(goneTimeout, func() bool { return len(b.stagedFiles("n1")) > 0 }) {
		t.Fatal("nothing is staged")
	}
	r.cmd.Process.Signal(syscall.SIGINT)
	if got := r.wait(t); got.code != 130 {
		t.Errorf("^C on the way: exit %d, %q", got.code, got.err)
	}
	b.awaitUnstaged(t)
}

// A folder in which no program can run, or that is full, is not taken; what has no folder is
// told before a byte is sent.
func TestStageWhereThereIsNoRoom(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	hello := b.copyOnHead(t, "hello", mpiProgram(t, "hello"))
	data := b.writeOnHead(t, "data", make([]byte, 4<<20), 0o600)
	b.runMpiexec(t, "-hosts", "n1", "-n", "1", "true").checkSuccess(t)
	b.mountNoexec(t, "n1", "/tmp")
	where := []string{"sh", "-c", "echo $MPIEXEC_STAGE_DIR"}
	at := func(want string, args ...string) {
		t.Helper()
		r := b.runMpiexec(t, append(append([]string{"-hosts", "n1", "-n", "1", "-wdir", "/"}, args...), where...)...)
		r.checkSuccess(t)
		if !strings.HasPrefix(r.out, want) {
			t.Errorf("%q: in %s, want %s", args, r.out, want)
		}
	}
	at("/tmp/remshell-0/stage/", "--stage", data)
	at("/var/tmp/remshell-0/stage/", "--stage", hello)
	b.runOn(t, "n1", "touch", "/root/.cache/remshell/stage")
	b.runOn(t, "n1", "umount", "/tmp")
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		b.runOn(t, "n1", "mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "field", dir)
	}
	b.checkRefused(t, mpiexecCall{args: []string{"-hosts", "n1", "-n", "1", "-wdir", "/", "--stage", data, "true"}}, 125,
		"n1: no folder has space for the files of --stage (4 MiB)", "/tmp/remshell-0: no room", "set TMPDIR there")
	b.runOn(t, "n1", "sh", "-c", "mkdir -p /tmp/remshell-0 && chmod 777 /tmp/remshell-0")
	b.checkRefused(t, mpiexecCall{args: []string{"-hosts", "n1", "-n", "1", "-wdir", "/", "--stage", data, "true"}}, 125, "/tmp/remshell-0: other users may write to the directory")
}

// A file that changes on its way is told, and nothing runs.
func TestStagedFileThatChanges(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	file := b.writeOnHead(t, "log", make([]byte, 64<<20), 0o600)
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1", "-n", "1", "--stage", file, "echo", "it runs"}})
	if !poll(goneTimeout, func() bool { return len(b.stagedFiles("n1")) > 0 }) {
		t.Fatal("nothing is staged")
	}
	if err := os.Truncate(filepath.Join(b.Home, "log"), 1000); err != nil {
		t.Fatal(err)
	}
	if got := r.wait(t); got.code != 125 || strings.Contains(got.out, "it runs") || !strings.Contains(got.err, "/root/log: the file became shorter while mpiexec sent it") {
		t.Errorf("exit %d, %q, %q", got.code, got.out, got.err)
	}
	b.awaitUnstaged(t)
}

// Spawned ranks run what was staged for the job, also on a host that had no part in it.
func TestSpawnOfAStagedProgram(t *testing.T) {
	t.Parallel()
	program := bundledProgram(t, "pmitalk")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	talk := b.copyOnHead(t, "app/talk", program)
	r := b.startMpiexec(t, mpiexecCall{env: []string{"TALK_child=env MPIEXEC_HOST; env MPIEXEC_STAGE_DIR"}, args: []string{"-hosts", "n1:1,n2:1", "-n", "1",
		"-wdir", "/", "--stage", talk, talk, "spawn 1 child program=talk"}}).wait(t)
	if r.code != 0 || !strings.Contains(r.out, "env MPIEXEC_HOST: n2\n") || !strings.Contains(r.out, "env MPIEXEC_STAGE_DIR: /tmp/remshell-0/stage/") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	b.awaitUnstaged(t)
}

// An ordinary user stages, too, and his folder is his alone.
func TestStageOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	file := filepath.Join(t.TempDir(), "in.dat")
	if err := os.WriteFile(file, []byte("his\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1", "--stage", "/etc/hostname", "sh", "-c",
		`stat -c %a:%u "${MPIEXEC_STAGE_DIR%/*/*}"; test -r "$MPIEXEC_STAGE_DIR/hostname"`}, env: []string{"HOME=/", "USER=somebody"}, uid: 12345}).wait(t)
	if r.checkSuccess(t); r.out != "700:12345\n" {
		t.Errorf("%q", r.out)
	}
}
