//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"remshell/tools/testbed"
)

// Nothing is reported of programs that go on, although they write and read nothing for long: --hang looks at each of them several
// times. HEALTHY_RUNS is how many runs there are, at least one of each program, and HEALTHY_LANES how many at a time.
func TestHealthyRunsWithoutAlarm(t *testing.T) {
	t.Parallel()
	lanes := max(intVariable(t, "HEALTHY_LANES", 1), 1)
	b := newTestCluster(t, testbed.Options{Hosts: 2 * lanes})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "healthy-") // the hosts see it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	commands := healthyPrograms(t, dir)
	runs := max(intVariable(t, "HEALTHY_RUNS", 0), len(commands))
	var done, looks, alarms atomic.Int64
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				for i := lane; i < runs; i += lanes {
					command := commands[i%len(commands)]
					hosts := fmt.Sprintf("n%d:3", 2*lane+1)
					if i/len(commands)%2 == 1 && !strings.HasSuffix(command[0], ".mpich") { // MPI_Finalize of MPICH 4.0 hangs over hosts
						hosts = fmt.Sprintf("n%d:2,n%d:1", 2*lane+1, 2*lane+2)
					}
					r := b.runMpiexec(t, append([]string{"-host", hosts, "-n", "3", "-v", "--hang=2"}, command...)...)
					looks.Add(int64(strings.Count(r.err, "INF no progress for ")))
					if n := done.Add(1); n%100 == 0 {
						fmt.Printf("%d runs\n", n)
					}
					if r.code != 0 || strings.Contains(r.err, "mpiexec: no progress for ") {
						alarms.Add(1)
						t.Errorf("%s: %s: exit %d\n%s", hosts, strings.Join(command, " "), r.code, r.err)
					}
				}
			})
		}
	})
	if looks.Load() < int64(runs/2) {
		t.Errorf("only %d looks at %d runs", looks.Load(), runs)
	}
	fmt.Printf("%d alarms in %d healthy runs, which were looked at %d times\n", alarms.Load(), runs, looks.Load())
}

// healthyPrograms returns command lines of programs that go on for five seconds. It builds those that use MPI in dir.
func healthyPrograms(t *testing.T, dir string) [][]string {
	t.Helper()
	commands := [][]string{{"sleep", "5"}, {"sh", "-c", "sleep 5; true"}, {"sh", "-c", "x=$(sleep 5); true"}, {"sh", "-c", "sleep 5 & wait"}, {"sh", "-c", "timeout 5 sh -c 'while :; do :; done'; true"}}
	const python = "/usr/bin/python3" // not a link to a home, which the hosts do not have
	for _, code := range []string{
		"t = threading.Thread(target=time.sleep, args=(5,)); t.start(); t.join()",
		"asyncio.run(asyncio.to_thread(time.sleep, 5))",
		"fd, to = os.pipe(); threading.Timer(5, lambda: os.write(to, b'x')).start(); os.read(fd, 1)",
		"signal.signal(signal.SIGALRM, lambda *_: 0); signal.alarm(5); signal.pause()",
		"a, b = socket.socketpair(); threading.Timer(5, lambda: b.send(b'x')).start(); t = threading.Thread(target=lambda: a.recv(1)); t.start(); t.join()",
	} {
		if _, err := os.Stat(python); err == nil {
			commands = append(commands, []string{python, "-c", "import asyncio, os, signal, socket, threading, time; " + code})
		}
	}
	for _, library := range []string{"mpich", "openmpi"} {
		compiler, err := exec.LookPath("mpicc." + library)
		if err != nil {
			t.Logf("no mpicc.%s", library)
			continue
		}
		program := filepath.Join(dir, "healthy."+library)
		if text, err := exec.Command(compiler, "-O2", "-pthread", "-o", program, filepath.Join(repoRoot, "testdata/mpi/healthy.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, how := range []string{"serial", "sleeps", "polls", "spins", "bcast", "steps", "pings", "equals", "threads", "joins", "master"} {
			commands = append(commands, []string{program, how, "5"})
		}
	}
	return commands
}
