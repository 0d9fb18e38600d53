//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// diaryProgram is what the ranks of a job write that is started again: "ATTEMPT RANK HOST TIME", again and
// again, into a file of its host. A rank of an attempt that is not the first ends after a while.
const diaryProgram = `i=0; while [ "$MPIEXEC_ATTEMPT" = 0 ] || [ $i -lt 5 ]; do i=$((i+1))
echo "$MPIEXEC_ATTEMPT $MPIEXEC_RANK $(hostname) $(date +%s%N)" >> "$1"
[ $i -gt 1 ] || echo ready; sleep 0.1; done`

func diaryFile() string { return fmt.Sprintf("/tmp/diary-%d", time.Now().UnixNano()) }

// An entry is a line of it.
type diaryEntry struct {
	attempt, rank int
	host          string
	at            int64
}

// readDiary reads that of all hosts.
func (b *testCluster) readDiary(t *testing.T, file string) (all []diaryEntry) {
	t.Helper()
	var text []byte
	for _, host := range b.Hosts {
		part, _ := os.ReadFile(b.Root(host.Name) + file) // it may have had no rank
		text = append(text, part...)
	}
	for line := range strings.Lines(string(text)) {
		var e diaryEntry
		if n, err := fmt.Sscan(line, &e.attempt, &e.rank, &e.host, &e.at); n != 4 {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// A job that has lost a node is started again on what is left, and never do two lives of it write at
// once (survive.md SV-3, SV-4).
func TestRestart(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3, SSHConfig: shortKeepAlive})
	b.requireNamespaces(t)
	for _, test := range []struct {
		name    string
		options []string
		hit     func(t *testing.T, v *taggedJob)
		hosts   string // of attempt 1
		says    []string
	}{
		{"cut off", []string{"--restart-fence", "20"}, func(t *testing.T, v *taggedJob) {
			if err := b.SetLink("n2", false); err != nil {
				t.Fatal(err)
			}
		}, "n1 n3", []string{"starting again (1 of 1), with n2 only if no other host is free", "mpiexec waits before the restart, for at most ", "attempt 1: 4 ranks on n[1,3] (was n[1-2])"}},
		{"helper killed", []string{"--restart-fence", "10h"}, killOn("n2", isHelperArgs), "n1 n3",
			[]string{"starting again (1 of 1), with n2 only if no other host is free", "attempt 1: 4 ranks on n[1,3] (was n[1-2])"}},
		{"helper and reaper killed", []string{"--restart-fence", "10h"}, func(t *testing.T, v *taggedJob) {
			reaper := v.findOn(t, "n2", isReaperArgs)
			signalPIDs(t, syscall.SIGSTOP, "reaper", reaper)
			killOn("n2", isHelperArgs)(t, v)
			signalPIDs(t, syscall.SIGKILL, "reaper", reaper)
		}, "n1 n3", []string{"starting again (1 of 1), with n2 only if no other host is free"}},
		{"rank killed", []string{"--restart-on", "node,signal"}, func(t *testing.T, v *taggedJob) {
			pids := v.findOn(t, "n2", secondArgIs("-c"))
			signalPIDs(t, syscall.SIGKILL, "rank on n2", pids[:1])
		}, "n1 n2", []string{"died: Killed (signal 9); starting again (1 of 1)", "attempt 1: 4 ranks on n[1-2] (was n[1-2])"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := diaryFile()
			v := &taggedJob{cluster: b, tag: file}
			v.runningJob = b.startMpiexec(t, mpiexecCall{args: append(append([]string{"-hosts", "n1:2,n2:2,n3:2", "-n", "4", "--restart", "1", "--restart-delay", "1", "--kill-grace", "1"},
				test.options...), "sh", "-c", diaryProgram, "sh", file)})
			v.awaitOut(t, "ready", 4)
			test.hit(t, v)
			r := v.wait(t)
			if err := b.SetLink("n2", true); err != nil {
				t.Fatal(err)
			}
			v.checkGone(t, goneTimeout)
			if r.code != 0 {
				t.Errorf("exit %d\n%s", r.code, r.err)
			}
			for _, want := range test.says {
				if !strings.Contains(r.err, want) {
					t.Errorf("it does not say %q:\n%s", want, r.err)
				}
			}
			checkDiary(t, b.readDiary(t, file), test.hosts)
		})
	}
}

// checkDiary sees that the second attempt has four ranks on some hosts, and began when the first was over.
func checkDiary(t *testing.T, all []diaryEntry, hosts string) {
	t.Helper()
	var last, first int64
	ranks := make(map[int]bool)
	for _, e := range all {
		switch e.attempt {
		case 0:
			last = max(last, e.at)
		case 1:
			if first == 0 || e.at < first {
				first = e.at
			}
			ranks[e.rank] = true
			if !strings.Contains(hosts, e.host) {
				t.Errorf("rank %d of attempt 1 ran on %s", e.rank, e.host)
			}
		}
	}
	if len(ranks) != 4 || last >= first {
		t.Errorf("attempt 1 had ranks %v; it began %v after the last line of attempt 0", ranks, time.Duration(first-last))
	}
}

// What a job has of the hosts that live is its own between two attempts as well, and a spare host is all
// the time: it is told so, and refused to others. It goes with a mpiexec that is killed (survive.md
// SV-2, SV-7).
func TestRestartKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	file := diaryFile()
	v := &taggedJob{cluster: b, tag: file}
	v.runningJob = b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2,n3:2", "-n", "4", "--spares", "2", "--restart", "1", "--restart-on", "signal", "--restart-delay", "4m", "--kill-grace", "1",
		"sh", "-c", diaryProgram, "sh", file}})
	v.awaitOut(t, "ready", 4)
	if want := "mpiexec could reserve only 1 of 2 standby nodes\n"; !poll(goneTimeout, func() bool { return strings.Contains(v.err.String(), want) }) {
		t.Errorf("it does not say %q: %s", want, &v.err)
	}
	if r := b.runMpiexec(t, "--ps", "n1", "n2", "n3"); !strings.Contains(r.out, " n[1-3] ") || !strings.Contains(r.out, " (standby: n3) sh -c") {
		t.Errorf("its spare is not told: %s", r.out)
	}
	if r := b.runMpiexec(t, "-hosts", "n3:2", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "jobs of root have used all ") {
		t.Errorf("another job gets its spare: exit %d\n%s", r.code, r.err)
	}
	signalPIDs(t, syscall.SIGKILL, "rank on n2", v.findOn(t, "n2", secondArgIs("-c"))[:1])
	seen := ""
	b.awaitCondition(t, "a claim that rests", func() bool {
		seen = b.runMpiexec(t, "--ps", "n1", "n2", "n3").out
		return strings.Contains(seen, " n[1-3] ") && strings.Contains(seen, " (restarting) sh -c")
	}, &seen)
	if r := b.runMpiexec(t, "-hosts", "n1:2", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "jobs of root have used all ") {
		t.Errorf("another job gets its CPUs: exit %d\n%s", r.code, r.err)
	}
	signalPIDs(t, syscall.SIGKILL, "mpiexec", []int{v.cmd.Process.Pid})
	v.wait(t)
	v.checkGone(t, goneTimeout)
	if r := b.runMpiexec(t, "-hosts", "n1:2,n2:2,n3:2", "-n", "6", "true"); r.code != 0 {
		t.Errorf("something still claims its CPUs: exit %d\n%s", r.code, r.err)
	}
}

