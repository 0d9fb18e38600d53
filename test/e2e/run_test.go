//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// hostsWithSlots names all hosts of a test cluster with k slots each, so that no test depends on how
// many CPUs the machine has: "n1:2,n2:2".
func hostsWithSlots(b *testCluster, k int) string {
	return strings.ReplaceAll(b.Names(), ",", fmt.Sprintf(":%d,", k)) + fmt.Sprintf(":%d", k)
}

// nameOf is how a rank on a host names its machine.
func (b *testCluster) nameOf(host string) string {
	if b.Kind == testbed.Namespaces {
		return host
	}
	name, _ := os.Hostname()
	return name
}

// helloLines are the lines of hello or misc with k ranks on each of the hosts, sorted.
// Hosts that are one machine count as one node (HOST-8).
func (b *testCluster) helloLines(hosts []string, k int) []string {
	n, local := len(hosts)*k, k
	if b.Kind != testbed.Namespaces {
		local = n
	}
	lines := []string{"ring ok", "allreduce ok"}
	for rank := range n {
		lines = append(lines, fmt.Sprintf("rank %d of %d on %s, local %d of %d",
			rank, n, b.nameOf(hosts[rank/k]), rank%local, local))
	}
	slices.Sort(lines)
	return lines
}

func (b *testCluster) hosts() []string { return strings.Split(b.Names(), ",") }

// sortedLines are the lines of text, which must end with a line end.
func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// checkOutput asserts exit 0, these sorted lines on stdout and nothing on stderr. Where hosts
// are one machine, the notice that says so is no fault.
func (r result) checkOutput(t *testing.T, b *testCluster, want []string) {
	t.Helper()
	if got := sortedLines(r.out); r.code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit %d, stderr %q, stdout:\n%s\nwant 0 and\n%s", r.code, r.err,
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if quiet := b.Kind == testbed.Namespaces; quiet && r.err != "" {
		t.Errorf("stderr: %s", r.err)
	}
}

// Issue 2, done when 1: right, many times in a row.
func TestHelloOnFourHosts(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	times := 5
	if os.Getenv("E2E_LONG") != "" {
		times = 50
	}
	for i := range times {
		r := b.runMpiexec(t, "-hosts", hostsWithSlots(b, 2), "-n", "8", hello)
		r.checkOutput(t, b, b.helloLines(b.hosts(), 2))
		if t.Failed() {
			t.Fatalf("in run %d of %d", i+1, times)
		}
	}
}

// A line of a rank begins with its number, whatever of it came in one piece.
func TestLabels(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.runMpiexec(t, "-l", "-hosts", hostsWithSlots(b, 2), "-n", "4", "sh", "-c", `printf "a $PMI_RANK\nb $PMI_RANK"`)
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("[%d] a %d", rank, rank), fmt.Sprintf("[%d] b %d", rank, rank))
	}
	r.checkOutput(t, b, want)
}

// Issue 5, done when 1: 128 ranks on 4 hosts; half of them if it is to take two minutes only.
func TestHelloWithManyRanks(t *testing.T) {
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	each := 16
	if os.Getenv("E2E_LONG") != "" {
		each = 32
	}
	n := fmt.Sprint(4 * each)
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", hostsWithSlots(b, each), "-n", n, hello}, timeout: 5 * time.Minute}).wait(t)
	r.checkOutput(t, b, b.helloLines(b.hosts(), each))
}

// Issue 2, done when 1: no listening socket of ours anywhere during a run in which nobody is offered
// PMIx, here while three ranks wait in MPI_Init for one that reads standard input.
func TestNobodyListens(t *testing.T) {
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	in, release := io.Pipe()
	hosts := "localhost:1," + hostsWithSlots(b, 2)
	if b.Kind != testbed.Namespaces {
		hosts = "n1:5" // where this machine is among them, there is no other
	}
	j := b.startMpiexec(t, mpiexecCall{stdin: in, args: []string{"-hosts", hosts, "-n", "5", "--pmi", "pmi1",
		"sh", "-c", `echo ready; if [ "$PMI_RANK" = 0 ]; then cat; fi; exec "$0"`, hello}})
	defer release.Close()
	j.awaitOut(t, "ready\n", 5)
	ours := b.launchers() // mpiexec, and its helper for this machine
	if len(ours) < 2 {
		t.Fatalf("processes %v are ours, want mpiexec and a helper", ours)
	}
	for _, h := range b.Hosts {
		helpers := b.helperProcesses(t, h.Name)
		if len(helpers) == 0 && (b.Kind == testbed.Namespaces || h.Name == "n1") {
			t.Errorf("no helper on %s, only %v", h.Name, b.processes(t, h.Name))
		}
		for _, p := range helpers {
			ours = append(ours, p.PID)
		}
	}
	for _, pid := range ours {
		if open := listeningSockets(t, pid); len(open) > 0 {
			t.Errorf("process %d listens: %q", pid, open)
		}
	}
	release.Close()
	if r := j.wait(t); r.code != 0 || !strings.Contains(r.out, "ring ok\n") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}

