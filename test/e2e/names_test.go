//go:build linux

package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// Two jobs on three hosts meet by a name: MPI programs publish and look up, connect, and exchange numbers. Without --names
// a job does not find names of another one. The names of a killed job are gone within 3 seconds.
func TestNamesOfTwoJobs(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	for _, test := range []struct {
		name, program string
		options       []string
	}{
		{"here", "meet", []string{"--names", "user"}},
		{"on n2", "meet", []string{"-nameserver", "n2"}},
		{"all", "meet", []string{"-nameserver", "n1", "--names", "all"}},
		{"Open MPI", "meet.openmpi", []string{"--names", "user"}},
	} {
		name, options, meet := test.name, test.options, mpiProgram(t, test.program)
		of := func(hosts, n string, words ...string) []string {
			return slices.Concat(options, []string{"-hosts", hosts, "-n", n, meet}, words)
		}
		server := b.startMpiexec(t, mpiexecCall{args: of("n1:1,n2:1", "2", "server", name)})
		if !poll(time.Minute, func() bool { return strings.Contains(server.out.String(), "published\n") }) {
			t.Fatalf("%s: the server has published nothing: %q, %q", name, server.out.String(), server.err.String())
		}
		client := b.runMpiexec(t, of("n3:1", "1", "client", name)...)
		if want := "rank 0 of 1 exchanged with 2\n"; client.code != 0 || client.out != want || client.err != "" {
			t.Errorf("%s: client: exit %d, %q, %q", name, client.code, client.out, client.err)
		}
		r := server.wait(t)
		if got := sortedLines(r.out); r.code != 0 || !slices.Equal(got, []string{"published", "rank 0 of 2 exchanged with 1", "rank 1 of 2 exchanged with 1"}) || r.err != "" {
			t.Errorf("%s: server: exit %d, %q, %q", name, r.code, got, r.err)
		}
		find := func() string { return b.runMpiexec(t, of("n2:1", "1", "find", "held")...).out }
		held := b.startMpiexec(t, mpiexecCall{args: of("n1:1", "1", "hold", "held")})
		if !poll(time.Minute, func() bool { return strings.Contains(held.out.String(), "published\n") }) {
			t.Fatalf("%s: nothing is published: %q, %q", name, held.out.String(), held.err.String())
		}
		if got := find(); got != "found\n" {
			t.Errorf("%s: %q", name, got)
		}
		if got := b.runMpiexec(t, "-hosts", "n2:1", "-n", "1", meet, "find", "held").out; got != "not found\n" {
			t.Errorf("%s: without the option: %q", name, got)
		}
		held.cmd.Process.Signal(syscall.SIGKILL)
		held.end()
		killed := time.Now()
		last := time.Duration(0) // when the last look-up that found it began
		for from := killed; find() == "found\n" && time.Since(killed) < time.Minute; from = time.Now() {
			last = from.Sub(killed)
		}
		if last > 3*time.Second {
			t.Errorf("%s: %v after the end of its job the name was still found", name, last)
		}
	}
}

// An Open MPI program that has found a port of another job does not wait for ever in MPI_Comm_connect if that job ends
// before: connect fails, with a note.
func TestServerEndsBeforeConnect(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	meet := mpiProgram(t, "meet.openmpi")
	server := b.startMpiexec(t, mpiexecCall{args: []string{"--names", "user", "-host", "n1:1", "-n", "1", meet, "server", "svc"}})
	server.awaitOut(t, "published\n", 1)
	stdin, input := io.Pipe()
	client := b.startMpiexec(t, mpiexecCall{args: []string{"--names", "user", "-host", "n2:1", "-n", "1", meet, "late", "svc"}, stdin: stdin})
	client.awaitOut(t, "found\n", 1)
	server.cmd.Process.Signal(syscall.SIGTERM)
	server.wait(t)
	ended := time.Now()
	fmt.Fprintln(input)
	input.Close()
	r := client.wait(t)
	if took := time.Since(ended); r.code == 0 || took > 30*time.Second || !strings.Contains(r.out, "connect failed\n") ||
		!strings.Contains(r.err, "rank 0: PMIx: the rank no longer waits for the name ") || !strings.Contains(r.err, ":accept, because the job that opened the port of this name has ended") {
		t.Errorf("exit %d after %v: %q, %q", r.code, took, r.out, r.err)
	}
}

