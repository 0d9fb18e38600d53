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

// minClaimAge is the age from which a claim without ranks counts as idle. Before that, its ranks may not
// have started yet.
const minClaimAge = 10 * time.Second

// MarkIdle sets Idle of each claim that has no running rank (TRUST-16), and Stopped if all its ranks are stopped. A claim with an
// idle reason is believed at once, since a false one has no advantage.
func MarkIdle(claims []job.Claim) []job.Claim {
	var l processScan
	for i := range claims {
		c := &claims[i]
		if c.IdleReason == "" && len(c.Ranks) > 0 {
			c.Idle, c.Stopped = l.isIdle(c.UID, c.PID, c.Since), l.ranksOf(c.UID, c.PID) == ranksStopped
		} else {
			c.Idle = c.IdleReason != ""
		}
	}
	return claims
}

// IsIdle reports whether the process that a claim names has no ranks, or does not belong
// to the claim's user. It is false if we cannot see the processes of other users.
func IsIdle(uid, pid int, since time.Time) bool { return new(processScan).isIdle(uid, pid, since) }

// A processScan is one scan of all processes, shared by all claims: another user may have made a thousand claims.
type processScan struct {
	tree   proc.Tree // nil: not read yet
	names  map[int]string
	states map[claimProcess]ranksState
}

// A claimProcess is the process named in a user's claim.
type claimProcess struct{ uid, pid int }

// ranksState is the state of all ranks of a process together.
type ranksState int

const (
	noRanks ranksState = iota // the process has none, or is not the user's
	ranksRunning
	ranksStopped // all of them are stopped
)

func (l *processScan) isIdle(uid, pid int, since time.Time) bool {
	return time.Since(since) >= minClaimAge && seesAllProcesses() && l.ranksOf(uid, pid) == noRanks
}

func (l *processScan) ranksOf(uid, pid int) ranksState {
	if l.tree == nil {
		l.tree, l.names, l.states = proc.ReadTree(), make(map[int]string), make(map[claimProcess]ranksState)
	}
	of := claimProcess{uid, pid}
	seen, known := l.states[of]
	if !known {
		var st unix.Stat_t
		if pid > 0 && unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == uid {
			seen = l.descendantsState(pid)
		}
		l.states[of] = seen
	}
	return seen
}

// descendantsState returns the state of the ranks below pid. A reaper or guard, which runs the same program as pid, is no rank. A guard that
// mpiexec started from /proc/self/exe has the name "exe". If there is no other rank, such a process may be a rank of that name.
func (l *processScan) descendantsState(pid int) ranksState {
	seen, ours, unsure := noRanks, l.commandName(pid), false
	for below := slices.Clone(l.tree[pid]); len(below) > 0; below = below[1:] {
		switch p := below[0]; {
		case p.State == 'Z' || l.commandName(p.PID) == ours:
			below = append(below, l.tree[p.PID]...)
		case l.commandName(p.PID) == "exe":
			unsure = true
		case p.State != 'T':
			return ranksRunning
		default:
			seen = ranksStopped
		}
	}
	if unsure && seen == noRanks {
		return ranksRunning
	}
	return seen
}

func (l *processScan) commandName(pid int) string {
	name, known := l.names[pid]
	if !known {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		name = strings.TrimSpace(string(text))
		l.names[pid] = name
	}
	return name
}

// seesAllProcesses reports whether we can see the processes of other users (mount option hidepid of /proc).
func seesAllProcesses() bool {
	_, err := os.Stat("/proc/1")
	return err == nil
}
