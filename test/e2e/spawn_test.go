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

// A try is one MPI_Comm_spawn of a real program, which goes on to its normal end whatever
// comes of it.
type try struct {
	options    string // beside the hosts
	key, value string
	count      int
	on         string // the host where the children run; empty: the spawn is refused
	told       string // on stderr
}

// tries runs programs that spawn, from n1 of a job on n1 and n2.
func (b *bed) tries(t *testing.T, program string, hosts []string, tests ...try) {
	t.Helper()
	for _, test := range tests {
		args := append(append(strings.Fields(test.options), hosts...), "-n", "1", program, "try", test.key, test.value, fmt.Sprint(max(1, test.count)))
		r := b.run(t, args...)
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
	program := mpi(t, "spawn")
	b := newBed(t, testbed.Options{Hosts: 3})
	b.needNamespaces(t)
	const stranger = "mpiexec: rank 0 on n1 wants to spawn on n3, which the job does not have; not done (--spawn-hosts n3 allows it)\n"
	here := strings.TrimSpace(b.output(t, "hostname"))
	local := func(name, way string) string {
		return fmt.Sprintf("mpiexec: rank 0 on n1 wants to spawn on %s, which the job does not have; not done (--spawn-hosts %s allows it)\n", name, way)
	}
	b.tries(t, program, []string{"-hosts", "n1:4,n2:4"},
		try{key: "host", value: "n1", on: "n1"},
		try{key: "host", value: "n2", on: "n2"},
		try{key: "hosts", value: "n2", on: "n2", count: 2},
		try{key: "add-host", value: "n2", on: "n2"},
		try{key: "host", value: "n3", told: stranger},
		try{key: "hosts", value: "n3", told: stranger},
		try{key: "add-host", value: "n3", told: stranger},
		try{options: "-q", key: "host", value: "n3", told: stranger},
		try{key: "host", value: "localhost", told: local("localhost", "localhost")},
		try{key: "host", value: here, told: local(here, here)},
		try{key: "host", value: "127.0.0.1", told: local("127.0.0.1", "127.0.0.1")},
		try{options: "--spawn-hosts n3", key: "host", value: "n3", on: "n3", told: "mpiexec: n3 joins the job, as rank 0 on n1 asks (--spawn-hosts n3)\n"},
		try{options: "--spawn-hosts any", key: "host", value: "n3", on: "n3", told: "mpiexec: n3 joins the job, as rank 0 on n1 asks (--spawn-hosts any)\n"},
		try{options: "-q --spawn-hosts any", key: "host", value: "n3", on: "n3"},
		try{options: "--spawn-hosts any", key: "host", value: "localhost", told: local("localhost", "any,localhost")},
		try{options: "--spawn-hosts any", key: "host", value: "root@localhost", told: local("localhost", "any,localhost")},
		try{options: "--spawn-hosts job", key: "host", value: "n2", told: local("n2", "candidates")},
		try{options: "--no-spawn", key: "host", value: "n1", told: "mpiexec: rank 0 on n1 wants to spawn; not done (--no-spawn)\n"},
		try{options: "--spawn-hosts none", key: "host", value: "n1", told: "mpiexec: rank 0 on n1 wants to spawn; not done (--spawn-hosts none)\n"},
	)
}

// output is what a command on the head prints.
func (b *bed) output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, errs, code := b.call(t, name, args...)
	if code != 0 {
		t.Fatalf("%s: exit %d: %s", name, code, errs)
	}
	return out
}

