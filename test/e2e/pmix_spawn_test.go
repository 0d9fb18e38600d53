//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// familyLines is what parents and children say, sorted, of so many and those on certain hosts.
func familyLines(parents int, children ...string) []string {
	n, sum := len(children), parents*(parents+1)/2+len(children)*(len(children)+1)/2
	lines := []string{fmt.Sprintf("parents: %d and %d children, sum %d", parents, n, sum)}
	for _, host := range children {
		lines = append(lines, fmt.Sprintf("children: %d of %d parents, appnum 0 on %s, sum %d", n, parents, host, sum))
	}
	slices.Sort(lines)
	return lines
}

// On one host: several children, several programs, children of children. What cannot be started is an
// error of the program, which goes on.
func TestOpenMPISpawns(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	spawn := func(args ...string) result {
		return b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:8"}, args)...)
	}
	spawn("-n", "2", program, "one", "3").checkOutput(t, b, familyLines(2, "n1", "n1", "n1"))
	spawn("-n", "1", program, "nested", "2").checkOutput(t, b, sortedLines(strings.Repeat(strings.Join(familyLines(1, "n1"), "\n")+"\n", 2)))
	many := strings.ReplaceAll(strings.Join(familyLines(1, "n1", "n1", "n1"), "\n"), "appnum 0", "appnum 1")
	spawn("-n", "1", program, "many", "1", "2").checkOutput(t, b, strings.Split(strings.Replace(many, "appnum 1", "appnum 0", 1), "\n"))
	for _, test := range []struct{ args, told string }{
		{program + " missing", "program /nowhere/at/all: no such file or directory"},
		{program + " try host n9 1", "rank 0 on n1: the spawn was refused: the job does not include n9 (allowed with --spawn-hosts n9)"},
		{program + " try add-host n9 1", "rank 0 on n1: the spawn was refused: the job does not include n9 (allowed with --spawn-hosts n9)"},
		{"-genv SPAWN_PROGRAM " + mpiProgram(t, "spawn.mpich4") + " " + program + " try color blue 1", "it is built for MPICH, but the program that spawns it uses PMIx"},
		{"--no-spawn " + program + " try color blue 1", "rank 0 on n1: the spawn was refused: MPI_Comm_spawn is not allowed (--no-spawn)"},
		{"--nooversubscribe " + program + " try color blue 8", "8 ranks do not fit: there are free slots for only 7 ranks on 1 node (n1)"},
	} {
		if r := spawn(append([]string{"-n", "1"}, strings.Fields(test.args)...)...); r.code != 0 || r.out != "spawn: refused\n" || !strings.Contains(r.err, test.told) {
			t.Errorf("%s: exit %d, %q, %q; want %q", test.args, r.code, r.out, r.err, test.told)
		}
	}
}

// forEachOpenMPI runs a test with each Open MPI that there is. Options are what programs of it want, and program returns one of them.
func forEachOpenMPI(t *testing.T, test func(t *testing.T, version int, program func(name string) string, options []string)) {
	prefix := filepath.Join(repoRoot, "build", "openmpi5", "usr")
	library, _ := filepath.Glob(filepath.Join(prefix, "lib", "*", "pmix2"))
	for version, of := range map[int]struct {
		suffix  string
		options []string
	}{
		4: {".openmpi", sharedHostsOptions},
		5: {".openmpi5", slices.Concat(sharedHostsOptions, []string{"-genv", "OPAL_PREFIX", prefix, "-genv", "PMIX_PREFIX", strings.Join(library, "")})},
	} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			test(t, version, func(name string) string { return mpiProgram(t, name+of.suffix) }, of.options)
		})
	}
}

