//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A sgeCluster is a test cluster whose hosts are those of a real Grid Engine.
type sgeCluster struct {
	*testCluster
	dir     string // seen on all hosts by this name; what jobs write goes there
	mpiexec string // the program under test, there
}

// TestSGE runs all tests that need a real Grid Engine, on one cluster. It needs root and an installed Grid Engine.
func TestSGE(t *testing.T) {
	t.Parallel()
	requireNamespaces(t)
	if err := testbed.NoSGE(); err != nil {
		t.Skip(err)
	}
	s := newSGECluster(t, 4)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *sgeCluster)
	}{
		{"Batch", sgeBatch},
		{"Accounting", sgeAccounting},
		{"Script", sgeScript},
		{"Streams", sgeStreams},
		{"Called", sgeCalled},
		{"Unable", sgeUnable},
		{"Delivery", sgeDelivery},
		{"NoTasks", sgeNoTasks},
		{"ByName", sgeByName},
		{"Deleted", sgeDeleted},
		{"Notified", sgeNotified},
		{"Faults", sgeFaults},
		{"DaemonsGone", sgeDaemonsGone},
		{"InARow", sgeInARow},
		{"Suspended", sgeSuspended},
		{"MasterStopped", sgeMasterStopped},
		{"Unplugged", sgeLinkCut},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			s.awaitClean(t, slurmTimeout)
		})
	}
}

// newSGECluster brings up a test cluster with Grid Engine, and copies the program to a folder that all hosts see.
func newSGECluster(t *testing.T, hosts int) *sgeCluster {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(repoRoot, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "sge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &sgeCluster{dir: dir, mpiexec: filepath.Join(dir, "mpiexec")}
	if err := copyProgram(binary, s.mpiexec); err != nil {
		t.Fatal(err)
	}
	s.testCluster = newTestCluster(t, testbed.Options{Hosts: hosts, SGE: true})
	return s
}

// An sgeJob was handed in with qsub.
type sgeJob struct {
	cluster *sgeCluster
	id      string
	output  string // the file that its output goes to
}

// submitScript submits a shell script with these options of qsub. In it, $MPIEXEC is the program under
// test. At the end of the test the job is deleted if it still runs.
func (s *sgeCluster) submitScript(t *testing.T, script string, options ...string) *sgeJob {
	t.Helper()
	file, err := os.CreateTemp(s.dir, "job-*.sh")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(file, "#!/bin/sh\ncd %s\nMPIEXEC=%s\n%s\n", s.dir, s.mpiexec, script)
	file.Close()
	return s.submit(t, file.Name(), options...)
}

// submit submits a file with these options of qsub.
func (s *sgeCluster) submit(t *testing.T, file string, options ...string) *sgeJob {
	t.Helper()
	j := &sgeJob{cluster: s, output: file + ".out"}
	args := slices.Concat([]string{"-terse", "-j", "y", "-o", j.output}, options, []string{file})
	out, errs, code := s.runOnHead(t, "qsub", args...)
	j.id = strings.TrimSpace(out)
	if code != 0 {
		t.Fatalf("qsub %q: exit %d: %s", args, code, errs)
	}
	t.Cleanup(func() { // the context of the test is over by now
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Command(ctx, nil, "qdel", j.id).Run()
	})
	return j
}

// text returns the job's output so far.
func (j *sgeJob) text() string {
	text, _ := os.ReadFile(j.output)
	return string(text)
}

// await waits until the output contains text at least n times.
func (j *sgeJob) await(t *testing.T, text string, n int) {
	t.Helper()
	if !poll(slurmTimeout, func() bool { return strings.Count(j.text(), text) >= n }) {
		t.Fatalf("job %s: waited for %d times %q:\n%s", j.id, n, text, j.text())
	}
}

// wait waits for the end of the job, and returns its output.
func (j *sgeJob) wait(t *testing.T) (output string) {
	t.Helper()
	if !poll(5*slurmTimeout, func() bool { _, _, code := j.cluster.runOnHead(t, "qstat", "-j", j.id); return code != 0 }) {
		t.Fatalf("job %s still runs:\n%s", j.id, j.text())
	}
	return j.text()
}

// records waits until the job has n accounting records and returns them: one for the script and one for each task.
func (j *sgeJob) records(t *testing.T, n int) (records []map[string]string) {
	t.Helper()
	if !poll(slurmTimeout, func() bool {
		records = nil
		out, _, _ := j.cluster.runOnHead(t, "qacct", "-j", j.id)
		for line := range strings.Lines(out) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch {
			case strings.HasPrefix(key, "===="):
				records = append(records, map[string]string{})
			case len(records) > 0:
				records[len(records)-1][key] = strings.TrimSpace(value)
			}
		}
		return len(records) >= n
	}) {
		t.Fatalf("job %s has %d records, want %d: %v", j.id, len(records), n, records)
	}
	return records
}

