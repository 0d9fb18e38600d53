//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// A condorCluster is a test cluster whose hosts are those of a real HTCondor pool.
type condorCluster struct {
	*testCluster
	dir string // testbed.CondorJobs, as the test sees it
}

// TestHTCondor runs all that needs a real HTCondor, on one: as root, where testdata/condor.sh has unpacked it.
func TestHTCondor(t *testing.T) {
	t.Parallel()
	requireNamespaces(t)
	if err := testbed.NoCondor(); err != nil {
		t.Skip(err)
	}
	s := newCondorCluster(t, 2)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *condorCluster)
	}{
		{"Vanilla", condorVanilla},
		{"Parallel", condorParallel},
		{"Manual", condorManual},
		{"Removed", condorRemoved},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			s.awaitClean(t, slurmTimeout)
		})
	}
}

// newCondorCluster brings up a test cluster with HTCondor. It copies mpiexec and the files that MPI programs need to a
// folder that jobs see.
func newCondorCluster(t *testing.T, hosts int) *condorCluster {
	t.Helper()
	b := newTestCluster(t, testbed.Options{Hosts: hosts, Condor: true})
	s := &condorCluster{testCluster: b, dir: filepath.Join(b.State, "condor/jobs")}
	library := "libmpich.so.12"
	for name, from := range map[string]string{"mpiexec": binary, library: filepath.Join(libraries(t), library)} {
		if err := copyProgram(from, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// condorEnviron is what a job finds mpiexec and the library by. In the parallel universe HTCondor puts its BIN before PATH.
const condorEnviron = `environment = "PATH=` + testbed.CondorJobs + `:/usr/bin:/bin LD_LIBRARY_PATH=` + testbed.CondorJobs + `"`

// asUser runs a program on the head as testbed.CondorUser, in the folder of the jobs.
func (s *condorCluster) asUser(t *testing.T, words ...string) result {
	t.Helper()
	words = append([]string{"sh", "-c", `cd "$0" && exec "$@"`, testbed.CondorJobs}, words...)
	return s.startCommand(t, mpiexecCall{uid: testbed.CondorUID, env: []string{"HOME=" + testbed.CondorDir + "/home", "USER=" + testbed.CondorUser}, timeout: slurmTimeout}, words).wait(t)
}

// A condorJob was handed in with condor_submit.
type condorJob struct {
	cluster *condorCluster
	number  string
	name    string // what its files in the folder of the jobs begin with
}

// script hands in a script for bash; more lines describe the job, as condor_submit reads them.
func (s *condorCluster) script(t *testing.T, universe, script string, more ...string) *condorJob {
	t.Helper()
	name := strings.NewReplacer("/", "-").Replace(t.Name())
	node := map[string]string{"parallel": "$(Node)", "vanilla": "0"}[universe]
	lines := append(more, "universe = "+universe, "executable = NAME.sh", "should_transfer_files = YES", "when_to_transfer_output = ON_EXIT",
		"output = NAME.out."+node, "error = NAME.err."+node, "log = NAME.log", "queue")
	for suffix, text := range map[string]string{".sh": "#!/bin/bash\n" + script + "\n", ".sub": strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "NAME", name)} {
		if err := os.WriteFile(filepath.Join(s.dir, name+suffix), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s.submit(t, name)
}

// submit submits the jobs that a file describes. At the end of the test they are removed if they still run.
func (s *condorCluster) submit(t *testing.T, name string) *condorJob {
	t.Helper()
	r := s.asUser(t, "condor_submit", "-terse", "-append", condorEnviron, "-append", "request_memory = 10", name+".sub")
	number, _, ok := strings.Cut(r.out, " ")
	if r.code != 0 || !ok {
		t.Fatalf("condor_submit: exit %d: %s%s", r.code, r.out, r.err)
	}
	t.Cleanup(func() { s.asUser(t, "condor_rm", number) })
	return &condorJob{s, number, name}
}

// wait waits for the end of the job, and returns the output of the script on its first node.
func (j *condorJob) wait(t *testing.T) (out, errs string) {
	t.Helper()
	if r := j.cluster.asUser(t, "condor_wait", "-wait", strconv.Itoa(int(slurmTimeout.Seconds())), j.name+".log"); r.code != 0 {
		t.Fatalf("job %s is not over: %s%s%s", j.number, r.out, r.err, j.text("log"))
	}
	return j.text("out.0"), j.text("err.0")
}

// text returns the content of a file of the job.
func (j *condorJob) text(suffix string) string {
	text, _ := os.ReadFile(filepath.Join(j.cluster.dir, j.name+"."+suffix))
	return string(text)
}

// A job of the vanilla universe has one host, this one, with the CPUs of its slot: a rank for each, although
// OMP_NUM_THREADS says as many.
func condorVanilla(t *testing.T, s *condorCluster) {
	out, errs := s.script(t, "vanilla", `mpiexec -v sh -c 'echo "rank of $MPIEXEC_SIZE with $OMP_NUM_THREADS threads"'; echo "exit $?"`, "request_cpus = 2").wait(t)
	if out != strings.Repeat("rank of 2 with 2 threads\n", 2)+"exit 0\n" || !strings.Contains(errs, ", 1 host, 2 tasks, 2 CPUs, starter fork (tight)\n") {
		t.Errorf("%s%s", out, errs)
	}
}

// parallelPrologue is the beginning of a script of the parallel universe.
const parallelPrologue = `. "$(condor_config_val LIBEXEC)/sshd.sh" $_CONDOR_PROCNO $_CONDOR_NPROCS
if [ $_CONDOR_PROCNO != 0 ]; then wait; exit; fi
`

// In the parallel universe ranks run on all hosts of the job, each in the folder that HTCondor has made for the job there,
// whether the batch system or the user names the hosts. The user's known hosts stay as they are.
func condorParallel(t *testing.T, s *condorCluster) {
	out, errs := s.script(t, "parallel", parallelPrologue+`mpiexec -ppn 1 sh -c 'test -e .job.ad && test "$PWD" = "$_CONDOR_SCRATCH_DIR" && test -d "$TMPDIR" && test -e "$0" && echo "at home"' $_CONDOR_SCRATCH_DIR/.machine.ad
mpiexec sh -c 'echo "rank of $MPIEXEC_SIZE"'
there=$(sed -n 's/^1 \([^ ]*\) .*/\1/p' contact)
mpiexec -host $there -n 1 sh -c 'echo "$PWD" on $(hostname)' | sed "s:^$(sed -n 's/^1 .* \(\/[^ ]*\) .*/\1/p' contact) on $there\$:by name:"
test -e ~/.ssh || echo "no known hosts"
sshd_cleanup`, "request_cpus = 2", "machine_count = 2").wait(t)
	if want := strings.Repeat("at home\n", 2) + strings.Repeat("rank of 4\n", 4) + "by name\nno known hosts\n"; out != want || errs != "" {
		t.Errorf("%s%swant %s", out, errs, want)
	}
}

// The guide's script runs as it stands there.
func condorManual(t *testing.T, s *condorCluster) {
	jobScript(t, "condor", s.dir)
	writeJobBox(t, "condor", filepath.Join(s.dir, "job.sh"))
	writeJobBox(t, "condor.sub", filepath.Join(s.dir, "job.sub"))
	out, errs := s.submit(t, "job").wait(t)
	checkScriptOutput(t, out+errs, "ssh")
}

// A job that is removed leaves nothing behind on any host.
func condorRemoved(t *testing.T, s *condorCluster) {
	j := s.script(t, "parallel", parallelPrologue+`mpiexec -ppn 1 sh -c 'touch `+testbed.CondorJobs+`/runs.$MPIEXEC_RANK; exec sleep 600'`, "request_cpus = 2", "machine_count = 2")
	runs := func() bool {
		found, _ := filepath.Glob(filepath.Join(s.dir, "runs.*"))
		return len(found) == 2
	}
	if !poll(slurmTimeout, runs) {
		t.Fatalf("it does not run: %s%s", j.text("err.0"), j.text("log"))
	}
	if r := s.asUser(t, "condor_rm", j.number); r.code != 0 {
		t.Fatal(r.err)
	}
	j.wait(t)
}
