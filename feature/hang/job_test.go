//go:build linux

package hang_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "remshell/feature" // stacks are read by another one
	"remshell/feature/hang"
	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// newFIFO returns the name of a FIFO that nobody writes to.
func newFIFO(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A job whose ranks wait for each other is noticed on all nodes, explained, and ended with 124.
func TestHangEndsJob(t *testing.T) {
	fifo := newFIFO(t)
	launchtest.RecordJobs(t, "GatherStacks StackGroups Unchanged", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "exec 3<"+fifo, "a", "b")
		r.Settings = []wire.Setting{&hang.Watching{After: time.Second, Plain: true, Ends: true}}
		s.MustExit(r, job.ExitTimeout)
		told := r.Err.String()
		for _, line := range []string{"mpiexec: no progress for ", " s: all 2 ranks wait outside of MPI\n", "\n  ranks 0-1 ", " -> open "} {
			if !strings.Contains(told, line) {
				s.Errorf("no %q in\n%s", line, told)
			}
		}
	})
}

// Nothing is reported of jobs whose ranks go on by themselves, although they write and read nothing, and of jobs that are
// not watched.
func TestNoHang(t *testing.T) {
	fifo := newFIFO(t)
	const computing = "timeout 5 sh -c 'while :; do :; done' || true" // for longer than it takes to read stacks
	for name, script := range map[string]string{
		"sleeps":                "sleep 4",
		"computes":              computing,
		"one of two computes":   fmt.Sprintf("if [ $MPIEXEC_RANK = 1 ]; then read x <%[1]s; else %[2]s; echo >%[1]s; fi", fifo, computing),
		"wakes up now and then": "i=0; while [ $i -lt 20 ]; do read -t 0.2 x <>" + fifo + "; i=$((i+1)); done; true",
	} {
		t.Run(name, func(t *testing.T) {
			r := launchtest.NewRun(2, script, "a", "b")
			if strings.Contains(script, "read -t") {
				if _, err := os.Stat("/bin/bash"); err != nil {
					t.Skip("no bash")
				}
				r = launchtest.NewRun(2, "exec bash -c '"+script+"'", "a", "b")
			}
			r.Settings = []wire.Setting{&hang.Watching{After: time.Second, Plain: true}}
			launchtest.RecordJobs(t, "GatherStacks", func(s launchtest.Recording) { s.MustExit(r, 0) })
			if told := r.Err.String(); strings.Contains(told, "no progress") {
				t.Errorf("%s", told)
			}
		})
	}
}