// Where nodes come from a cluster file, a host that joins is none of them.
func TestSpawnBesideAClusterFile(t *testing.T) {
	t.Parallel()
	program := mpi(t, "spawn")
	b := newBed(t, testbed.Options{Hosts: 3})
	b.needNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	text := "[[node]]\nid = 1\nname = \"n1\"\n[[node]]\nid = 2\nname = \"n2\"\n"
	if err := os.WriteFile(cluster, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.tries(t, program, []string{"--cluster", cluster, "--sort", "none"},
		try{key: "host", value: "n2", on: "n2"},
		try{key: "host", value: "n3", told: "rank 0 on n1 wants to spawn on n3, which the job does not have"},
		try{options: "--spawn-hosts n3", key: "host", value: "n3", on: "n3", told: "n3 joins the job"})
}

// Files that a rank names are its host's, plain and small (TRUST-11). Nothing is opened on
// the launching machine.
func TestSpawnFiles(t *testing.T) {
	t.Parallel()
	program := mpi(t, "spawn")
	b := newBed(t, testbed.Options{Hosts: 2})
	b.needNamespaces(t)
	dir := t.TempDir()
	private := filepath.Join(dir, "hosts")
	if err := os.WriteFile(private, []byte("n2 secret-of-the-launcher\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, code := b.call(t, "mkfifo", filepath.Join(dir, "pipe")); code != 0 {
		t.Fatal(out)
	}
	b.on(t, "n1", "sh", "-c", "cd /tmp && echo n2:2 >hosts && echo host=n2 >info && mkfifo pipe && echo 'n2 user=root' >code")
	began := time.Now()
	b.tries(t, program, []string{"-hosts", "n1:4,n2:4"},
		try{key: "hostfile", value: "/tmp/hosts", on: "n2"},
		try{options: "-wdir /tmp", key: "hostfile", value: "hosts", on: "n2"},
		try{key: "file", value: "/tmp/info", on: "n2"},
		try{key: "hostfile", value: "/tmp/pipe", told: "info key hostfile: /tmp/pipe is no plain file"},
		try{key: "file", value: "/tmp/pipe", told: "info key file: /tmp/pipe is no plain file"},
		try{key: "hostfile", value: filepath.Join(dir, "pipe"), told: "no such file or directory"},
		try{key: "hostfile", value: "/dev/zero", told: "/dev/zero is no plain file"},
		try{key: "file", value: "/dev/zero", told: "/dev/zero is no plain file"},
		try{key: "hostfile", value: "/dev/tty", told: "/dev/tty is no plain file"},
		try{key: "hostfile", value: "/dev/ptmx", told: "/dev/ptmx is no plain file"},
		try{key: "hostfile", value: "/tmp", told: "/tmp is no plain file"},
		try{key: "hostfile", value: "-", told: "info key hostfile: -: no such file or directory"},
		try{key: "hostfile", value: private, told: "no such file or directory"},
		try{key: "hostfile", value: "/tmp/code", told: "/tmp/code:1: only hosts and slots may stand there"},
	)
	if took := time.Since(began); took > 4*time.Minute {
		t.Errorf("14 jobs took %v", took)
	}
}

// So many ranks are refused at once, and the job goes on.
func TestSpawnOfTooManyRanks(t *testing.T) {
	t.Parallel()
	program := mpi(t, "spawn")
	b := newBed(t, testbed.Options{Hosts: 2})
	b.tries(t, program, []string{"-hosts", "n1:4,n2:4"},
		try{key: "host", value: "n1", count: 1 << 24, told: "16777216 ranks; a spawn has from 1 to 1048576\n"},
		try{key: "host", value: "n1", count: 1 << 20, told: "1048576 ranks do not fit: there may be 4096 on these hosts\n"},
		try{options: "--nooversubscribe", key: "host", value: "n1", count: 9, told: "9 ranks do not fit: there may be 8 on these hosts\n"})
}

// MPI_Comm_spawn beyond the free CPUs works, as under Hydra: the children share those of
// their own job, and never another's.
func TestSpawnSharesCPUs(t *testing.T) {
	t.Parallel()
	program := mpi(t, "spawn")
	b := newBed(t, testbed.Options{Hosts: 1})
	b.needNamespaces(t)
	const notice = "mpiexec: rank 0 on n1 spawns ranks that find no free CPU; they share those of the job (--nooversubscribe refuses that)\n"
	b.tries(t, program, []string{"-hosts", "n1:1"},
		try{key: "color", value: "blue", count: 3, on: "n1", told: notice},
		try{options: "--nooversubscribe", key: "color", value: "blue", told: "its CPU is in use"})
	home := b.run(t, "-n", "1", program, "one", strconv.Itoa(runtime.NumCPU()+1))
	if want := "; they share those of this machine (--nooversubscribe refuses that)\n"; home.code != 0 || !strings.HasSuffix(home.err, want) {
		t.Errorf("on this machine alone: exit %d, %q, want %q", home.code, home.err, want)
	}
	const bound = "grep Cpus_allowed_list /proc/self/status"
	b.on(t, "n1", "sh", "-c", "printf '#!/bin/sh\\n"+bound+"\\n' >/tmp/bound && chmod +x /tmp/bound")
	go1, begin := pipe(t)
	go2, end := pipe(t)
	mine := b.start(t, job{stdin: go1, args: []string{"-hosts", "n1", "-n", "1", "sh", "-c",
		bound + "; read go; exec $0 'spawn 5 x program=/tmp/bound'", bundled(t, "pmitalk")}})
	mine.await(t, "\n", 1)
	others := b.start(t, job{stdin: go2, args: []string{"-hosts", "n1", "-stdin", "all", "sh", "-c", bound + "; echo held; cat"}}) // all that are left
	others.await(t, "held\n", 1)
	fmt.Fprintln(begin, "go")
	r := mine.wait(t)
	end.Close()
	theirs := others.wait(t).out
	cpus := sortedLines(without(r.out, "spawn"))
	if r.code != 0 || len(cpus) != 6 || cpus[0] != cpus[5] || strings.Contains(theirs, cpus[0]+"\n") || r.err != notice {
		t.Errorf("exit %d, %q: bound to %q beside %q", r.code, r.err, cpus, theirs)
	}
}