// Two jobs on two hosts that use PMI-2 find each other's names. Of 100 names that both publish at the same time, each
// job that is first gets the name, and the other one an error.
func TestNamesByPMI2(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	pmi2 := mpiProgram(t, "pmi2")
	start := func(host string, words ...string) *runningJob {
		return b.startMpiexec(t, mpiexecCall{args: append([]string{"-nameserver", "n2", "--pmi", "pmi2", "-host", host + ":1", "-n", "1", pmi2}, words...)})
	}
	held := start("n1", "hold", "svc", "a port;1=2")
	held.awaitOut(t, "published\n", 1)
	if r := start("n2", "find", "svc").wait(t); r.code != 0 || r.out != "a port;1=2\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, "--pmi", "pmi2", "-host", "n2:1", "-n", "1", pmi2, "find", "svc"); r.out != "not found\n" {
		t.Errorf("without the option: exit %d, %q, %q", r.code, r.out, r.err)
	}
	held.cmd.Process.Signal(syscall.SIGTERM)
	held.wait(t)
	const names = 100
	one, two := start("n1", "race", "one", "two", fmt.Sprint(names)), start("n2", "race", "two", "one", fmt.Sprint(names))
	one.awaitOut(t, "over\n", 1)
	two.awaitOut(t, "over\n", 1)
	both, won := one.out.String()+two.out.String(), strings.Count(one.out.String(), "published ")
	for i := range names {
		if published, refused := strings.Count(both, fmt.Sprintf("published %d\n", i)), strings.Count(both, fmt.Sprintf("refused %d\n", i)); published != 1 || refused != 1 {
			t.Errorf("name %d: published %d times, refused %d times", i, published, refused)
		}
	}
	t.Logf("of %d names the first job got %d", names, won)
}

// A user on the host that keeps the names finds names of another user only if both jobs have --names all, and reads whose
// they are.
func TestNamesOfAnotherUser(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	pmi2 := mpiProgram(t, "pmi2")
	b.copyToHost(t, "n2", binary, "/tmp/mpiexec") // for other users
	for _, who := range []string{"user", "all"} {
		server := b.startMpiexec(t, mpiexecCall{args: []string{"-nameserver", "n2", "--names", who, "--pmi", "pmi2", "-host", "n1:1", "-n", "1", pmi2, "hold", "svc", "port"}})
		server.awaitOut(t, "published\n", 1)
		find := func(uid, who string) string {
			return b.runOn(t, "n2", "sh", "-ec", "cd /; HOME=/ exec setpriv --reuid "+uid+" --regid 4711 --clear-groups /tmp/mpiexec -nameserver localhost --names "+who+" --pmi pmi2 -host localhost:1 -n 1 "+pmi2+" find svc 2>&1")
		}
		if got := find("0", "user"); got != "port" {
			t.Errorf("--names %s: the same user: %q", who, got)
		}
		if got := find("12345", "user"); got != "not found" {
			t.Errorf("--names %s: another user: %q", who, got)
		}
		want := map[string]string{"user": "not found", "all": "port"}[who]
		if got := find("12345", "all"); !strings.Contains("\n"+got+"\n", "\n"+want+"\n") || strings.Contains(got, "user root has published the name svc, with the port ") != (who == "all") {
			t.Errorf("--names %s: another user with --names all: %q, want %q", who, got, want)
		}
		server.cmd.Process.Signal(syscall.SIGTERM)
		server.wait(t)
	}
}
