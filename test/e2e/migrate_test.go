//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// countingProgram counts until it is told to stop, from what it saved when it was last asked to, and tells of each count: "ATTEMPT RANK
// HOST TIME COUNT LEFT REASON". Home is shared.
const countingProgram = `n=$(cat "$HOME/count.$MPIEXEC_RANK" 2>/dev/null || echo 0) told=
until [ -e "$HOME/stop" ]; do n=$((n+1))
  echo "$MPIEXEC_ATTEMPT $MPIEXEC_RANK $(hostname) $(date +%s%N) $n $MPIEXEC_RESTARTS_LEFT ${MPIEXEC_RESTART_REASON:-none}" >> "$HOME/diary.$MPIEXEC_RANK"
  [ -n "$told" ] || echo "ready $MPIEXEC_ATTEMPT"; told=1
  if [ -e "$HOME/save" ] && [ ! -e "$HOME/saved.$MPIEXEC_RANK" ]; then
    echo $n > "$HOME/count.$MPIEXEC_RANK"; : > "$HOME/saved.$MPIEXEC_RANK"
  fi
  sleep 0.1
done`

// saveFourRanks has four of them save, and ends when they have.
const saveFourRanks = `cd; rm -f saved.*; : > save; until [ -e saved.0 ] && [ -e saved.1 ] && [ -e saved.2 ] && [ -e saved.3 ]; do sleep 0.1; done; rm save`

// A countEntry is what counter tells of one.
type countEntry struct {
	diaryEntry
	n            int
	left, reason string
}

func (b *testCluster) readCounts(t *testing.T) (all []countEntry) {
	t.Helper()
	for rank := range 4 {
		text, err := os.ReadFile(filepath.Join(b.Home, fmt.Sprint("diary.", rank)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var c countEntry
			if n, err := fmt.Sscan(line, &c.attempt, &c.rank, &c.host, &c.at, &c.n, &c.left, &c.reason); n != 7 {
				t.Fatalf("%q: %v", line, err)
			}
			all = append(all, c)
		}
	}
	return all
}

// A job that counts is moved from n2 to n3 while it runs: it goes on from its checkpoint, and never do two lives of it count at
// once. Where there is no room nothing of it is ended (survive.md SV-17). Nor is it moved while it is suspended.
func TestMigrate(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3, SharedHome: true})
	b.requireNamespaces(t)
	report := filepath.Join(t.TempDir(), "report")
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2,n3:2", "-n", "4", "--restart", "1", "--restart-delay", "1h", "--kill-grace", "1", "--ckpt-cmd", saveFourRanks,
		"--report", report, "sh", "-c", countingProgram}})
	r.awaitOut(t, "ready 0\n", 4)
	id := b.readListing(t, "n1").Jobs[0].Job
	move := func(args ...string) (res result) {
		for range 20 { // a job of a slow machine may not have answered in time
			if res = b.runMpiexec(t, append(append([]string{"--migrate", id}, args...), "n1")...); !strings.Contains(res.err, "the job did not reply") {
				break
			}
		}
		return res
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if res := move(args...); res.code != 125 || !strings.Contains(res.err, want) {
			t.Errorf("%q: exit %d, want %q\n%s", args, res.code, want, res.err)
		}
	}
	other := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n3:2", "-n", "2", "sh", "-c", "echo up; exec sleep 600"}})
	other.awaitOut(t, "up", 2)
	refused("the job cannot be moved: 4 ranks do not fit", "--from", "n2")
	without := b.runMpiexec(t, "--migrate", b.readListing(t, "n3").Jobs[0].Job, "n3")
	if without.code != 125 || !strings.Contains(without.err, "the job cannot be moved: it was started without --restart") || !strings.Contains(without.err, "hint: start the job with --restart N") {
		t.Errorf("a job without --restart: exit %d\n%s", without.code, without.err)
	}
	other.cmd.Process.Kill()
	other.wait(t)
	if !poll(goneTimeout, func() bool { return len(b.readListing(t, "n3").Jobs) == 0 }) {
		t.Error("n3 is still claimed")
	}
	refused("n9 is not among the hosts with which the job was started", "--from", "n2,n9")
	refused("it would start on the same CPUs as now")
	if _, err := os.Stat(filepath.Join(b.Home, "saved.0")); err == nil || strings.Contains(r.err.String(), "attempt 1") {
		t.Errorf("a checkpoint was asked for: %s", &r.err)
	}
	if res := b.sendControlRequest(t, "--suspend", id, "n1"); res.code != 0 {
		t.Errorf("suspended: exit %d\n%s", res.code, res.err)
	}
	refused("the job is suspended, so its ranks cannot write a checkpoint\n  hint: mpiexec --resume-job "+id+" continues the job", "--from", "n2")
	if res := b.sendControlRequest(t, "--resume-job", id, "n1"); res.code != 0 {
		t.Errorf("let go on: exit %d\n%s", res.code, res.err)
	}
	if res := b.runMpiexec(t, "--migrate", id, "--from", "n2", "n1"); !strings.Contains(res.err, "the job did not reply") && // else it is done all the same
		(res.code != 0 || !strings.Contains(res.err, "job "+id+": the job moves now to n[1,3]")) {
		t.Errorf("exit %d\n%s", res.code, res.err)
	}
	r.awaitOut(t, "ready 1\n", 4)
	refused("the job cannot be moved: 4 ranks do not fit", "--to", "n1,n2")
	if err := os.WriteFile(filepath.Join(b.Home, "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	res := r.wait(t)
	for _, want := range []string{"n1 says: the job moves to n[1,3] after a checkpoint (root, --migrate)", "n1 says: the job was moved to n[1,3] by root with --migrate", "attempt 1: 4 ranks on n[1,3] (was n[1-2])"} {
		if !strings.Contains(res.err, want) {
			t.Errorf("it does not say %q:\n%s", want, res.err)
		}
	}
	if res.code != 0 {
		t.Errorf("exit %d\n%s", res.code, res.err)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), `"reason": "move"`) {
		t.Errorf("%v, %s", err, text)
	}
	checkCounts(t, b.readCounts(t))
}

// checkCounts sees that each rank went on from what it had saved, on n1 and n3, and when the first life was over.
func checkCounts(t *testing.T, all []countEntry) {
	t.Helper()
	var last, first int64
	begun, most := make(map[int]int), make(map[int]int)
	for _, c := range all {
		if c.attempt == 0 {
			last, most[c.rank] = max(last, c.at), max(most[c.rank], c.n)
			continue
		}
		if first == 0 || c.at < first {
			first = c.at
		}
		if begun[c.rank] == 0 {
			begun[c.rank] = c.n
		}
		if c.host == "n2" || c.left != "1" || c.reason != "move" {
			t.Errorf("%+v", c)
		}
	}
	if last >= first {
		t.Errorf("two lives count at once")
	}
	for rank := range 4 {
		if begun[rank] < 2 || begun[rank] > most[rank]+1 {
			t.Errorf("rank %d counted to %d, and went on at %d", rank, most[rank], begun[rank])
		}
	}
}