// A job that is over between two attempts ends at once, and says why.
func TestEndBetweenAttempts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, test := range []struct {
		name    string
		options []string
		hit     func(r *runningJob)
		code    int
		says    string
	}{
		{"^C in the pause", []string{"--restart-delay", "1h"}, func(r *runningJob) { r.cmd.Process.Signal(syscall.SIGINT) }, 130, "cancelled by SIGINT"},
		{"--end in the pause", []string{"--restart-delay", "1h"}, func(*runningJob) {
			for _, ask := range []struct {
				verb, says string
				code       int
			}{{"--status", "no rank of the job is running: attempt 1 has not begun yet", 0}, {"--suspend", "no rank of the job is running: attempt 1 has not begun yet; ask again then", 125},
				{"--resume-job", "; ask again then", 125}, {"--end", "the job has ended", 0}} {
				if r := b.sendControlRequest(t, ask.verb, "last", "n1"); r.code != ask.code || !strings.Contains(r.err, ask.says) {
					t.Errorf("%s: exit %d, %q", ask.verb, r.code, r.err)
				}
			}
		}, 143, "n1 says: the job was ended by root with --end"},
		{"-timeout in the pause", []string{"--restart-delay", "1h", "-timeout", "3"}, func(*runningJob) {}, 124, "the time limit of the job (-timeout 3s) passed between two attempts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := b.startMpiexec(t, mpiexecCall{args: append(append([]string{"-host", "n1", "-n", "1", "--restart", "1", "--restart-on", "code", "--json=" + filepath.Join(t.TempDir(), "events")},
				test.options...), "sh", "-c", "exit 7")})
			if !r.err.wait(t.Context(), func(all string) bool { return strings.Contains(all, "restart   1 of 1") }) {
				t.Fatal("it is not to be started again")
			}
			test.hit(r)
			if res := r.wait(t); res.code != test.code || !strings.Contains(res.err, test.says) {
				t.Errorf("exit %d, want %d and %q\n%s", res.code, test.code, test.says, res.err)
			}
		})
	}
}

