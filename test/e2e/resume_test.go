//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/cli/saved"
	"remshell/tools/testbed"
)

// A job whose mpiexec was killed goes on by another one, as the same job, and never do two lives of it write
// at once: also where a helper has not noticed (survive.md SV-3, SV-21, SV-23).
func TestResume(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3, SSHConfig: shortKeepAlive})
	file, kept := diaryFile(), filepath.Join(t.TempDir(), "job.json")
	v := &taggedJob{cluster: b, tag: file}
	v.runningJob = b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2", "-n", "4", "--kill-grace", "1", "--save-job", kept, "sh", "-c", diaryProgram, "sh", file}})
	v.awaitOut(t, "ready", 4)
	if r := b.runMpiexec(t, "--resume", kept); r.code != 125 || !strings.Contains(r.err, "is still running (process ID of mpiexec: ") {
		t.Errorf("resumed while it runs: exit %d\n%s", r.code, r.err)
	}
	if r := b.runMpiexec(t, "--save-job", kept, "-host", "n3", "true"); r.code != 125 || !strings.Contains(r.err, "is still running (process ID of mpiexec: ") {
		t.Errorf("another job is saved there while it runs: exit %d\n%s", r.code, r.err)
	}
	keepers := v.findOn(t, "n2", isReaperArgs)
	signalPIDs(t, syscall.SIGSTOP, "reaper on n2", keepers)
	signalPIDs(t, syscall.SIGSTOP, "helper on n2", v.findOn(t, "n2", isHelperArgs))
	signalPIDs(t, syscall.SIGKILL, "mpiexec", []int{v.cmd.Process.Pid})
	v.end()
	first := readSaved(t, kept)
	if first.State != saved.Running || first.Attempt != 0 {
		t.Errorf("it is saved as %s, attempt %d", first.State, first.Attempt)
	}
	// n3 takes the place of n2, which must be clean nevertheless.
	r := b.runMpiexec(t, "--resume", kept, "-hosts", "n1:2,n3:2", "--restart-fence", "10h")
	if r.code != 0 || !strings.Contains(r.err, "attempt 1: 4 ranks on n[1,3] (was n[1-2])") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	signalPIDs(t, syscall.SIGCONT, "reaper on n2", keepers)
	v.checkGone(t, goneTimeout)
	checkDiary(t, b.readDiary(t, file), "n1 n3")
	second := readSaved(t, kept)
	if second.ID != first.ID || second.State != saved.Ended || second.Attempt != 1 || len(second.History) != 2 {
		t.Errorf("it is saved as %s of %s, attempt %d; and was %s", second.State, second.ID, second.Attempt, first.ID)
	}
}

func readSaved(t *testing.T, file string) saved.Job {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	j, err := saved.Decode(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