// Over hosts: parents and children on different ones, all of them on several, several programs, children of children, and children
// after others. Who meets whom is known on every host that needs it.
func TestOpenMPISpawnsOverHosts(t *testing.T) {
	t.Parallel()
	forEachOpenMPI(t, func(t *testing.T, _ int, program func(string) string, options []string) {
		b := newTestCluster(t, testbed.Options{Hosts: 3})
		for _, test := range []struct {
			args string
			want [][]string // of each spawn
		}{
			{"-hosts n1:1,n2:1 -n 1 PROGRAM one 1", [][]string{familyLines(1, "n2")}},
			{"-hosts n1:1,n2:1,n3:2 -n 2 PROGRAM one 2", [][]string{familyLines(2, "n3", "n3")}},
			{"-hosts n1:2,n2:2,n3:2 -n 3 PROGRAM one 3", [][]string{familyLines(3, "n2", "n3", "n3")}},
			{"-hosts n1:2,n2:2 -n 1 PROGRAM host n2 2", [][]string{familyLines(1, "n2", "n2")}},
			{"-hosts n1:1,n2:1,n3:1 -n 1 PROGRAM nested 2", [][]string{familyLines(1, "n2"), familyLines(1, "n3")}},
			{"-hosts n1:1,n2:4 -n 1 PROGRAM again 2", [][]string{familyLines(1, "n2", "n2"), familyLines(1, "n2", "n2")}},
			{"-hosts n1:1,n2:1,n3:1 -n 1 PROGRAM cousins 1", [][]string{{"cousins: 1 and 1, sum 2"}}},
			{"-hosts n1:2,n2:2,n3:2 -n 2 PROGRAM cousins 2", [][]string{{"cousins: 2 and 2, sum 6"}}},
		} {
			words := strings.Fields(strings.Replace(test.args, "PROGRAM", program("spawn"), 1))
			b.runMpiexec(t, slices.Concat(options, words)...).checkOutput(t, b, sortedUnion(test.want...))
		}
	})
}

// sortedUnion are the lines of all.
func sortedUnion(all ...[]string) []string {
	lines := slices.Concat(all...)
	slices.Sort(lines)
	return lines
}

// Programs that ask MPI_UNIVERSE_SIZE before they spawn are told the slots of all hosts, wherever their first ranks are, and so are
// their children: programs of both families, as -usize says it for those of MPICH.
func TestTheUniverseOfASpawn(t *testing.T) {
	t.Parallel()
	asks := func(t *testing.T, program string, options []string) {
		b := newTestCluster(t, testbed.Options{Hosts: 3})
		for _, test := range []struct {
			args     string
			universe int
			want     []string
		}{
			{"-hosts n1:2,n2:1 -n 1 PROGRAM asks 2", 3, familyLines(1, "n1", "n2")},
			{"-hosts n1:1,n2:2 -n 1 PROGRAM asks 2", 3, familyLines(1, "n2", "n2")},
			{"-hosts n1:1,n2:1,n3:1 -n 2 PROGRAM asks 1", 3, familyLines(2, "n3")},
			{"-hosts n1:1,n2:4 -n 2 PROGRAM asks 3", 5, familyLines(2, "n2", "n2", "n2")},
			{"-hosts n1:1,n2:3 --spawn-hosts job -n 1 PROGRAM asks 2", 1, nil},
			{"-hosts n1:1,n2:3 --no-spawn -n 1 PROGRAM asks 2", 1, nil},
			{"-hosts n1:1 --quiet --spawn-hosts n3:3 -n 1 PROGRAM asks 2", 4, familyLines(1, "n3", "n3")},
			{"-hosts n1:2,n2:1 -usize 7 -n 1 PROGRAM asks 2", 7, familyLines(1, "n1", "n2")},
		} {
			words := strings.Fields(strings.Replace(test.args, "PROGRAM", program, 1))
			r := b.startMpiexec(t, mpiexecCall{env: []string{"MPIEXEC_UNIVERSE_SIZE=SYSTEM"}, args: slices.Concat(options, words)}).wait(t)
			r.checkOutput(t, b, sortedUnion(test.want, []string{fmt.Sprintf("universe %d", test.universe)}))
		}
	}
	forEachOpenMPI(t, func(t *testing.T, _ int, program func(string) string, options []string) {
		asks(t, program("spawn"), options)
	})
	t.Run("MPICH", func(t *testing.T) { asks(t, mpiProgram(t, "spawn"), nil) })
}

