//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// held is a script whose ranks, one on each of two hosts, wait for a file.
func (s *sgeBed) held(t *testing.T, file string, options string) (j *sgeJob, near, far string) {
	t.Helper()
	j = s.batch(t, "$MPIEXEC -n 2 -ppn 1 "+options+" sh -c 'echo =$(hostname)-ready=; while [ ! -e "+file+" ]; do sleep 0.2; done; echo =went on='; echo =$?=", "-pe", "mpi", "2")
	j.await(t, "-ready=", 2)
	near = s.hostOf(t, second("-n"))
	for _, h := range s.hosts() {
		if h != near && strings.Contains(j.text(), "="+h+"-ready=") {
			far = h
		}
	}
	if far == "" {
		t.Fatalf("%s is alone:\n%s", near, j.text())
	}
	return j, near, far
}

// let creates a file that ranks wait for.
func (s *sgeBed) let(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// qmod -sj stops what is on the script's host, mpiexec among it, by SIGSTOP, of which nobody can be told; -usj lets it go on: nothing was lost
// meanwhile, and no host was given up.
func sgeSuspended(t *testing.T, s *sgeBed) {
	j, near, _ := s.held(t, "held", "--timeout 3000")
	s.qmod(t, "-sj", j.id)
	launcher := func() (state byte) {
		for _, p := range s.processes(t, near) {
			if second("-n")(p.Args) {
				stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "stat"))
				if _, after, is := strings.Cut(string(stat), ") "); is && after != "" {
					state = after[0]
				}
			}
		}
		return state
	}
	if !poll(minutes, func() bool { return launcher() == 'T' }) {
		t.Fatalf("mpiexec is %q, not stopped:\n%s", launcher(), j.text())
	}
	s.let(t, "held")
	s.qmod(t, "-usj", j.id)
	j.await(t, "=went on=", 2)
	j.await(t, "=0=", 1)
	if out := j.wait(t); strings.Contains(out, "mpiexec: ") {
		t.Error(out)
	}
}

func (s *sgeBed) qmod(t *testing.T, args ...string) {
	t.Helper()
	if out, errs, code := s.call(t, "qmod", args...); code != 0 {
		t.Fatalf("qmod %q: %s%s", args, out, errs)
	}
}

// A job goes on while the master answers nobody, and ends as ever.
func sgeMasterStopped(t *testing.T, s *sgeBed) {
	j, _, _ := s.held(t, "mastered", "")
	masters := s.masters(t)
	for _, pid := range masters {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	defer func() {
		for _, pid := range masters {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	s.let(t, "mastered")
	j.await(t, "=went on=", 2)
	j.await(t, "=0=", 1)
	for _, pid := range masters {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	if out := j.wait(t); strings.Contains(out, "mpiexec: ") {
		t.Error(out)
	}
}

// masters are the processes of this field's sge_qmaster.
func (s *sgeBed) masters(t *testing.T) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.State, "sge/spool/qmaster/qmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return []int{pid}
}

// A host whose cable is cut is lost, by silence, since Grid Engine goes on to call the job running; when it is there again nothing
// of the job stays on it (RM-40). That takes the time of the silence.
func sgeUnplugged(t *testing.T, s *sgeBed) {
	if os.Getenv("E2E_LONG") == "" {
		t.Skip("45 s of silence: with E2E_LONG=1")
	}
	j, _, far := s.held(t, "never", "")
	if err := s.Link(far, false); err != nil {
		t.Fatal(err)
	}
	j.await(t, "=125=", 1)
	out := j.text()
	if want := "lost contact with " + far + " (silent for "; strings.Count(out, "mpiexec: ") != 1 || !strings.Contains(out, want) || !strings.Contains(out, "; sge says the job runs)") {
		t.Errorf("%s\nwant %s", out, want)
	}
	if err := s.Link(far, true); err != nil {
		t.Fatal(err)
	}
	j.wait(t)
}
