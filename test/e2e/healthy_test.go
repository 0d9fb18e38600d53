//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// Nothing is reported of programs that go on, although they write and read nothing for long: --hang looks at each of them several
// times. HEALTHY_RUNS is how many runs there are, at least one of each program.
func TestHealthyRunsWithoutAlarm(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "healthy-") // the host sees it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	commands := [][]string{{"sleep", "5"}, {"sh", "-c", "sleep 5; true"}, {"sh", "-c", "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done"}}
	for _, library := range []string{"mpich", "openmpi"} {
		compiler, err := exec.LookPath("mpicc." + library)
		if err != nil {
			t.Logf("no mpicc.%s", library)
			continue
		}
		program := filepath.Join(dir, "healthy."+library)
		if text, err := exec.Command(compiler, "-O2", "-o", program, filepath.Join(repoRoot, "testdata/mpi/healthy.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, how := range []string{"serial", "sleeps", "spins", "bcast", "steps", "pings", "master"} {
			commands = append(commands, []string{program, how, "5"})
		}
	}
	runs, _ := strconv.Atoi(os.Getenv("HEALTHY_RUNS"))
	runs = max(runs, len(commands))
	looks, alarms := 0, 0
	for i := range runs {
		command := commands[i%len(commands)]
		r := b.runMpiexec(t, append([]string{"-host", "n1:3", "-n", "3", "-v", "--hang=2"}, command...)...)
		looks += strings.Count(r.err, "INF no progress for ")
		if r.code != 0 || strings.Contains(r.err, "mpiexec: no progress for ") {
			alarms++
			t.Errorf("%s: exit %d\n%s", strings.Join(command, " "), r.code, r.err)
		}
	}
	if looks < runs/2 {
		t.Errorf("only %d looks at %d runs", looks, runs)
	}
	fmt.Printf("%d alarms in %d healthy runs, which were looked at %d times\n", alarms, runs, looks)
}
