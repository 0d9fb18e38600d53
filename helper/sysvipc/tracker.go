//go:build linux

package sysvipc

import (
	"slices"
	"strings"
	"time"

	"remshell/job"
)

// NoRank stands for the rank of a process whose rank is unknown.
const NoRank = -1

// These are the maximum numbers of records that a Tracker keeps. Limits are needed because a job may start processes
// for days.
const (
	maxProcesses = 1 << 16 // processes
	maxHeldFiles = 1 << 12 // files
)

// A Process describes a process that belongs to the job on this node.
type Process struct {
	PID     int
	Rank    int       // the rank that it belongs to, or NoRank
	Started time.Time // start time from the kernel; zero: unknown
	Leader  bool      // it is the rank itself, not a descendant
}

// A lifetime is the time during which a process of the job is known to have existed: from Started to lastSeen.
type lifetime struct {
	Process
	lastSeen time.Time
}

// A heldFile is a file that processes of the job have held.
type heldFile struct {
	born  time.Time
	ranks []int // ranks of these processes
}

// A Tracker records processes of a job on a node, and the files that they hold. The zero value contains no records and
// removes nothing.
type Tracker struct {
	jobStart      time.Time // no process of the job is older
	freeAll       bool      // also remove what successful ranks left
	lifetimes     map[int][]lifetime
	lifetimeCount int          // number of processes in lifetimes
	failedRanks   map[int]bool // for each rank that has ended: whether it failed
	heldFiles     map[fileNumber]*heldFile
	incomplete    bool         // a scan took too long: no files are removed (PD-21)
	lastScan      time.Time    // time of the last scan
	setsBefore    map[int]bool // IDs of the semaphore sets that were there before the job

	scanTimeout, freeTimeout time.Duration // ScanTimeout and FreeTimeout, except in tests
}

// A fileNumber identifies a file by its device and inode number.
type fileNumber struct{ dev, number uint64 }

// NewTracker returns a Tracker for a job that runs no process yet. If evenOnSuccess is true, it also removes
// what successful ranks leave behind (--clean-ipc always).
func NewTracker(evenOnSuccess bool) *Tracker {
	before := make(map[int]bool)
	for _, s := range parseSets(readTable("sem")) {
		before[s.id] = true
	}
	return &Tracker{setsBefore: before, jobStart: fileClockNow(), freeAll: evenOnSuccess, lifetimes: make(map[int][]lifetime), failedRanks: make(map[int]bool), heldFiles: make(map[fileNumber]*heldFile), scanTimeout: ScanTimeout, freeTimeout: FreeTimeout}
}

// NoteEnded records that a process of the job has ended.
func (b *Tracker) NoteEnded(p Process, at time.Time) { b.noteProcess(p, at) }

// noteProcess records that a process existed at the time seenAt. Two processes that had the same PID one
// after the other differ in their start times.
func (b *Tracker) noteProcess(p Process, seenAt time.Time) {
	if b == nil || p.Started.IsZero() {
		return
	}
	of := b.lifetimes[p.PID]
	for i := range of {
		if sameStart(of[i].Started, p.Started) {
			if of[i].lastSeen.Before(seenAt) {
				of[i].lastSeen = seenAt
			}
			return
		}
	}
	if b.lifetimeCount == maxProcesses {
		return
	}
	b.lifetimeCount++
	b.lifetimes[p.PID] = append(of, lifetime{p, seenAt})
}

// sameStart reports whether two start times can be those of the same process. They may differ a little,
// because the clock may have been adjusted between two conversions from the kernel's ticks.
func sameStart(a, b time.Time) bool { return a.Sub(b).Abs() < 100*time.Millisecond }

// NoteRankEnd records that a rank has ended, and whether it succeeded. A nil Tracker does nothing.
func (b *Tracker) NoteRankEnd(rank int, succeeded bool) {
	if b != nil {
		b.failedRanks[rank] = b.failedRanks[rank] || !succeeded
	}
}

// HasWork reports whether there is anything for Free to remove. It returns false for a nil Tracker.
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

// isToFree reports whether the objects that a rank has left behind must be removed (rule PD-16). Objects
// whose rank is unknown are removed only if the objects of all ranks must be removed.
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

// A sysvSegment is a System V shared memory segment.
type sysvSegment struct {
	key, id, cpid int
	uid, cuid     int
	attached      int64
	size          int64
	changed       int64 // last change, in seconds since 1970
}

// leftSegments returns the segments that dead processes of the job have created and that no process uses (rule PD-18).
// It allows a difference of one second between times, because the kernel keeps the times of segments in whole seconds.
func (b *Tracker) leftSegments(all []sysvSegment, uid int) (leftovers []leftObject[sysvSegment]) {
	for _, s := range all {
		if s.cuid != uid || s.attached != 0 {
			continue
		}
		for _, l := range b.lifetimes[s.cpid] {
			if s.changed >= l.Started.Unix()-1 && s.changed <= l.lastSeen.Unix()+1 && b.isToFree(l.Rank) {
				leftovers = append(leftovers, leftObject[sysvSegment]{s, l.Rank})
				break
			}
		}
	}
	return leftovers
}

// A leftObject is an object that a rank has left behind. rank is NoRank if the object belongs to a process of
// the job whose rank is unknown.
type leftObject[T any] struct {
	object T
	rank   int
}

// A file holds the attributes of a file in /dev/shm.
type file struct {
	name string
	fileNumber
	uid         int
	plain       bool
	createdAt   time.Time // creation time; zero: unknown
	size        int64
	memoryBytes int64 // memory that it takes, in bytes
}

// isCandidate reports whether a file may belong to the job. It must be a regular file of the user uid that
// was created while the job ran.
func (b *Tracker) isCandidate(f file, uid int) bool {
	return f.plain && f.uid == uid && !f.createdAt.IsZero() && !f.createdAt.Before(b.jobStart)
}

// leftFiles returns the files of the job that Free may remove (rule PD-19). Each was held by a process of the job
// during a scan, or was created while a rank ran and has the rank's PID in its name. The caller must check that no
// process holds them now.
func (b *Tracker) leftFiles(all []file, uid int) (leftovers []leftObject[file]) {
	if b.incomplete {
		return nil
	}
	for _, f := range all {
		if !b.isCandidate(f, uid) {
			continue
		}
		if seen := b.heldFiles[f.fileNumber]; seen != nil && seen.born.Equal(f.createdAt) && !slices.ContainsFunc(seen.ranks, func(rank int) bool { return !b.isToFree(rank) }) {
			leftovers = append(leftovers, leftObject[file]{f, seen.ranks[0]})
		} else if l, named := b.rankInName(f); named {
			leftovers = append(leftovers, leftObject[file]{f, l.Rank})
		}
	}
	return leftovers
}

// minPIDInName is the smallest number in a file name that is taken for a PID. Smaller numbers are ambiguous,
// because containers number processes from 1.
const minPIDInName = 1000

// rankInName looks for the PID of a rank in a file's name and returns the lifetime of this rank. The rank must have run
// when the file was created, and isToFree must allow the removal. rankInName returns false if there is no such rank.
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

// noteHeld records that a process of a rank held a file.
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

// A FreeResult says what Free has removed, or could not remove.
type FreeResult struct {
	Freed      []job.Leftover // including objects that could not be removed
	Semaphores int            // number of other semaphore sets that processes of this user created meanwhile
}
