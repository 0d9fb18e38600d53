//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// slurmOne is one step for the helpers of all hosts, which call back (RM-37).
func slurmOne(t *testing.T, s *slurmCluster) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *slurmCluster)
	}{
		{"Step", slurmOneStep},
		{"Faults", slurmOneFaults},
		{"Stranger", slurmOneUnauthenticated},
		{"Unable", slurmOneUnable},
		{"Cancel", slurmOneCancel},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			s.awaitClean(t, slurmTimeout)
		})
	}
}

// For Slurm it is one step, and its daemon is above all ranks, which find each other as ever. Nobody sees a secret, and
// no port is open any more when all have called.
func slurmOneStep(t *testing.T, s *slurmCluster) {
	hello := bundledProgram(t, "pmihello")
	// A host that does not have the program is reached by itself, and has it then.
	if r := s.salloc(t, []string{"-N3", "-n3", "-w", "n1,n2,n3"}, binary, "-launcher", "slurm-one", "hostname").wait(t); r.code != 0 || countEqualLines(r.out) != "n1:1 n2:1 n3:1" {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	r := s.salloc(t, []string{"-N3", "-n4", "-w", "n1,n2,n3"}, binary, "-v", "-launcher", "slurm-one", "sh", "-c",
		hello+`; ps -o comm= $(ps -o ppid= $(ps -o ppid= $PPID)); echo ready; read gone; exec sleep 1000`)
	r.awaitOut(t, "ready", 4)
	for text, want := range map[string]int{"got 4 cards": 4, "slurmstepd": 4} {
		if n := strings.Count(r.out.String(), text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, r.out.String())
		}
	}
	steps, _, _ := s.runOnHead(t, "squeue", "-h", "-s", "-o", "%i %N")
	if want := regexp.MustCompile(`^\s*\d+\.0 n\[1-3\]\s*$`); !want.MatchString(steps) {
		t.Errorf("the steps of the job are %q, want one of n[1-3]", steps)
	}
	secret := regexp.MustCompile(`[0-9a-f]{64}`)
	for _, h := range []string{"n1", "n2", "n3"} {
		for _, p := range s.processes(t, h) {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
			if secret.MatchString(strings.Join(p.Args, " ")) || secret.Match(environ) {
				t.Errorf("%s: ps shows %q, %q", h, p.Args, environ)
			}
		}
	}
	port := regexp.MustCompile(`listening on port (\d+) until`).FindStringSubmatch(r.err.String())
	if port == nil {
		t.Fatalf("it is not told that a port was open: %s", r.err.String())
	}
	if open, _, _ := s.runOnHead(t, "ss", "-Hltn", "sport = :"+port[1]); open != "" {
		t.Errorf("the port is still open: %s", open)
	}
	s.terminate(t, r)
}

// What is killed is told once, by its own words, and nothing stays behind.
func slurmOneFaults(t *testing.T, s *slurmCluster) {
	s.runFaults(t, []slurmFault{
		{"srun", srunTo("n1,n2"), testbed.Head, " (srun: killed by signal 9)"},
		{"helper", isHelperArgs, "n2", "lost contact with n2"},
		{"reaper", isReaperArgs, "n2", " n2 "},
	}, "-launcher", "slurm-one")
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, append([]string{binary, "-launcher", "slurm-one"}, waitingProgram...)...)
	r.awaitOut(t, "ready", 2)
	for _, pid := range s.launchers() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	r.wait(t)
}

// heldStep is a salloc whose srun waits for the file go in the folder that is returned: by then mpiexec's port is open.
func (s *slurmCluster) heldStep(t *testing.T, words ...string) (r *runningJob, port, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "held-")
	if err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\ncase $* in *--help*) ;; *) while [ ! -e " + dir + "/go ]; do sleep 0.1; done;; esac\nexec /usr/bin/srun \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	r = s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, append([]string{"env", "PATH=" + dir + ":" + os.Getenv("PATH"), binary, "-v", "-launcher", "slurm-one"}, words...)...)
	listening := regexp.MustCompile(`listening on port (\d+) until`)
	if !poll(slurmTimeout, func() bool { return listening.MatchString(r.err.String()) }) {
		t.Fatalf("no port is told of: %s", r.err.String())
	}
	return r, listening.FindStringSubmatch(r.err.String())[1], dir
}

// releaseStep lets the srun of a heldStep go on.
func releaseStep(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A stranger who calls before all others, and one who says nothing at all, keep nobody out.
func slurmOneUnauthenticated(t *testing.T, s *slurmCluster) {
	r, port, dir := s.heldStep(t, "hostname")
	const call = `exec 3<>/dev/tcp/head/$0; echo GET / >&3; cat <&3 >/dev/null`
	if out, err := s.On(t.Context(), "n4", "bash", "-c", call, port).CombinedOutput(); err != nil {
		t.Logf("the stranger: %v: %s", err, out) // who is shown out may be told so by its kernel
	}
	silent := s.On(t.Context(), "n4", "bash", "-c", "exec 3<>/dev/tcp/head/$0; exec cat <&3 >/dev/null", port)
	if err := silent.Start(); err != nil {
		t.Fatal(err)
	}
	releaseStep(t, dir)
	res := r.wait(t)
	if res.code != 0 || countEqualLines(res.out) != "n1:1 n2:1" || strings.Count(res.err, "mpiexec: warning: refused a connection from ") != 1 ||
		!strings.Contains(res.err, ": the connection does not use the protocol of mpiexec") {
		t.Errorf("exit %d: %s%s", res.code, res.out, res.err)
	}
	silent.Wait() // it is shown out when the port is closed
}

// A host that cannot connect to us fails the job, and is told with the way out.
func slurmOneUnable(t *testing.T, s *slurmCluster) {
	r, port, dir := s.heldStep(t, "hostname")
	rules := "add table ip one\nadd chain ip one out { type filter hook output priority 0; }\nadd rule ip one out tcp dport " + port + " reject with tcp reset\n"
	cmd := s.On(t.Context(), "n2", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer s.runOn(t, "n2", "nft", "delete", "table", "ip", "one")
	releaseStep(t, dir)
	res := r.wait(t)
	for _, want := range []string{"n2: helper: cannot connect to this host on port " + port + " (", ": connection refused)", "slurm-each"} {
		if res.code != 125 || res.out != "" || !strings.Contains(res.err, want) {
			t.Errorf("exit %d: %s%s\nwant 125 and %s", res.code, res.out, res.err, want)
		}
	}
}

// Slurm ends its job: ranks are told once, and what they say then is not lost. Whoever cancels the step has lost its hosts
// (RM-42).
func slurmOneCancel(t *testing.T, s *slurmCluster) {
	for _, test := range []struct {
		what  string
		marks map[string]int
	}{
		{"", map[string]int{"=0-TERM=": 1, "=1-TERM=": 1, "lost contact": 0, "mpiexec: Slurm ends job ": 1, "exit code 143": 1}},
		{".0", map[string]int{"Slurm ends job": 0, "exit code 125": 1, "mpiexec: ": 1}},
	} {
		j := s.startSignalLogger(t, "-launcher slurm-one --usage")
		s.runSlurmCommand(t, "scancel", j.id+test.what)
		j.wait(t)
		j.await(t, "  all    2 ", 1)
		out := j.text()
		for mark, want := range test.marks {
			if n := strings.Count(out, mark); n != want {
				t.Errorf("scancel %s: %q stands there %d times, want %d:\n%s", j.id+test.what, mark, n, want, out)
			}
		}
	}
}