// Info keys say what mpirun takes them for. That a key will go one day, 5.0 says on stderr.
func TestInfoKeysOfOpenMPI(t *testing.T) {
	t.Parallel()
	forEachOpenMPI(t, func(t *testing.T, version int, program func(string) string, options []string) {
		b := newTestCluster(t, testbed.Options{Hosts: 3})
		b.requireNamespaces(t)
		const hosts = "/tmp/hosts" // of n1
		b.runOn(t, "n1", "sh", "-c", "echo n3 slots=2 >"+hosts)
		n1, n3, both := familyLines(1, "n1", "n1"), familyLines(1, "n3", "n3"), familyLines(1, "n1", "n2")
		each := map[int]string{4: "1:node", 5: "ppr:1:node"}[version]
		for _, test := range []struct {
			key, value string
			want       []string
		}{
			{"host", "n3", n3}, {"add-host", "n3", n3}, {"hostfile", hosts, n3}, {"add-hostfile", hosts, n3},
			{"npernode", "1", both}, {"pernode", "true", both}, {"ppr", each, both}, {"map_by", "ppr:1:node", both},
			{"map_by", "node", both}, {"map_by", "slot", n1}, {"wdir", filepath.Dir(program("spawn")), n1},
			{"ompi_prefix", "/usr", n1}, {"ompi_param", "OMPI_MCA_mpi_param_check=1", n1}, {"ompi_stdin_target", "all", n1},
			{"ompi_preload_binary", "true", n1}, {"ompi_preload_files", "/nowhere", n1}, {"personality", "ompi", n1}, {"env", "A=1", n1},
			{"path", "/nowhere", n1}, {"soft", "1", n1}, {"arch", "any", n1}, {"display_map", "true", n1}, {"mapper", "round_robin", n1},
		} {
			args := slices.Concat(options, []string{"-hosts", "n1:3,n2:3,n3:3", "-n", "1", program("spawn"), "try", test.key, test.value, "2"})
			r := b.runMpiexec(t, args...)
			if r.code != 0 || !slices.Equal(sortedLines(r.out), test.want) || version == 4 && r.err != "" || strings.Contains(r.err, "mpiexec:") {
				t.Errorf("%s=%s: exit %d, %q, %q; want %q", test.key, test.value, r.code, r.out, r.err, test.want)
			}
		}
		args := slices.Concat(options, []string{"-hosts", "n1:1,n2:2", "-genv", "SPAWN_PROGRAM", "echo", "-n", "1", program("spawn"), "try", "ompi_non_mpi", "true", "2"})
		if r := b.runMpiexec(t, args...); r.code != 0 || !slices.Equal(sortedLines(r.out), []string{"child", "child", "spawn: no MPI"}) {
			t.Errorf("ompi_non_mpi: exit %d, %q, %q", r.code, r.out, r.err)
		}
	})
}

