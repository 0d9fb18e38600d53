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

// MarkRanks tells of each claim whether none of its ranks lives (TRUST-16), and whether all that live are stopped. What rests
// by its own word is believed at once: nobody gains by saying so.
func MarkRanks(claims []job.Claim) []job.Claim {
	var l look
	for i := range claims {
		c := &claims[i]
		if c.Resting == "" && len(c.Ranks) > 0 {
			c.Idle, c.Stopped = l.idle(c.UID, c.PID, c.Since), l.ranks(c.UID, c.PID) == stopped
		} else {
			c.Idle = c.Resting != ""
		}
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
	known map[claimant]ranksSeen
}

// A claimant is a process that says it has the ranks of a user's claim.
type claimant struct{ uid, pid int }

// ranksSeen is what is seen of the ranks that a process has.
type ranksSeen int

const (
	noRanks ranksSeen = iota // it has none, or is not the user's
	running
	stopped // all of them
)

func (l *look) idle(uid, pid int, since time.Time) bool {
	return time.Since(since) >= idleAfter && seesAll() && l.ranks(uid, pid) == noRanks
}

func (l *look) ranks(uid, pid int) ranksSeen {
	if l.tree == nil {
		l.tree, l.names, l.known = proc.LookAround(), make(map[int]string), make(map[claimant]ranksSeen)
	}
	of := claimant{uid, pid}
	seen, known := l.known[of]
	if !known {
		var st unix.Stat_t
		if pid > 0 && unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == uid {
			seen = l.below(pid)
		}
		l.known[of] = seen
	}
	return seen
}

// below looks at the ranks below pid: a keeper or guard, which is of the program that pid runs, is none. A guard that mpiexec
// has started from /proc/self/exe is called so, and may be a rank of that name where there is no other one.
func (l *look) below(pid int) ranksSeen {
	seen, ours, unsure := noRanks, l.name(pid), false
	for below := slices.Clone(l.tree[pid]); len(below) > 0; below = below[1:] {
		switch p := below[0]; {
		case p.State == 'Z' || l.name(p.PID) == ours:
			below = append(below, l.tree[p.PID]...)
		case l.name(p.PID) == "exe":
			unsure = true
		case p.State != 'T':
			return running
		default:
			seen = stopped
		}
	}
	if unsure && seen == noRanks {
		return running
	}
	return seen
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
