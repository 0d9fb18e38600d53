//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A spawnCase is one MPI_Comm_spawn of a real program, which goes on to its normal end whatever
// comes of it.
type spawnCase struct {
	options    string // beside the hosts
	key, value string
	count      int
	on         string // the host where the children run; empty: the spawn is refused
	told       string // on stderr
}

// runSpawnCases runs programs that spawn, from n1 of a job on n1 and n2.
func (b *testCluster) runSpawnCases(t *testing.T, program string, hosts []string, tests ...spawnCase) {
	t.Helper()
	for _, test := range tests {
		args := append(append(strings.Fields(test.options), hosts...), "-n", "1", program, "try", test.key, test.value, fmt.Sprint(max(1, test.count)))
		r := b.runMpiexec(t, args...)
		done := strings.Contains(r.out, "children: ") && strings.Contains(r.out, " on "+test.on+",")
		if r.code != 0 || done != (test.on != "") || !done && r.out != "spawn: refused\n" || !strings.Contains(r.err, test.told) || test.told == "" && r.err != "" {
			t.Errorf("%s, %s=%s: exit %d after %v, %q, %q; want %q on %q", test.options, test.key, test.value, r.code, r.took, r.out, r.err, test.told, test.on)
		}
	}
}

// Children start on candidates of the job, or where the user lets them (TRUST-9): not on a
// stranger, and not on the launching machine.
func TestSpawnGoesWhereItMay(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	const stranger = "mpiexec: rank 0 on n1: the spawn was refused: the job does not include n3 (allowed with --spawn-hosts n3)\n"
	here := strings.TrimSpace(b.outputOf(t, "hostname"))
	local := func(name, way string) string {
		return fmt.Sprintf("mpiexec: rank 0 on n1: the spawn was refused: the job does not include %s (allowed with --spawn-hosts %s)\n", name, way)
	}
	b.runSpawnCases(t, program, []string{"-hosts", "n1:4,n2:4"},
		spawnCase{key: "host", value: "n1", on: "n1"},
		spawnCase{key: "host", value: "n2", on: "n2"},
		spawnCase{key: "hosts", value: "n2", on: "n2", count: 2},
		spawnCase{key: "add-host", value: "n2", on: "n2"},
		spawnCase{key: "host", value: "n3", told: stranger},
		spawnCase{key: "hosts", value: "n3", told: stranger},
		spawnCase{key: "add-host", value: "n3", told: stranger},
		spawnCase{options: "-q", key: "host", value: "n3", told: stranger},
		spawnCase{key: "host", value: "localhost", told: local("localhost", "localhost")},
		spawnCase{key: "host", value: here, told: local(here, here)},
		spawnCase{key: "host", value: "127.0.0.1", told: local("127.0.0.1", "127.0.0.1")},
		spawnCase{options: "--spawn-hosts n3", key: "host", value: "n3", on: "n3", told: "mpiexec: n3 now belongs to the job, because rank 0 on n1 requested it (--spawn-hosts n3)\n"},
		spawnCase{options: "--spawn-hosts any", key: "host", value: "n3", on: "n3", told: "mpiexec: n3 now belongs to the job, because rank 0 on n1 requested it (--spawn-hosts any)\n"},
		spawnCase{options: "-q --spawn-hosts any", key: "host", value: "n3", on: "n3"},
		spawnCase{options: "--spawn-hosts any", key: "host", value: "localhost", told: local("localhost", "any,localhost")},
		spawnCase{options: "--spawn-hosts any", key: "host", value: "root@localhost", told: local("localhost", "any,localhost")},
		spawnCase{options: "--spawn-hosts job", key: "host", value: "n2", told: local("n2", "candidates")},
		spawnCase{options: "--no-spawn", key: "host", value: "n1", told: "mpiexec: rank 0 on n1: the spawn was refused: MPI_Comm_spawn is not allowed (--no-spawn)\n"},
		spawnCase{options: "--spawn-hosts none", key: "host", value: "n1", told: "mpiexec: rank 0 on n1: the spawn was refused: MPI_Comm_spawn is not allowed (--spawn-hosts none)\n"},
	)
}

// outputOf is what a command on the head prints.
func (b *testCluster) outputOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, errs, code := b.runOnHead(t, name, args...)
	if code != 0 {
		t.Fatalf("%s: exit %d: %s", name, code, errs)
	}
	return out
}

