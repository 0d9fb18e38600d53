//go:build linux

package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
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
	MarkIdle(claims)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d claims took %v", len(claims), took)
	}
	for i, c := range claims {
		if c.Idle != (i > 0) { // this process has children
			t.Errorf("claim %d of process %d: idle %v", i, c.PID, c.Idle)
		}
	}
}

// A job is marked as stopped if all its ranks are stopped, in whatever way, and not if one still runs.
func TestStoppedRanks(t *testing.T) {
	guard := filepath.Join(t.TempDir(), "exe") // the name of the guard of a job on one machine, which is never stopped
	if err := os.Symlink("/bin/sleep", guard); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("/bin/sh", "-c", "sleep 1000 & sleep 1001 & "+guard+" 1002 & echo; wait")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for guards := 0; len(ranks) < 2 || guards < 1; runtime.Gosched() { // until all processes have executed their programs
		ranks, guards = nil, 0
		for _, p := range proc.ReadTree()[shell.Process.Pid] {
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
		claims := MarkIdle([]job.Claim{{UID: uid, PID: shell.Process.Pid, Since: time.Now(), Ranks: make([]job.ClaimedRank, 2)}})
		if claims[0].Stopped != want || claims[0].Idle {
			t.Errorf("%s: %+v", what, claims[0])
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
