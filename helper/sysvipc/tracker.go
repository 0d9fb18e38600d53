//go:build linux

package sysvipc

import (
	"slices"
	"strings"
	"time"

	"remshell/job"
)

// NoRank is the rank of a process of which nothing tells to which rank it belongs.
const NoRank = -1

// Bounds of what a book keeps: a job may start processes for days.
const (
	maxProcesses = 1 << 16 // processes
	maxHeldFiles = 1 << 12 // files
)

// A Process is one of the job.
type Process struct {
	PID     int
	Rank    int       // in the job, to which it belongs; Nobody: unknown
	Started time.Time // as the kernel says it; zero: unknown
	Leader  bool      // it is the rank itself
}

// A lifetime is a process of the job and until when it is known to have been that.
type lifetime struct {
	Process
	lastSeen time.Time
}

// A heldFile is a file that processes of the job held.
type heldFile struct {
	born  time.Time
	ranks []int // whose they were
}

// A Tracker is what is known of the processes of a job on a node. Its zero value knows nothing, and
// frees nothing.
type Tracker struct {
	jobStart      time.Time // no process of the job is older
	freeAll       bool      // ranks that ended well count, too
	lifetimes     map[int][]lifetime
	lifetimeCount int          // processes in lives
	failedRanks   map[int]bool // by rank that has ended: it did not end well
	heldFiles     map[fileNumber]*heldFile
	incomplete    bool      // a look took too long: files are left alone (PD-21)
	lastScan      time.Time // last

	scanTimeout, freeTimeout time.Duration // how long these may take
}

// A fileNumber is what the kernel calls a file.
type fileNumber struct{ dev, number uint64 }

// NewTracker is the book of a job of which no process runs yet. always: what ranks leave that end well
// is freed, too (--clean-ipc always).
func NewTracker(always bool) *Tracker {
	return &Tracker{jobStart: fileClockNow(), freeAll: always, lifetimes: make(map[int][]lifetime), failedRanks: make(map[int]bool), heldFiles: make(map[fileNumber]*heldFile), scanTimeout: ScanTimeout, freeTimeout: FreeTimeout}
}

// NoteEnded notes that a process of the job has ended.
func (b *Tracker) NoteEnded(p Process, at time.Time) { b.noteProcess(p, at) }

// noteProcess extends what is known of a process. One that has the number of another is told from it by its birth.
func (b *Tracker) noteProcess(p Process, until time.Time) {
	if b == nil || p.Started.IsZero() {
		return
	}
	of := b.lifetimes[p.PID]
	for i := range of {
		if sameStart(of[i].Started, p.Started) {
			if of[i].lastSeen.Before(until) {
				of[i].lastSeen = until
			}
			return
		}
	}
	if b.lifetimeCount == maxProcesses {
		return
	}
	b.lifetimeCount++
	b.lifetimes[p.PID] = append(of, lifetime{p, until})
}

// sameStart reports whether two times of a birth are the same one: the clock that the kernel's ticks are
// laid to may have been set a little meanwhile.
func sameStart(a, b time.Time) bool { return a.Sub(b).Abs() < 100*time.Millisecond }

// NoteRankEnd notes how a rank has ended.
func (b *Tracker) NoteRankEnd(rank int, well bool) {
	if b != nil {
		b.failedRanks[rank] = b.failedRanks[rank] || !well
	}
}

// HasWork reports whether anything is to be freed at all.
func (b *Tracker) HasWork() bool {
	if b == nil {
		return false
	}
	for _, bad := range b.failedRanks {
		if bad {
			return true
		}
	}
	return b.freeAll && len(b.failedRanks) > 0
}

// isToFree reports whether what belongs to a rank is to be freed (PD-16). What may belong to any rank
// is, if that of each is.
func (b *Tracker) isToFree(rank int) bool {
	if b.freeAll {
		return true
	}
	if rank != NoRank {
		return b.failedRanks[rank]
	}
	for _, bad := range b.failedRanks {
		if !bad {
			return false
		}
	}
	return len(b.failedRanks) > 0
}

