//go:build linux

package probe

import (
	"fmt"
	"os"
	"slices"
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
	var l look
	for i := range claims {
		c := &claims[i]
		c.Idle = c.Resting != "" || len(c.Ranks) > 0 && l.idle(c.UID, c.PID, c.Since)
	}
	return claims
}

// Idle reports whether the process that says it has the ranks of a claim has none, or is not
// that user's. Of processes that we cannot see it says nothing.
func Idle(uid, pid int, since time.Time) bool { return new(look).idle(uid, pid, since) }

// A look is one at all processes, however many claims there are: another user may have made a thousand.
type look struct {
	tree  proc.Tree // nil: nobody has looked yet
	names map[int]string
	known map[claimant]bool // whether it is idle
}

// A claimant is a process that says it has the ranks of a user's claim.
type claimant struct{ uid, pid int }

func (l *look) idle(uid, pid int, since time.Time) bool {
	if time.Since(since) < idleAfter || !seesAll() {
		return false
	}
	if l.tree == nil {
		l.tree, l.names, l.known = proc.LookAround(), make(map[int]string), make(map[claimant]bool)
	}
	of := claimant{uid, pid}
	idle, known := l.known[of]
	if !known {
		var st unix.Stat_t
		idle = pid <= 0 || unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil || int(st.Uid) != uid || !l.hasRank(pid)
		l.known[of] = idle
	}
	return idle
}

// hasRank reports whether a process below pid lives that is no more of the program that pid runs: a keeper or guard is no rank.
func (l *look) hasRank(pid int) bool {
	ours := l.name(pid)
	for below := slices.Clone(l.tree[pid]); len(below) > 0; below = below[1:] {
		if below[0].State != 'Z' && l.name(below[0].PID) != ours {
			return true
		}
		below = append(below, l.tree[below[0].PID]...)
	}
	return false
}

func (l *look) name(pid int) string {
	name, known := l.names[pid]
	if !known {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		name = strings.TrimSpace(string(text))
		l.names[pid] = name
	}
	return name
}

// seesAll reports whether the processes of all users are shown to us.
func seesAll() bool {
	_, err := os.Stat("/proc/1")
	return err == nil
}
