//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A barrierProgram is a rank 0 that waits in one, beside others that sleep.
const barrierProgram = `[ $PMI_RANK != 0 ] || printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n' >&$PMI_FD; exec sleep 600`

// --status tells from any shell what each rank of a job is doing: what -timeout prints.
func TestStatusOfRanks(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", hostsWithSlots(b, 2), "-ppn", "2", "-n", "4", "sh", "-c", barrierProgram}})
	id := b.jobID(t)
	want := regexp.MustCompile(`(?m)^rank  node  pid +state              CPU     waits in
0     n1    \d+ +in barrier 1       0\.\d\d s  \S+
1     n1    \d+ +not yet connected  0\.\d\d s  \S+
2     n2    \d+ +not yet connected  0\.\d\d s  \S+
3     n2    \d+ +not yet connected  0\.\d\d s  \S+$`)
	if b.Kind != testbed.Namespaces {
		want = regexp.MustCompile(`(?m)^0 .* in barrier 1 `)
	}
	var out string
	b.awaitCondition(t, "the table", func() bool {
		out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id}, b.hosts()...)...)
		return want.MatchString(out)
	}, &out)
	var told struct {
		Ranks []struct {
			Rank        int
			Node, State string
		}
	}
	out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id, "--json"}, b.hosts()...)...)
	if err := json.Unmarshal([]byte(out), &told); err != nil || len(told.Ranks) != 4 || told.Ranks[0].State != "in barrier 1" {
		t.Errorf("%v: %s", err, out)
	}
	r.cmd.Process.Signal(os.Interrupt)
	r.wait(t)
	if left, _ := filepath.Glob("/tmp/remshell-*/" + id + ".*"); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

// Whoever sees to what a killed helper has left, a reaper or a guard, takes its socket away, too.
func TestSocketOfAKilledHelper(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	for _, test := range []struct {
		host, root string
		kill       func(r *runningJob)
	}{
		{"n1", b.Root("n1"), func(*runningJob) {
			for _, p := range b.processes(t, "n1") {
				if isHelperArgs(p.Args) {
					signalPIDs(t, syscall.SIGKILL, "helper on n1", []int{p.PID})
				}
			}
		}},
		{"localhost", "", func(r *runningJob) { r.cmd.Process.Kill() }},
	} {
		r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", test.host, "-n", "1", "sh", "-c", "echo $MPIEXEC_JOBID; exec sleep 600"}})
		if !r.out.wait(t.Context(), func(all string) bool { return strings.HasSuffix(all, "\n") }) {
			t.Fatal("it does not start")
		}
		sockets := test.root + "/tmp/remshell-*/" + strings.TrimSpace(r.out.String()) + ".*"
		there := func() bool { files, _ := filepath.Glob(sockets); return len(files) > 0 }
		if !poll(goneTimeout, there) {
			t.Errorf("%s: no socket", test.host)
		}
		test.kill(r)
		r.wait(t)
		if !poll(goneTimeout, func() bool { return !there() }) {
			t.Errorf("%s: its socket is left", test.host)
		}
	}
}

// Where no helper tells by its socket, the job is asked by the ledger (survive.md SV-27).
func TestStatusWithoutASocket(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", hostsWithSlots(b, 1), "-n", "1", "sh", "-c", barrierProgram}})
	id := b.jobID(t)
	var told string
	b.awaitCondition(t, "the table", func() bool {
		for _, dir := range []string{"/tmp/remshell-*/", "/run/user/*/remshell/"} {
			files, _ := filepath.Glob(dir + id + ".*")
			for _, file := range files {
				os.Remove(file)
			}
		}
		out, errs, code := b.runOnHead(t, binary, append([]string{"--status", id}, b.hosts()...)...)
		told = fmt.Sprintf("exit %d, %q, %q; mpiexec: %q", code, out, errs, &r.err)
		return strings.Contains(out, "nanosleep") && !strings.Contains(out, "alive")
	}, &told)
	r.cmd.Process.Signal(os.Interrupt)
	r.wait(t)
}

// jobID is the ID of the only job, once it runs.
func (b *testCluster) jobID(t *testing.T) (id string) {
	t.Helper()
	b.awaitCondition(t, "a job", func() bool {
		out, _, _ := b.runOnHead(t, binary, append([]string{"--ps", "--json"}, b.hosts()...)...)
		var told struct{ Jobs []struct{ Job string } }
		if json.Unmarshal([]byte(out), &told) == nil && len(told.Jobs) == 1 {
			id = told.Jobs[0].Job
		}
		return id != ""
	}, &id)
	return id
}

// awaitCondition asks until something is so.
func (b *testCluster) awaitCondition(t *testing.T, what string, is func() bool, seen *string) {
	t.Helper()
	for deadline := time.Now().Add(longTimeout); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %s", what, *seen)
		}
	}
}