// Where there is no room for another attempt, one waits for a node that comes back.
func TestRestartWaitsForRoom(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2, SSHConfig: shortKeepAlive})
	b.requireNamespaces(t)
	file := diaryFile()
	v := &taggedJob{cluster: b, tag: file}
	v.runningJob = b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2", "-n", "4", "--restart", "1", "--restart-delay", "1", "--restart-fence", "5", "--kill-grace", "1",
		"sh", "-c", diaryProgram, "sh", file}})
	v.awaitOut(t, "ready", 4)
	if err := b.SetLink("n2", false); err != nil {
		t.Fatal(err)
	}
	if !v.err.wait(t.Context(), func(all string) bool { return strings.Contains(all, "cannot start the job again yet: ") }) {
		t.Fatal("it does not miss n2")
	}
	if err := b.SetLink("n2", true); err != nil {
		t.Fatal(err)
	}
	r := v.wait(t)
	v.checkGone(t, goneTimeout)
	if r.code != 0 || strconv.Itoa(strings.Count(r.err, "cannot start the job again yet")) != "1" {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
	checkDiary(t, b.readDiary(t, file), "n1 n2")
}

// A job of Open MPI survives what one of MPICH does, each time with a server of PMIx anew: a rank that crashes, a connection that is
// lost, a helper that is killed. The last of its lives meets all ranks (survive.md SV-2, SV-3).
func TestRestartOpenMPI(t *testing.T) {
	t.Parallel()
	spinning, hello := mpiProgram(t, "misc.openmpi"), mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2, SSHConfig: shortKeepAlive})
	b.requireNamespaces(t)
	file := diaryFile()
	v := &taggedJob{cluster: b, tag: file}
	v.runningJob = b.startMpiexec(t, mpiexecCall{args: slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:2,n2:2", "-n", "4", "--restart", "3", "--restart-on", "any", "--restart-delay", "0.1", "--kill-grace", "1",
		"sh", "-c", `[ $MPIEXEC_ATTEMPT = 3 ] && exec "$1"; exec "$2" spin $0.$MPIEXEC_ATTEMPT`, file, hello, spinning})})
	for i, blow := range []struct {
		host string
		sig  syscall.Signal
		is   func([]string) bool
	}{
		{"n1", syscall.SIGSEGV, secondArgIs("spin")}, {"n1", syscall.SIGKILL, isSession}, {"n2", syscall.SIGKILL, isHelperArgs},
	} {
		v.awaitOut(t, "ready ", 4*(i+1))
		signalPIDs(t, blow.sig, "process on "+blow.host, v.findOn(t, blow.host, blow.is)[:1])
	}
	r := v.wait(t)
	v.checkGone(t, goneTimeout)
	_, last, _ := strings.Cut(r.err, "starting again (3 of 3)")
	if r.code != 0 || strings.Count(r.err, "starting again (") != 3 || strings.Count(r.out, " of 4 on ") != 4 || !strings.Contains(r.out, "allreduce ok") {
		t.Errorf("exit %d, %q\n%s\nat last: %s", r.code, r.out, r.err, last)
	}
	for _, host := range []string{"n1", "n2"} {
		if left := b.sessionDirs(t, host); left != "" {
			t.Errorf("left on %s: %s", host, left)
		}
	}
}