// A program that is named without a folder is looked for behind PATH in its working directory, as mpirun does, and in that of the
// rank that asks: what an info key "path" says, Open MPI keeps to itself.
func TestOpenMPISpawnsFromItsDirectory(t *testing.T) {
	t.Parallel()
	dir, name := filepath.Split(mpiProgram(t, "spawn.openmpi"))
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, test := range []struct{ from, wdir string }{{dir, "/tmp"}, {"/tmp", dir}, {dir, dir}} {
		r := b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:1,n2:2", "-wdir", test.from, "-genv", "SPAWN_PROGRAM", name, "-n", "1", dir + name, "try", "wdir", test.wdir, "2"})...)
		r.checkOutput(t, b, familyLines(1, "n2", "n2"))
	}
	r := b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:2", "-wdir", "/tmp", "-genv", "SPAWN_PROGRAM", name, "-n", "1", dir + name, "try", "wdir", "/var", "2"})...)
	if r.code != 0 || r.out != "spawn: refused\n" || !strings.Contains(r.err, "program "+name+": not found in PATH and in /var:/tmp") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Another name of a node that the job has, such as its address, is found to be that node, and not waited for
// in vain; for programs of both families.
func TestSpawnOntoAnotherName(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	address := strings.Fields(b.runOn(t, "n1", "hostname", "-I"))[0]
	for _, program := range []string{mpiProgram(t, "spawn"), mpiProgram(t, "spawn.openmpi")} {
		r := b.runMpiexec(t, "-hosts", "n1:4", "--spawn-hosts", "any", "-n", "1", program, "try", "host", address, "2")
		if got := sortedLines(r.out); r.code != 0 || !slices.Equal(got, familyLines(1, "n1", "n1")) {
			t.Errorf("exit %d, %q, %q", r.code, got, r.err)
		}
	}
}

// The other way round: a program of MPICH does not become the parent of one of Open MPI.
func TestMPICHSpawnsNoOpenMPI(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	r := b.runMpiexec(t, "-hosts", "n1:2", "-n", "1", "-genv", "SPAWN_PROGRAM", mpiProgram(t, "spawn.openmpi"), mpiProgram(t, "spawn"), "try", "color", "blue", "1")
	if r.code != 0 || r.out != "spawn: refused\n" || !strings.Contains(r.err, "it is built for Open MPI, but the program that spawns it uses PMI") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// sessionDirs lists the session directories on a host.
func (b *testCluster) sessionDirs(t *testing.T, host string) string {
	t.Helper()
	return b.runOn(t, host, "sh", "-c", "ls -d /tmp/rs-*-* /var/tmp/rs-*-* /dev/shm/rs-*-* 2>/dev/null; true")
}

// What a helper leaves that is killed with SIGKILL its reaper removes (PMIX-55).
func TestNothingIsLeftOfAKilledHelper(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2", "-n", "2", mpiProgram(t, "misc.openmpi"), "spin", "helper-is-killed"}})
	r.awaitOut(t, "ready", 2)
	if b.sessionDirs(t, "n1") == "" {
		t.Fatal("there is no session directory")
	}
	killed := 0
	for _, p := range b.processes(t, "n1") {
		if isHelperArgs(p.Args) {
			signalPIDs(t, syscall.SIGKILL, "helper", []int{p.PID})
			killed++
		}
	}
	if got := r.wait(t); got.code != 125 || killed != 1 {
		t.Errorf("exit %d after %d helpers were killed: %q", got.code, killed, got.err)
	}
	b.awaitClean(t, 5*time.Minute)
	if left := b.sessionDirs(t, "n1"); left != "" {
		t.Errorf("left are %s", left)
	}
}

// Where /tmp cannot be written, or is full, the session directory is elsewhere (PMIX-51).
func TestSessionDirectoryElsewhere(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	const there = "/run/field/hello.openmpi" // where this repository is may be below the /tmp that goes
	b.runOn(t, "n1", "cp", hello, there)
	kept := b.runMpiexec(t, "--keep-session", "-hosts", "n1:2", "-n", "2", hello)
	if left := b.sessionDirs(t, "n1"); kept.code != 0 || left == "" || kept.err != "mpiexec: Open MPI's session directory was not removed: n1:"+left+"\n" {
		t.Errorf("with --keep-session: exit %d, %q; left are %q", kept.code, kept.err, left)
	}
	b.runOn(t, "n1", "sh", "-c", "rm -r /tmp/rs-*-*")
	for _, how := range []string{
		"mount -t tmpfs -o size=4k,mode=1777 none /tmp && (dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || true)",
		"mount -t tmpfs -o ro none /tmp",
	} {
		b.runOn(t, "n1", "sh", "-c", how)
		r := b.runMpiexec(t, "-hosts", "n1:2", "-wdir", "/", "-n", "2", "sh", "-c", `echo "$PMIX_SERVER_TMPDIR"; exec "$0"`, there)
		if r.code != 0 || strings.Count(r.out, "/var/tmp/rs-") != 2 || r.err != "" {
			t.Errorf("%s: exit %d, %q, %q", how, r.code, r.out, r.err)
		}
		if left := b.sessionDirs(t, "n1"); left != "" {
			t.Errorf("left are %s", left)
		}
	}
}

// An abort among children ends all, with their code, and names who did it.
func TestAbortOfASpawnedOpenMPI(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	r := b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:4", "-n", "2", mpiProgram(t, "spawn.openmpi"), "abort", "7"})...)
	if r.code != 7 || !strings.Contains(r.err, "rank 1:1 on n1 called MPI_Abort with code 7") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
