//go:build linux

package probe

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/job/column"
	"remshell/proc"
)

// ReadColumns sets Reported of each claim on this node: the values of the columns of --ps that helpers report
// (column.ReadAll). root is "/".
func ReadColumns(root fs.FS, claims []job.Claim) {
	l := processScan{root: root, claims: claims}
	for i := range claims {
		claims[i].Reported = column.ReadAll(l.source(claims[i]))
	}
}

// IsIdle reports whether the process that a claim names has no ranks, or does not belong to the user who has
// made the claim. It returns false if processes of other users cannot be seen.
func IsIdle(uid, pid int, since time.Time) bool {
	claim := job.Claim{UID: uid, PID: pid, Since: since, Ranks: make([]job.ClaimedRank, 1)}
	return column.State.Read(new(processScan).source(claim)) == column.Idle
}

// A processScan is one scan of all processes. All claims share it, because another user may have made a
// thousand claims.
type processScan struct {
	tree   proc.Tree // nil: not read yet
	names  map[int]string
	states map[claimProcess]column.RanksState

	root    fs.FS
	claims  []job.Claim // all of the node
	claimed map[int]int // the claims' processes: user ID by process ID, or -1 after takeProcesses; nil: not read yet
}

// A claimProcess is the process that holds a claim, according to the claim.
type claimProcess struct{ uid, pid int }

// exists reports whether the process exists and belongs to the user.
func (of claimProcess) exists() bool {
	var st unix.Stat_t
	return of.pid > 0 && unix.Stat(fmt.Sprintf("/proc/%d", of.pid), &st) == nil && int(st.Uid) == of.uid
}

// source returns the data of a claim from which the columns of --ps are computed.
func (l *processScan) source(c job.Claim) column.Source {
	of := claimProcess{c.UID, c.PID}
	s := column.Source{Claim: c, Age: time.Since(c.Since), Hidden: !seesAllProcesses(), Root: l.root,
		Processes: sync.OnceValue(func() []int { return l.takeProcesses(of) })}
	if c.IdleReason == "" && len(c.Ranks) > 0 {
		s.Ranks = l.ranksOf(of)
	}
	return s
}

// readTree reads the tree of all processes. Only the first call reads it.
func (l *processScan) readTree() {
	if l.tree == nil {
		l.tree, l.names, l.states = proc.ReadTree(), make(map[int]string), make(map[claimProcess]column.RanksState)
	}
}

func (l *processScan) ranksOf(p claimProcess) column.RanksState {
	l.readTree()
	seen, known := l.states[p]
	if !known {
		if p.exists() {
			seen = l.descendantsState(p.pid)
		}
		l.states[p] = seen
	}
	return seen
}

// takeProcesses returns the processes of a claim's ranks: the descendants of root, the process that the claim
// names. It leaves out descendants of the processes of other claims. If several claims name the same process,
// only the first claim gets the descendants. So the total time for the claims of all users depends only on the
// number of processes.
func (l *processScan) takeProcesses(root claimProcess) (pids []int) {
	l.readTree()
	if l.claimed == nil {
		l.claimed = make(map[int]int)
		for _, c := range l.claims {
			if p := (claimProcess{c.UID, c.PID}); p.exists() {
				l.claimed[p.pid] = p.uid
			}
		}
	}
	if owner, known := l.claimed[root.pid]; !known || owner != root.uid {
		return nil
	}
	l.claimed[root.pid] = -1
	ours, unsure := l.commandName(root.pid), []int(nil)
	for below := slices.Clone(l.tree[root.pid]); len(below) > 0; below = below[1:] {
		p := below[0]
		if _, other := l.claimed[p.PID]; other {
			continue
		}
		below = append(below, l.tree[p.PID]...)
		switch name := l.commandName(p.PID); {
		case p.State == 'Z' || name == ours:
		case name == "exe":
			unsure = append(unsure, p.PID)
		default:
			pids = append(pids, p.PID)
		}
	}
	if pids == nil {
		return unsure
	}
	return pids
}

// descendantsState returns whether the ranks that descend from process pid are running, are stopped or have ended.
// Reapers and guards run the same program as pid and are not ranks. A guard that mpiexec has started from
// /proc/self/exe has the name "exe". So a process of that name is taken for a rank only if there is no other rank.
func (l *processScan) descendantsState(pid int) column.RanksState {
	seen, ours, unsure := column.NoRanks, l.commandName(pid), false
	for below := slices.Clone(l.tree[pid]); len(below) > 0; below = below[1:] {
		switch p := below[0]; {
		case p.State == 'Z' || l.commandName(p.PID) == ours:
			below = append(below, l.tree[p.PID]...)
		case l.commandName(p.PID) == "exe":
			unsure = true
		case p.State != 'T':
			return column.RanksRunning
		default:
			seen = column.RanksStopped
		}
	}
	if unsure && seen == column.NoRanks {
		return column.RanksRunning
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

// seesAllProcesses reports whether this process can see the processes of other users, which the mount option
// hidepid of /proc may prevent.
func seesAllProcesses() bool {
	_, err := os.Stat("/proc/1")
	return err == nil
}
