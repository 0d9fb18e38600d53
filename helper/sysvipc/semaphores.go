//go:build linux

package sysvipc

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A semSet is a System V semaphore set, as /proc/sysvipc/sem describes it. Times are in seconds of Unix time.
type semSet struct {
	key, id    int
	semaphores int
	cuid       int   // the user who created it
	operated   int64 // last semop(2); 0: none
	changed    int64 // creation, or last change of a value or of permissions by semctl(2)
}

// lastUsed returns the time at which a process last used the set.
func (s semSet) lastUsed() int64 { return max(s.operated, s.changed) }

// madeMeanwhile returns the semaphore sets that processes of the user uid have created since the job began. It
// recognizes older sets by their IDs. Their time of change is no proof, because setting a value updates it, too. The
// kernel reuses an ID only after 2^16 others.
func (b *Tracker) madeMeanwhile(all []semSet, uid int) (created []semSet) {
	for _, s := range all {
		if s.cuid == uid && s.changed >= b.jobStart.Unix() && !b.setsBefore[s.id] {
			created = append(created, s)
		}
	}
	return created
}

// isOfJob reports whether a semaphore set belongs to this job alone, and returns the rank to which it belongs (rule
// PD-18). pids contains, for each semaphore, the process that last used it. Each must belong to a rank of the job whose
// objects are to be removed, and must have started before the set was last used. At least one must have existed at that
// time. The conditions on times exclude earlier and later processes with the same PIDs.
func (b *Tracker) isOfJob(s semSet, pids []int) (rank int, ofJob bool) {
	last, usedLast := s.lastUsed(), false
	for i, pid := range pids {
		known := false
		for _, l := range b.lifetimes[pid] {
			if l.Started.Unix()-1 > last || !b.isToFree(l.Rank) {
				continue
			}
			if known = true; i == 0 {
				rank = l.Rank
			}
			usedLast = usedLast || last <= l.lastSeen.Unix()+1
		}
		if !known {
			return 0, false
		}
	}
	return rank, usedLast
}

// isOfAProcess reports whether objects of a process with this PID may be removed. It returns false for PID 0,
// which stands for no process.
func (b *Tracker) isOfAProcess(pid int) bool {
	for _, l := range b.lifetimes[pid] {
		if b.isToFree(l.Rank) {
			return true
		}
	}
	return false
}

// freeSets removes the semaphore sets that processes of the job have left. It returns how many other sets of the user
// were created since the job began. It calls add for each set that it has removed or could not remove. If add returns
// true, freeSets stops.
func (b *Tracker) freeSets(uid int, deadline time.Time, add func(job.Leftover, error) bool) (otherSets int) {
	made := b.madeMeanwhile(parseSets(readTable("sem")), uid)
	var left []leftObject[semSet]
	for _, s := range made {
		pids, idle := s.lastPIDs(deadline, b.isOfAProcess)
		if rank, ours := b.isOfJob(s, pids); idle && ours {
			left = append(left, leftObject[semSet]{s, rank})
		}
	}
	otherSets = len(made)
	if len(left) == 0 {
		return otherSets
	}
	now := make(map[int]semSet) // by ID: a process may have used a set since
	for _, s := range parseSets(readTable("sem")) {
		now[s.id] = s
	}
	for _, l := range left {
		if now[l.object.id] != l.object {
			continue
		}
		err := semctl(l.object.id, unix.IPC_RMID)
		if ignoreGone(err) == nil {
			otherSets--
		}
		if (err == nil || ignoreGone(err) != nil) && add(job.Leftover{Kind: job.LeftoverSysVSem, ID: strconv.Itoa(l.object.id), Rank: l.rank}, err) {
			break
		}
	}
	return otherSets
}

// These are commands for semctl(2), from linux/sem.h.
const (
	semGetPID  = 11 // the process that last used a semaphore; 0: none, or one that our PID namespace does not show
	semGetNCnt = 14 // the number of processes that wait for a larger value
	semGetZCnt = 15 // the number of processes that wait for 0
)

// lastPIDs returns, for each semaphore of the set, the process that last used it. idle is true if it has found all
// these processes before the deadline, accepted returns true for each of them, and no process waits for a semaphore.
func (s semSet) lastPIDs(deadline time.Time, accepted func(pid int) bool) (pids []int, idle bool) {
	for i := range s.semaphores {
		if i%256 == 0 && time.Now().After(deadline) {
			return nil, false
		}
		for _, waiting := range []int{semGetNCnt, semGetZCnt} {
			if n, err := semValue(s.id, i, waiting); err != nil || n != 0 {
				return nil, false
			}
		}
		pid, err := semValue(s.id, i, semGetPID)
		if err != nil || !accepted(pid) {
			return nil, false
		}
		pids = append(pids, pid)
	}
	return pids, len(pids) > 0
}

// semValue calls semctl(2) for one semaphore of a set, with a command that returns a number.
func semValue(id, number, command int) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_SEMCTL, uintptr(id), uintptr(number), uintptr(command), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// semctl calls semctl(2) for a set, with a command that needs no argument.
func semctl(id, command int) error {
	_, err := semValue(id, 0, command)
	return err
}
