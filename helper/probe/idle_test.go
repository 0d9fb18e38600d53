//go:build linux

package probe

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"remshell/job"
)

// As many claims as one user can make cost one look at the processes; each claim is idle or not by its own process.
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