// Where nodes come from a cluster file, a host that joins is none of them.
func TestSpawnBesideAClusterFile(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	text := "[[node]]\nid = 1\nname = \"n1\"\n[[node]]\nid = 2\nname = \"n2\"\n"
	if err := os.WriteFile(cluster, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.runSpawnCases(t, program, []string{"--cluster", cluster, "--sort", "none"},
		spawnCase{key: "host", value: "n2", on: "n2"},
		spawnCase{key: "host", value: "n3", told: "rank 0 on n1: the spawn was refused: the job does not include n3"},
		spawnCase{options: "--spawn-hosts n3", key: "host", value: "n3", on: "n3", told: "n3 now belongs to the job"})
}

// Files that a rank names are its host's, plain and small (TRUST-11). Nothing is opened on
// the launching machine.
func TestSpawnFiles(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	dir := t.TempDir()
	private := filepath.Join(dir, "hosts")
	if err := os.WriteFile(private, []byte("n2 secret-of-the-launcher\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, code := b.runOnHead(t, "mkfifo", filepath.Join(dir, "pipe")); code != 0 {
		t.Fatal(out)
	}
	b.runOn(t, "n1", "sh", "-c", "cd /tmp && echo n2:2 >hosts && echo host=n2 >info && mkfifo pipe && echo 'n2 user=root' >code")
	began := time.Now()
	b.runSpawnCases(t, program, []string{"-hosts", "n1:4,n2:4"},
		spawnCase{key: "hostfile", value: "/tmp/hosts", on: "n2"},
		spawnCase{options: "-wdir /tmp", key: "hostfile", value: "hosts", on: "n2"},
		spawnCase{key: "file", value: "/tmp/info", on: "n2"},
		spawnCase{key: "hostfile", value: "/tmp/pipe", told: `info key "hostfile": /tmp/pipe is not a regular file`},
		spawnCase{key: "file", value: "/tmp/pipe", told: `info key "file": /tmp/pipe is not a regular file`},
		spawnCase{key: "hostfile", value: filepath.Join(dir, "pipe"), told: "no such file or directory"},
		spawnCase{key: "hostfile", value: "/dev/zero", told: "/dev/zero is not a regular file"},
		spawnCase{key: "file", value: "/dev/zero", told: "/dev/zero is not a regular file"},
		spawnCase{key: "hostfile", value: "/dev/tty", told: "/dev/tty is not a regular file"},
		spawnCase{key: "hostfile", value: "/dev/ptmx", told: "/dev/ptmx is not a regular file"},
		spawnCase{key: "hostfile", value: "/tmp", told: "/tmp is not a regular file"},
		spawnCase{key: "hostfile", value: "-", told: `info key "hostfile": -: no such file or directory`},
		spawnCase{key: "hostfile", value: private, told: "no such file or directory"},
		spawnCase{key: "hostfile", value: "/tmp/code", told: "/tmp/code:1: only hosts and slots are allowed in this file"},
	)
	if took := time.Since(began); took > 4*time.Minute {
		t.Errorf("14 jobs took %v", took)
	}
}

// So many ranks are refused at once, and the job goes on.
func TestSpawnOfTooManyRanks(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.runSpawnCases(t, program, []string{"-hosts", "n1:4,n2:4"},
		spawnCase{key: "host", value: "n1", count: 1 << 24, told: "a spawn cannot start 16777216 ranks; allowed: 1 to 1048576\n"},
		spawnCase{key: "host", value: "n1", count: 1 << 20, told: "1048576 ranks do not fit: these hosts may have at most 4096 ranks\n"},
		spawnCase{options: "--nooversubscribe", key: "host", value: "n1", count: 9, told: "9 ranks do not fit: these hosts may have at most 8 ranks\n"})
}

// MPI_Comm_spawn beyond the free CPUs works, as under Hydra: the children share those of
// their own job, and never another's.
func TestSpawnSharesCPUs(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	const notice = "mpiexec: rank 0 on n1 spawns ranks, but no CPUs are free; they share the CPUs of the job (--nooversubscribe forbids that)\n"
	b.runSpawnCases(t, program, []string{"-hosts", "n1:1"},
		spawnCase{key: "color", value: "blue", count: 3, on: "n1", told: notice},
		spawnCase{options: "--nooversubscribe", key: "color", value: "blue", told: "the only CPU is in use"})
	home := b.runMpiexec(t, "-n", "1", program, "one", strconv.Itoa(runtime.NumCPU()+1))
	if want := "; they share the CPUs of this machine (--nooversubscribe forbids that)\n"; home.code != 0 || !strings.HasSuffix(home.err, want) {
		t.Errorf("on this machine alone: exit %d, %q, want %q", home.code, home.err, want)
	}
	const bound = "grep Cpus_allowed_list /proc/self/status"
	b.runOn(t, "n1", "sh", "-c", "printf '#!/bin/sh\\n"+bound+"\\n' >/tmp/bound && chmod +x /tmp/bound")
	go1, begin := inputPipe(t)
	go2, end := inputPipe(t)
	mine := b.startMpiexec(t, mpiexecCall{stdin: go1, args: []string{"-hosts", "n1", "-n", "1", "sh", "-c",
		bound + "; read go; exec $0 'spawn 5 x program=/tmp/bound'", bundledProgram(t, "pmitalk")}})
	mine.awaitOut(t, "\n", 1)
	others := b.startMpiexec(t, mpiexecCall{stdin: go2, args: []string{"-hosts", "n1", "-stdin", "all", "sh", "-c", bound + "; echo held; cat"}}) // all that are left
	others.awaitOut(t, "held\n", 1)
	fmt.Fprintln(begin, "go")
	r := mine.wait(t)
	end.Close()
	theirs := others.wait(t).out
	cpus := sortedLines(withoutLines(r.out, "spawn"))
	if r.code != 0 || len(cpus) != 6 || cpus[0] != cpus[5] || strings.Contains(theirs, cpus[0]+"\n") || r.err != notice {
		t.Errorf("exit %d, %q: bound to %q beside %q", r.code, r.err, cpus, theirs)
	}
}