// listeningSockets lists the lines of a process's network tables that are TCP sockets in state
// LISTEN (0A), or UDP sockets, and that the process has open.
func listeningSockets(t *testing.T, pid int) (open []string) {
	t.Helper()
	inodes := make(map[string]bool)
	dir := fmt.Sprintf("/proc/%d/", pid)
	entries, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	for _, fd := range entries { // none of a reaper, which has closed its own
		target, _ := os.Readlink(dir + "fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(dir + "net/" + table)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Fields(line) // proc_pid_net(5): sl local remote st ... inode
			if len(cells) > 9 && inodes[cells[9]] && (cells[3] == "0A" || table[0] == 'u') {
				open = append(open, table+" "+line)
			}
		}
	}
	return open
}

// The test of the test: a process that listens is found.
func TestListeningIsSeen(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	text, err := os.ReadFile(b.Root("n1") + "/run/field/sshd.pid")
	if err != nil {
		t.Fatal(err)
	}
	// As seen from the host; the listener is the only child of process 1.
	found := poll(goneTimeout, func() bool {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.Hosts[0].Init))
		for _, name := range children {
			pids, _ := os.ReadFile(name)
			for field := range strings.FieldsSeq(string(pids)) {
				var pid int
				fmt.Sscan(field, &pid)
				if len(listeningSockets(t, pid)) > 0 {
					return true
				}
			}
		}
		return false
	})
	if !found {
		t.Errorf("nobody sees that sshd (process %s of n1) listens", bytes.TrimSpace(text))
	}
}

// Issue 2, done when 1: a firewall that drops everything but sshd's port.
func TestFirewallThatKnowsOnlySSH(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	for _, h := range b.hosts() {
		if err := b.Block(h, 22); err != nil {
			t.Fatal(err)
		}
	}
	r := b.runMpiexec(t, "-hosts", hostsWithSlots(b, 2), "-n", "4", pmihello(t))
	r.checkOutput(t, b, []string{
		"rank 0 of 4 on n1: got 4 cards", "rank 1 of 4 on n1: got 4 cards",
		"rank 2 of 4 on n2: got 4 cards", "rank 3 of 4 on n2: got 4 cards",
	})
	// MPI's own messages between hosts would not pass; within one they do.
	hello := mpiProgram(t, "hello")
	b.runMpiexec(t, "-hosts", "n1:3", "-n", "3", hello).checkOutput(t, b, b.helloLines([]string{"n1"}, 3))
}

// pmihello is the bundled PMI program.
func pmihello(t *testing.T) string {
	t.Helper()
	return bundledProgram(t, "pmihello")
}

// bundledProgram compiles a program of testdata/programs to where hosts see it.
func bundledProgram(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(repoRoot, "build")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(dir, "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := build(path, "./testdata/programs/"+name); err != nil {
		t.Fatal(err)
	}
	return path
}

// Without hosts, and on one host, with the machine's own MPICH (4.0.2 in Debian 12).
func TestOneHostWithTheMachinesMPICH(t *testing.T) {
	hello := mpiProgram(t, "hello.mpich4")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.runMpiexec(t, "-hosts", "n1:4", "-n", "4", hello).checkOutput(t, b, b.helloLines([]string{"n1"}, 4))
	b.runMpiexec(t, "-hosts", "localhost:3", "-n", "3", hello).checkOutput(t, b, b.helloLines([]string{testbed.Head}, 3))
	b.runMpiexec(t, "-n", "1", hello).checkOutput(t, b, b.helloLines([]string{testbed.Head}, 1))
}

