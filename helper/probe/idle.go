//go:build linux

package probe

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

// idleAfter is for how long a claim may be without ranks before that is told: they may not
// have started yet.
const idleAfter = 10 * time.Second

// MarkIdle tells of each claim whether none of its ranks lives (TRUST-16). What rests by its own word
// is believed at once: nobody gains by saying so.
func MarkIdle(claims []job.Claim) []job.Claim {
	for i := range claims {
		c := &claims[i]
		c.Idle = c.Resting != "" || len(c.Ranks) > 0 && Idle(c.UID, c.PID, c.Since)
	}
	return claims
}

// Idle reports whether the process that says it has the ranks of a claim has none, or is not
// that user's. Of processes that we cannot see it says nothing.
func Idle(uid, pid int, since time.Time) bool {
	if time.Since(since) < idleAfter || !seesAll() {
		return false
	}
	var st unix.Stat_t
	if pid <= 0 || unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil || int(st.Uid) != uid {
		return true
	}
	for _, p := range proc.Below(pid) {
		if !p.Zombie && !isOurs(p.PID, pid) {
			return false
		}
	}
	return true
}

// seesAll reports whether the processes of all users are shown to us.
func seesAll() bool {
	_, err := os.Stat("/proc/1")
	return err == nil
}

// isOurs reports whether a process is one more of the program that pid runs: a keeper or
// guard, and no rank.
func isOurs(other, pid int) bool { return name(other) == name(pid) }

func name(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}
