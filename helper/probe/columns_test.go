//go:build linux

package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/job/column"
	"remshell/proc"
)

// As many claims as one user can make need only one scan of the processes. Each claim is idle or not by its own process.
func TestIdleOfManyClaims(t *testing.T) {
	var pids []int
	for range 64 {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		pids = append(pids, cmd.Process.Pid)
	}
	old := time.Now().Add(-time.Hour)
	claim := func(uid, pid int) job.Claim {
		return job.Claim{UID: uid, PID: pid, Since: old, Ranks: make([]job.ClaimedRank, 1)}
	}
	claims := []job.Claim{claim(os.Getuid(), os.Getpid()), claim(os.Getuid()+1, os.Getpid())}
	for range 64 {
		for _, pid := range pids {
			claims = append(claims, claim(os.Getuid(), pid))
		}
	}
	began := time.Now()
	ReadColumns(os.DirFS("/"), claims)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d claims took %v", len(claims), took)
	}
	for i, c := range claims {
		if state := column.State.Of(c.Reported); (state == column.Idle) != (i > 0) { // this process has children
			t.Errorf("claim %d of process %d: state %d", i, c.PID, state)
		}
	}
}

// startShell starts a script as a process group of its own, waits for a line of its output, and returns its process ID. The
// group is killed at the end of the test.
func startShell(t *testing.T, script string, args ...string) (pid int) {
	t.Helper()
	shell := exec.Command("/bin/sh", append([]string{"-c", script}, args...)...)
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		shell.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return shell.Process.Pid
}

// A job is marked as stopped if all its ranks are stopped, in whatever way, and not if one still runs.
func TestStoppedRanks(t *testing.T) {
	guard := filepath.Join(t.TempDir(), "exe") // the name of the guard of a job on one machine, which is never stopped
	if err := os.Symlink("/bin/sleep", guard); err != nil {
		t.Fatal(err)
	}
	shell := startShell(t, "sleep 1000 & sleep 1001 & "+guard+" 1002 & echo; wait")
	var ranks []int
	for guards := 0; len(ranks) < 2 || guards < 1; runtime.Gosched() { // until all processes have executed their programs
		ranks, guards = nil, 0
		for _, p := range proc.ReadTree()[shell] {
			switch comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID)); string(comm) {
			case "sleep\n":
				ranks = append(ranks, p.PID)
			case "exe\n":
				guards++
			}
		}
	}
	signal := func(pid int, number syscall.Signal, state string) {
		t.Helper()
		syscall.Kill(pid, number)
		for look, there := proc.ReadInfo(pid); there && !strings.ContainsRune(state, rune(look.State)); look, there = proc.ReadInfo(pid) {
			runtime.Gosched()
		}
	}
	expect := func(what string, uid int, want bool) {
		t.Helper()
		claims := []job.Claim{{UID: uid, PID: shell, Since: time.Now(), Ranks: make([]job.ClaimedRank, 2)}}
		ReadColumns(os.DirFS("/"), claims)
		if state := column.State.Of(claims[0].Reported); (state == column.Suspended) != want || state == column.Idle {
			t.Errorf("%s: state %d", what, state)
		}
	}
	expect("both run", os.Getuid(), false)
	signal(ranks[0], syscall.SIGSTOP, "T")
	expect("one is stopped", os.Getuid(), false)
	signal(ranks[1], syscall.SIGSTOP, "T")
	expect("both are stopped", os.Getuid(), true)
	expect("a claim of somebody else", os.Getuid()+1, false)
	signal(ranks[0], syscall.SIGCONT, "SR")
	expect("one goes on", os.Getuid(), false)
}

// Each process is in one claim only, whatever processes of his a user names in his claims: a chain of claims, each of them
// below the one before, needs no more time than its processes.
func TestProcessesOfClaims(t *testing.T) {
	depth := 200
	script := "[ $1 = 0 ] && { echo; exec sleep 1000; }; /bin/sh -c \"$0\" \"$0\" $(($1 - 1)); :" // each shell below the one before
	first, chain := startShell(t, script, script, fmt.Sprint(depth)), []int(nil)
	for tree, below := proc.ReadTree(), []proc.Info{{PID: first}}; len(below) > 0; below = tree[below[0].PID] {
		chain = append(chain, below[0].PID)
	}
	if len(chain) < depth {
		t.Fatalf("%d processes", len(chain))
	}
	uid := os.Getuid()
	claims := []job.Claim{{UID: uid, PID: os.Getpid()}, {UID: uid + 1, PID: chain[1]}}
	for _, pid := range chain[:depth] {
		claims = append(claims, job.Claim{UID: uid, PID: pid}, job.Claim{UID: uid, PID: pid})
	}
	l := processScan{claims: claims}
	for i, c := range claims {
		source := l.source(c)
		pids := source.Processes()
		if again := source.Processes(); !slices.Equal(pids, again) {
			t.Errorf("claim %d: one column reads %v, the next %v", i, pids, again)
		}
		if i == 0 {
			if slices.Contains(pids, chain[0]) || slices.Contains(pids, chain[1]) {
				t.Errorf("the claim around all others has their processes: %v", pids)
			}
			continue
		}
		if last := i == len(claims)-2; (len(pids) > 0) != last {
			t.Errorf("claim %d of process %d: %v", i, c.PID, pids)
		}
	}
	chainOnly := processScan{claims: claims[2:3]}
	if pids := chainOnly.source(claims[2]).Processes(); !slices.Contains(pids, chain[len(chain)-1]) {
		t.Errorf("a process far below the ranks is missing: %v of %v", pids, chain)
	}
	stranger := job.Claim{UID: uid + 1, PID: chain[0]}
	if pids := (&processScan{claims: []job.Claim{stranger}}).source(stranger).Processes(); pids != nil {
		t.Errorf("a claim has the processes of another user: %v", pids)
	}
}