// A command line of several app contexts is one job: one MPI_COMM_WORLD, ranks numbered through, options of
// the app context only.
func TestSections(t *testing.T) {
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	where := func(line string) []string {
		r := b.runMpiexec(t, strings.Fields(line)...)
		if r.code != 0 {
			t.Errorf("%s: exit %d: %s", line, r.code, r.err)
		}
		return sortedLines(r.out)
	}
	show := `sh -c echo:$PMI_RANK/$PMI_SIZE:$A:$B:$(hostname)`
	n1, n2, n3 := b.nameOf("n1"), b.nameOf("n2"), b.nameOf("n3")
	tests := []struct {
		name, line string
		want       []string
	}{
		{"own hosts", "-genv B all -host n1:1 -n 1 -env A x " + show + " : -host n2:2 -n 2 " + show,
			[]string{"echo:0/3:x:all:" + n1, "echo:1/3::all:" + n2, "echo:2/3::all:" + n2}},
		{"ppn", "-ppn 1 -hosts n1:2,n2:2,n3:2 -n 3 " + show,
			[]string{"echo:0/3:::" + n1, "echo:1/3:::" + n2, "echo:2/3:::" + n3}},
		{"section without ranks", "-hosts n1:2 -n 0 false : -n 2 " + show,
			[]string{"echo:0/2:::" + n1, "echo:1/2:::" + n1}},
	}
	for _, tt := range tests {
		if tt.name == "ppn" && b.Kind != testbed.Namespaces {
			continue // there is only one machine to have a rank
		}
		line := strings.ReplaceAll(tt.line, "echo:", "echo${IFS}echo:")
		if got := where(line); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	r := b.runMpiexec(t, "-hosts", hostsWithSlots(b, 1), "-n", "1", hello, ":", "-n", "2", hello)
	r.checkOutput(t, b, b.helloLines(b.hosts(), 1))
}

// What the ranks get is byte for byte what was given: arguments, variables, folder.
func TestArgumentsAndEnvironment(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	words := []string{"two words", "", `'"\$HOME`, "*", "line\nend", "\xff\xfe", "-n", ":", "-l", "%h", "`id`", "ü"}
	args := []string{"-separator", "///", "-host", "n1", "-n", "1", "printf", `<%s>`}
	if r := b.runMpiexec(t, append(args, words...)...); r.code != 0 || r.out != "<"+strings.Join(words, "><")+">" {
		t.Errorf("arguments: exit %d, %q%s", r.code, r.out, r.err)
	}
	huge := strings.Repeat("x", 100_000)
	r := b.startMpiexec(t, mpiexecCall{
		env: []string{"TAKEN=from here", "HIDDEN=1", "HOSTNAME=the-head", "HUGE=" + huge},
		args: []string{"-host", "n1", "-n", "1", "-genv", "G", "g 1", "-env", "E=e", "-x", "X='\"$\n", "-x", "TAKEN", "--unset-env", "HIDDEN",
			"-wdir", "/usr/bin", "sh", "-c", `printf '%s|' "$G" "$E" "$X" "$TAKEN" "$HIDDEN" "$PWD" "$(pwd)" "$HOSTNAME" ${#HUGE}`},
	}).wait(t)
	if want := "g 1|e|'\"$\n|from here||/usr/bin|/usr/bin||100000|"; r.code != 0 || r.out != want {
		t.Errorf("environment: exit %d, %q, want %q\n%s", r.code, r.out, want, r.err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if r := b.runMpiexec(t, "-host", "n1", "-n", "1", "pwd"); r.out != wd+"\n" {
		t.Errorf("without -wdir: in %q, want %q", r.out, wd)
	}
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "-wdir", "/no/such", "true"}}, 127, "n1", "/no/such")
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "no-such-program"}}, 127, "n1", "no-such-program", "not found")
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "/etc/passwd"}}, 126, "n1", "/etc/passwd")
}

// checkRefused asserts an exit code, silence on stdout, and one line on stderr, perhaps with a hint below, that has words.
func (b *testCluster) checkRefused(t *testing.T, j mpiexecCall, code int, words ...string) result {
	t.Helper()
	r := b.startMpiexec(t, j).wait(t)
	complain := func(format string, a ...any) {
		t.Helper()
		t.Errorf("%q: %s\nexit %d after %v, stdout %q, stderr:\n%s", j.args, fmt.Sprintf(format, a...), r.code, r.took, r.out, r.err)
	}
	if r.code != code || r.out != "" {
		complain("want exit %d and no output", code)
	}
	line := strings.Replace(r.err, "\n  hint: ", "; ", 1)
	if !strings.HasPrefix(line, "mpiexec: ") || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		complain("want one line, and a hint at most")
	}
	for _, word := range words {
		if !strings.Contains(line, word) && !strings.Contains(r.err, word) {
			complain("no %q in it", word)
		}
	}
	return r
}

