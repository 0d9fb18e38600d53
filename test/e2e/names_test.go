//go:build linux

package e2e

import (
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