// A sysvSegment is one of System V's shared memory.
type sysvSegment struct {
	key, id, cpid int
	uid, cuid     int
	attached      int64
	size          int64
	changed       int64 // seconds since 1970
}

// leftSegments finds those that dead processes of the job have made and nobody uses (PD-18). The times of
// segments are whole seconds: one of grace.
func (b *Tracker) leftSegments(all []sysvSegment, uid int) (left []leftObject[sysvSegment]) {
	for _, s := range all {
		if s.cuid != uid || s.attached != 0 {
			continue
		}
		for _, l := range b.lifetimes[s.cpid] {
			if s.changed >= l.Started.Unix()-1 && s.changed <= l.lastSeen.Unix()+1 && b.isToFree(l.Rank) {
				left = append(left, leftObject[sysvSegment]{s, l.Rank})
				break
			}
		}
	}
	return left
}

// A leftObject thing is one that a rank has left; Nobody: one that processes of the job have, whose ranks
// are not known.
type leftObject[T any] struct {
	object T
	rank   int
}

// A file is one in /dev/shm.
type file struct {
	name string
	fileNumber
	uid         int
	plain       bool
	createdAt   time.Time // zero: the file system does not tell
	size        int64
	memoryBytes int64 // of memory, in bytes
}

// isCandidate reports whether a file may be one of the job's at all: a plain one of ours, made while it ran.
func (b *Tracker) isCandidate(f file, uid int) bool {
	return f.plain && f.uid == uid && !f.createdAt.IsZero() && !f.createdAt.Before(b.jobStart)
}

// leftFiles finds those that processes of the job have held when they were looked at, or whose name has the number
// of a rank in whose life they were made (PD-19). Whether anybody holds one still, only the kernel knows.
func (b *Tracker) leftFiles(all []file, uid int) (left []leftObject[file]) {
	if b.incomplete {
		return nil
	}
	for _, f := range all {
		if !b.isCandidate(f, uid) {
			continue
		}
		if seen := b.heldFiles[f.fileNumber]; seen != nil && seen.born.Equal(f.createdAt) && !slices.ContainsFunc(seen.ranks, func(rank int) bool { return !b.isToFree(rank) }) {
			left = append(left, leftObject[file]{f, seen.ranks[0]})
		} else if l, named := b.rankInName(f); named {
			left = append(left, leftObject[file]{f, l.Rank})
		}
	}
	return left
}

// minPIDInName is below which a number in a name is taken for any number, and not for that of a process:
// containers count processes from 1.
const minPIDInName = 1000

// rankInName finds the rank whose process number is in the name of a file that was made while it lived.
func (b *Tracker) rankInName(f file) (lifetime, bool) {
	for digits := range strings.FieldsFuncSeq(f.name, func(r rune) bool { return r < '0' || r > '9' }) {
		pid, ok := parseNumber(digits, 10)
		if !ok || pid < minPIDInName {
			continue
		}
		for _, l := range b.lifetimes[int(pid)] {
			if l.Leader && !f.createdAt.Before(l.Started) && !f.createdAt.After(l.lastSeen) && b.isToFree(l.Rank) {
				return l, true
			}
		}
	}
	return lifetime{}, false
}

// noteHeld notes that processes of a rank held a file.
func (b *Tracker) noteHeld(f file, rank int) {
	s := b.heldFiles[f.fileNumber]
	switch {
	case s == nil && len(b.heldFiles) == maxHeldFiles:
	case s == nil || !s.born.Equal(f.createdAt):
		b.heldFiles[f.fileNumber] = &heldFile{f.createdAt, []int{rank}}
	case !slices.Contains(s.ranks, rank):
		s.ranks = append(s.ranks, rank)
	}
}

// A FreeResult is what was found when all processes were gone.
type FreeResult struct {
	Freed      []job.Leftover // also those that could not be
	Semaphores int            // sets of semaphores of this user that were made meanwhile: whose, nobody knows
}
