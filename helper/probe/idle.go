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

// minClaimAge is for how long a claim may be without ranks before that is told: they may not
// have started yet.
const minClaimAge = 10 * time.Second

// MarkIdle tells of each claim whether none of its ranks lives (TRUST-16), and whether all that live are stopped. What rests
// by its own word is believed at once: nobody gains by saying so.
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

// IsIdle reports whether the process that says it has the ranks of a claim has none, or is not
// that user's. Of processes that we cannot see it says nothing.
func IsIdle(uid, pid int, since time.Time) bool { return new(processScan).isIdle(uid, pid, since) }

// A processScan is one at all processes, however many claims there are: another user may have made a thousand.
type processScan struct {
	tree   proc.Tree // nil: nobody has looked yet
	names  map[int]string
	states map[claimProcess]ranksState
}

// A claimProcess is a process that says it has the ranks of a user's claim.
type claimProcess struct{ uid, pid int }

// ranksState is what is seen of the ranks that a process has.
type ranksState int

const (
	noRanks ranksState = iota // it has none, or is not the user's
	ranksRunning
	ranksStopped // all of them
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

// descendantsState looks at the ranks below pid: a keeper or guard, which is of the program that pid runs, is none. A guard that mpiexec
// has started from /proc/self/exe is called so, and may be a rank of that name where there is no other one.
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

// seesAllProcesses reports whether the processes of all users are shown to us.
func seesAllProcesses() bool {
	_, err := os.Stat("/proc/1")
	return err == nil
}