func TestTimeout(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.runMpiexec(t, "-timeout", "1", "-hosts", hostsWithSlots(b, 1), "-n", "2", "sh", "-c", "sleep 1000 & wait")
	if r.code != 124 || !strings.Contains(r.err, "mpiexec: ") || r.took < time.Second || r.took > goneTimeout {
		t.Errorf("exit %d after %v: %s", r.code, r.took, r.err)
	}
}

// IO-1, IO-2: rank 0 reads it all, at its own pace; the others see the end at once.
func TestStandardInput(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	text := bytes.Repeat([]byte("a line of standard input\n"), 120_000) // 3 MB
	for _, hosts := range []string{hostsWithSlots(b, 1), "localhost:2"} {
		r := b.startMpiexec(t, mpiexecCall{stdin: bytes.NewReader(text), args: []string{"-hosts", hosts, "-n", "2", "cat"}}).wait(t)
		if r.code != 0 || r.out != string(text) {
			t.Errorf("%s: exit %d, %d bytes of %d: %s", hosts, r.code, len(r.out), len(text), r.err)
		}
		r = b.startMpiexec(t, mpiexecCall{stdin: bytes.NewReader(text), args: []string{"-hosts", hosts, "-n", "1", "head", "-n", "1"}}).wait(t)
		if r.code != 0 || r.out != "a line of standard input\n" {
			t.Errorf("%s: a rank that stops reading: exit %d, %q: %s", hosts, r.code, r.out, r.err)
		}
	}
}

// HOST-8: two names of one host are one node.
func TestTwoNamesOfOneHost(t *testing.T) {
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	if err := b.AddAlias("n1", "other"); err != nil {
		t.Fatal(err)
	}
	r := b.runMpiexec(t, "-hosts", "n1:1,other:1", "-n", "2", hello)
	if want := b.helloLines([]string{"n1"}, 2); r.code != 0 || !slices.Equal(sortedLines(r.out), want) {
		t.Errorf("exit %d:\n%s%s\nwant %q", r.code, r.out, r.err, want)
	}
	if !strings.HasPrefix(r.err, "mpiexec: n1 and other are the same machine") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("want one line that says so, got %q", r.err)
	}
}

// The host files of several launchers (cli.md 4.1), each of which means three ranks.
func TestHostFiles(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	files := []struct{ name, text, hosts string }{
		{"Hydra", "n1:2   # first\n\nn3:1\n", "n1 n1 n3"},
		{"Open MPI", "root@n1 slots=1 max_slots=4\nn2 slots=2\n", "n1 n2 n2"},
		{"PBS", "n3\nn2\nn3\nn2\n", "n2 n3 n3"},
		{"brackets", "n[1-3]:1\n", "n1 n2 n3"},
		{"Grid Engine", "n1 1 all.q@n1 UNDEFINED\nn2 2 all.q@n2 UNDEFINED\n", "n1 n2 n2"},
		{"CRLF", "\xef\xbb\xbfn2:3\r\n", "n2 n2 n2"},
	}
	for _, f := range files {
		name := filepath.Join(t.TempDir(), "hosts")
		if b.Kind != testbed.Namespaces {
			f.text = strings.ReplaceAll(f.text, "root@", "")
		}
		if err := os.WriteFile(name, []byte(f.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var want []string
		for host := range strings.FieldsSeq(f.hosts) {
			want = append(want, b.nameOf(host))
		}
		r := b.runMpiexec(t, "-f", name, "-n", "3", "hostname")
		if r.code != 0 || !slices.Equal(sortedLines(r.out), want) {
			t.Errorf("%s: exit %d, %q, want %q\n%s", f.name, r.code, r.out, want, r.err)
		}
	}
	r := b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader("n2\n"), args: []string{"-f", "-", "-n", "1", "hostname"}}).wait(t)
	if r.code != 0 || r.out != b.nameOf("n2")+"\n" {
		t.Errorf("-f -: exit %d, %q%s", r.code, r.out, r.err)
	}
}

// The second way to reach a host: any program that gives a shell.
func TestLauncherExec(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	if len(transports()) < 2 {
		t.Skip("no ssh(1) on this machine; run as root: testdata/install.sh")
	}
	for _, program := range []string{"ssh", "ssh -q %h", "ssh -l %u %h %c", "sh -c 'exec ssh -T $1 $2' sh %h %c"} {
		r := b.runMpiexec(t, "-launcher-exec", program, "-hosts", hostsWithSlots(b, 2), "-n", "4", hello)
		r.checkOutput(t, b, b.helloLines(b.hosts(), 2))
	}
}
