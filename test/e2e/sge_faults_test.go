//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever is killed between mpiexec and a rank, one cause is told, if anybody is left to tell it,
// and nothing stays behind (9.3; what TestSGE looks for after each of its parts). Grid Engine kills a
// job of which it sees that a task was killed, and may be faster than what mpiexec says of it.
func sgeFaults(t *testing.T, s *sgeCluster) {
	for _, test := range []struct {
		name string
		hit  func(args []string) bool
		far  bool // on the other host than the script's
		want string
	}{
		{"qrsh", isProgram("qrsh"), false, "(qrsh: killed by signal 9)"},
		{"shepherd", isProgram("sge_shepherd"), true, "lost contact with n"},
		{"helper", isHelperArgs, true, "lost contact with n"},
		{"reaper", isReaperArgs, true, " n"},
		{"mpiexec", func(args []string) bool {
			return strings.HasSuffix(args[0], "/mpiexec") && len(args) > 1 && args[1] == "-n"
		}, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := s.submitScript(t, "$MPIEXEC -n 2 -vv -ppn 1 sh -c 'echo =$(hostname)-ready=; while :; do sleep 1; done'; echo =$?=", "-pe", "mpi", "2")
			j.await(t, "-ready=", 2)
			near := s.hostOf(t, secondArgIs("-n"))
			for _, h := range s.hosts() {
				if strings.Contains(j.text(), "="+h+"-ready=") && (h != near) == test.far {
					s.killOn(t, h, test.hit)
				}
			}
			out := j.wait(t)
			if test.want == "" {
				return // nobody is left to tell
			}
			told := strings.Count(out, "mpiexec: ")
			if told == 1 && strings.Contains(out, test.want) && (strings.Contains(out, "=125=") || j.killed()) || told == 0 && j.killed() {
				return
			}
			t.Errorf("%s\nwant 125, %s", out, test.want)
		})
	}
}

// killed reports whether Grid Engine has killed the job because one of its tasks was killed.
func (j *sgeJob) killed() bool {
	said, _ := os.ReadFile(filepath.Join(j.cluster.State, "sge/spool/qmaster/messages"))
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "tightly integrated parallel task ") && strings.Contains(line, j.id+".1") {
			return true
		}
	}
	return false
}

// isProgram knows a program by the last part of its name.
func isProgram(name string) func(args []string) bool {
	return func(args []string) bool {
		return strings.HasSuffix("/"+args[0], "/"+name) || strings.HasPrefix(args[0], name+"-")
	}
}

// hostOf finds the host on which a process runs.
func (s *sgeCluster) hostOf(t *testing.T, is func(args []string) bool) string {
	t.Helper()
	for _, h := range s.hosts() {
		for _, p := range s.processes(t, h) {
			if is(p.Args) {
				return h
			}
		}
	}
	t.Fatal("it runs nowhere")
	return ""
}

// killOn kills those processes of a host whose arguments hit likes.
func (s *sgeCluster) killOn(t *testing.T, host string, hit func(args []string) bool) {
	t.Helper()
	some := false
	for _, p := range s.processes(t, host) {
		if len(p.Args) > 0 && hit(p.Args) {
			syscall.Kill(p.PID, syscall.SIGKILL)
			some = true
		}
	}
	if !some {
		t.Fatalf("nothing to kill on %s: %v", host, s.processes(t, host))
	}
}

// A job goes on without the daemon of a host, and without the master.
func sgeDaemonsGone(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, "$MPIEXEC -n 2 -ppn 1 sh -c 'echo =ready=; while [ ! -e go ]; do sleep 1; done; echo =went on='; echo =$?=", "-pe", "mpi", "2")
	j.await(t, "=ready=", 2)
	killed := ""
	for _, h := range s.hosts() {
		if h != s.hostOf(t, secondArgIs("-n")) && len(s.processes(t, h)) > 0 {
			killed = h
		}
	}
	s.runOn(t, killed, "pkill", "-KILL", "-x", "sge_execd") // of that host's PID namespace alone
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.await(t, "=went on=", 2)
	j.await(t, "=0=", 1)
	if err := s.StartExecd(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	j.wait(t)
}

// Launches in a row in one job find the slots free again.
func sgeInARow(t *testing.T, s *sgeCluster) {
	j := s.submitScript(t, "i=0; while [ $i -lt 20 ] && $MPIEXEC -n 2 -ppn 1 true; do i=$((i+1)); done; echo =$i=", "-pe", "mpi", "2")
	if out := j.wait(t); out != "=20=\n" {
		t.Error(out)
	}
}