// countLines returns the number of lines of text that are equal to line.
func countLines(text, line string) int {
	return strings.Count("\n"+strings.ReplaceAll(text, "\n", "\n\n"), "\n"+line+"\n")
}

// A script of qsub gets the slots it has asked for, by a task of Grid Engine's on each host but the
// script's own: all ranks descend from what Grid Engine watches.
func sgeBatch(t *testing.T, s *sgeCluster) {
	const above = `hostname; p=$$; while [ $p -gt 1 ]; do read -r _ name _ p _ </proc/$p/stat; case $name in "(sge_shepherd)") echo held;; esac; done`
	j := s.submitScript(t, "exec $MPIEXEC -v sh -c '"+above+"'", "-pe", "mpi", "8")
	out := j.wait(t)
	for _, h := range s.hosts() {
		if n := countLines(out, h); n != 2 {
			t.Errorf("%d ranks on %s, want 2:\n%s", n, h, out)
		}
	}
	if n := countLines(out, "held"); n != 8 || !strings.Contains(out, "rm: Grid Engine job "+j.id+", 4 hosts, 8 tasks, 8 CPUs, starter qrsh (tight)") {
		t.Errorf("%d ranks are held by Grid Engine, want 8:\n%s", n, out)
	}
}

// Grid Engine accounts for what all ranks consume, a record for each host, no less than mpiexec counts.
func sgeAccounting(t *testing.T, s *sgeCluster) {
	const burn = 1 // second of each rank
	j := s.submitScript(t, fmt.Sprintf(`exec $MPIEXEC --usage=lines python3 -c 'import time
while time.process_time() < %d: pass'`, burn), "-pe", "mpi", "4")
	sum, hosts := 0.0, map[string]float64{}
	for _, r := range j.records(t, 4) {
		cpu, err := strconv.ParseFloat(strings.TrimSuffix(r["cpu"], "s"), 64)
		if err != nil {
			t.Fatal(err)
		}
		hosts[r["hostname"]] += cpu
		sum += cpu
	}
	for _, h := range s.hosts() {
		if hosts[h] < burn {
			t.Errorf("%.2f s of CPU time on %s, want %d and more: %v\n%s", hosts[h], h, burn, hosts, j.text())
		}
	}
	var hours, minutes, seconds float64
	_, counted, _ := strings.Cut(j.wait(t), "resources_used.cput = ")
	if _, err := fmt.Sscanf(counted, "%f:%f:%f", &hours, &minutes, &seconds); err != nil || seconds+60*minutes < 4*burn || sum < 0.9*(seconds+60*minutes) {
		t.Errorf("Grid Engine counts %.2f s, mpiexec %v: %s", sum, err, j.text())
	}
}

