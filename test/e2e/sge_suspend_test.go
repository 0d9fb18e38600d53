//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startHeld is a script whose ranks, one on each of two hosts, wait for a file.
func (s *sgeCluster) startHeld(t *testing.T, file string, options string) (j *sgeJob, near, far string) {
	t.Helper()
	j = s.submitScript(t, "$MPIEXEC -n 2 -ppn 1 "+options+" sh -c 'echo =$(hostname)-ready=; while [ ! -e "+file+" ]; do sleep 0.2; done; echo =went on='; echo =$?=", "-pe", "mpi", "2")
	j.await(t, "-ready=", 2)
	near = s.hostOf(t, secondArgIs("-n"))
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

// releaseRanks creates a file that ranks wait for.
func (s *sgeCluster) releaseRanks(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// qmod -sj stops what is on the script's host, mpiexec among it, by SIGSTOP, of which nobody can be told; -usj lets it go on: nothing was lost
// meanwhile, and no host was given up.
func sgeSuspended(t *testing.T, s *sgeCluster) {
	j, near, _ := s.startHeld(t, "held", "--timeout 3000")
	s.qmod(t, "-sj", j.id)
	launcher := func() (state byte) {
		for _, p := range s.processes(t, near) {
			if secondArgIs("-n")(p.Args) {
				stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "stat"))
				if _, after, is := strings.Cut(string(stat), ") "); is && after != "" {
					state = after[0]
				}
			}
		}
		return state
	}
	if !poll(slurmTimeout, func() bool { return launcher() == 'T' }) {
		t.Fatalf("mpiexec is %q, not stopped:\n%s", launcher(), j.text())
	}
	s.releaseRanks(t, "held")
	s.qmod(t, "-usj", j.id)
	j.await(t, "=went on=", 2)
	j.await(t, "=0=", 1)
	if out := j.wait(t); strings.Contains(out, "mpiexec: ") {
		t.Error(out)
	}
}

func (s *sgeCluster) qmod(t *testing.T, args ...string) {
	t.Helper()
	if out, errs, code := s.runOnHead(t, "qmod", args...); code != 0 {
		t.Fatalf("qmod %q: %s%s", args, out, errs)
	}
}

// A job goes on while the master answers nobody, and ends as ever.
func sgeMasterStopped(t *testing.T, s *sgeCluster) {
	j, _, _ := s.startHeld(t, "mastered", "")
	masters := s.masters(t)
	for _, pid := range masters {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	defer func() {
		for _, pid := range masters {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}()
	s.releaseRanks(t, "mastered")
	j.await(t, "=went on=", 2)
	j.await(t, "=0=", 1)
	for _, pid := range masters {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	if out := j.wait(t); strings.Contains(out, "mpiexec: ") {
		t.Error(out)
	}
}

// masters returns the processes of this cluster's sge_qmaster.
func (s *sgeCluster) masters(t *testing.T) (pids []int) {
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
// of the job stays on it (RM-40). That takes the time of the silence, which is that after which the kernel gives up the helper's
// connection: either may be first.
func sgeLinkCut(t *testing.T, s *sgeCluster) {
	if os.Getenv("E2E_LONG") == "" {
		t.Skip("45 s of silence: with E2E_LONG=1")
	}
	j, _, far := s.startHeld(t, "never", "")
	if err := s.SetLink(far, false); err != nil {
		t.Fatal(err)
	}
	j.await(t, "=125=", 1)
	out := j.text()
	if want := regexp.MustCompile("lost contact with " + far + ` \((no message for .*, although Grid Engine reports that the job runs|.*: connection timed out)\)`); strings.Count(out, "mpiexec: ") != 1 || !want.MatchString(out) {
		t.Errorf("%s\nwant %s", out, want)
	}
	if err := s.SetLink(far, true); err != nil {
		t.Fatal(err)
	}
	j.wait(t)
}

// The helpers of other hosts call mpiexec: it listens on a port until they have, and nobody sees a secret (RM-36).
func sgeCalled(t *testing.T, s *sgeCluster) {
	j, near, far := s.startHeld(t, "called", "-v")
	port := regexp.MustCompile(`listening on port (\d+) until the helpers of ` + far + ` have connected`).FindStringSubmatch(j.text())
	if port == nil {
		t.Fatalf("it is not told that a port was open for %s:\n%s", far, j.text())
	}
	if open := s.runOn(t, near, "ss", "-Hltn", "sport = :"+port[1]); open != "" {
		t.Errorf("the port is still open: %s", open)
	}
	secret := regexp.MustCompile(`[0-9a-f]{64}`)
	for _, h := range []string{near, far} {
		if call := s.runOn(t, h, "ss", "-Htn", "state", "established", "( sport = :"+port[1]+" or dport = :"+port[1]+" )"); call == "" {
			t.Errorf("%s has no connection by port %s", h, port[1])
		}
		for _, p := range s.processes(t, h) {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
			if secret.MatchString(strings.Join(p.Args, " ")) || secret.Match(environ) {
				t.Errorf("%s: ps shows %q, %q", h, p.Args, environ)
			}
		}
	}
	s.releaseRanks(t, "called")
	if out := j.wait(t); strings.Count(out, "=went on=") != 2 || !strings.Contains(out, "=0=") {
		t.Error(out)
	}
}

// Where a firewall is in the way of a call the streams go through qrsh, which is told once; nobody listens where nobody wants it.
func sgeUnable(t *testing.T, s *sgeCluster) {
	const rules = "add table ip back\nadd chain ip back out { type filter hook output priority 0; }\nadd rule ip back out tcp dport 20112 reject with tcp reset\n"
	for _, h := range s.hosts() {
		cmd := s.On(t.Context(), h, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		defer s.runOn(t, h, "nft", "delete", "table", "ip", "back")
	}
	out := s.submitScript(t, "$MPIEXEC --port-range 20112:20112 hostname; echo =$?=\n$MPIEXEC -launcher sge-streams -v hostname; echo =$?=", "-pe", "mpi", "4").wait(t)
	for text, want := range map[string]int{"=0=": 2, "cannot connect to this host on port 20112 (": 1, ": connection refused): its data goes through qrsh; ": 1, "listening": 0, "warning": 1} {
		if n := strings.Count(out, text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, out)
		}
	}
	for _, h := range s.hosts() {
		if n := countLines(out, h); n != 2 {
			t.Errorf("%d ranks on %s, want 2:\n%s", n, h, out)
		}
	}
}