// All bytes go as they are, to a rank and back, however many, over a helper's call and through qrsh; nothing of the job is on
// a command line.
func sgeStreams(t *testing.T, s *sgeCluster) {
	const size = 16 << 20
	sent := make([]byte, size)
	rand.NewChaCha8([32]byte{14}).Read(sent)
	if err := os.WriteFile(filepath.Join(s.dir, "sent"), sent, 0o644); err != nil {
		t.Fatal(err)
	}
	j := s.submitScript(t, "host=$(tail -n 1 $PE_HOSTFILE | cut -d ' ' -f 1)\nfor way in sge sge-streams; do\n$MPIEXEC -launcher $way -n 1 -host $host -s 0 cat <sent >back.$way && echo $host came back\ndone\n"+
		`exec $MPIEXEC -genv TOKEN secret-of-rank sh -c 'echo =ready=; read gone; while :; do sleep 1; done' an-argument`, "-pe", "mpi", "2")
	j.await(t, "=ready=", 2)
	for _, way := range []string{"sge", "sge-streams"} {
		back, err := os.ReadFile(filepath.Join(s.dir, "back."+way))
		if err != nil || !bytes.Equal(back, sent) || strings.Count(j.text(), "came back") != 2 {
			t.Errorf("%s: %d bytes of %d came back changed: %v %s", way, len(back), size, err, j.text())
		}
	}
	for _, h := range s.hosts() {
		for _, p := range s.processes(t, h) {
			if p.Args[0] == s.mpiexec && p.Args[1] == "-genv" {
				continue // what the user has typed
			}
			if line := strings.Join(p.Args, " "); strings.Contains(line, "secret-of-rank") || strings.Contains(line, "an-argument") && !strings.HasPrefix(line, "sh -c") {
				t.Errorf("%s: ps shows %q", h, line)
			}
		}
	}
	s.runOnHead(t, "qdel", j.id)
}

// The program itself comes through qrsh where no file system is shared.
func sgeDelivery(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, "cp $MPIEXEC /tmp/mpiexec-alone && /tmp/mpiexec-alone -v hostname; echo =$?=; rm /tmp/mpiexec-alone", "-pe", "mpi", "4")
	if out := j.wait(t); strings.Count(out, "program=sent") != 3 || strings.Count(out, "=0=") != 1 {
		t.Error(out)
	}
	for _, h := range s.hosts() {
		s.runOn(t, h, "sh", "-c", "rm -rf $HOME/.cache/remshell")
	}
}

// A parallel environment that starts no tasks for its jobs: M21.
func sgeNoTasks(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, "$MPIEXEC --retries 2 hostname; echo =$?=\nexec $MPIEXEC -launcher ssh -v hostname", "-pe", "loose", "2")
	out := j.wait(t)
	for text, want := range map[string]int{"qrsh: Grid Engine has no slot for another task": 1, "set control_slaves TRUE in the parallel environment, or use -launcher ssh": 1, "=125=": 1, "starter ssh (loose)": 1} {
		if n := strings.Count(out, text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, out)
		}
	}
}

// What is no host of the job is not reached; one host that is this one needs no starter.
func sgeByName(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, `other=$(for h in n1 n2 n3 n4; do grep -q "^$h " $PE_HOSTFILE || echo $h; done | head -n 1)
$MPIEXEC -host $other hostname; echo =$?=
$MPIEXEC -v -host $(hostname) -n 1 true
for word in sge qrsh; do $MPIEXEC -launcher $word echo =by=; done`, "-pe", "mpi", "2")
	out := j.wait(t)
	for text, want := range map[string]int{"the host is not part of Grid Engine job " + j.id + "\n  hint: add it to the allocation, or use -launcher ssh": 1, "=125=": 1, "program=inside": 1, "=by=": 4} {
		if n := strings.Count(out, text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, out)
		}
	}
}

// qdel kills: nothing is left on any host, which TestSGE looks for after each part.
func sgeDeleted(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, "exec $MPIEXEC sh -c 'echo =ready=; trap : TERM; while :; do sleep 1; done'", "-pe", "mpi", "4")
	j.await(t, "=ready=", 4)
	s.runOnHead(t, "qdel", j.id)
	j.wait(t)
}

// Before it kills, Grid Engine can tell the script (-notify), and mpiexec tells each rank.
func sgeNotified(t *testing.T, s *sgeCluster) {
	const rank = `trap "echo =told=; exit 0" USR2; echo =ready=; while :; do sleep 1; done`
	j := s.submitScript(t, "exec $MPIEXEC -n 2 -ppn 1 sh -c '"+rank+"'", "-pe", "mpi", "2", "-notify")
	j.await(t, "=ready=", 2)
	s.runOnHead(t, "qdel", j.id)
	j.await(t, "=told=", 2)
	j.wait(t)
}
