//go:build linux

package ipc

import (
	"slices"
	"strings"
	"time"

	"remshell/job"
)

// Nobody is the rank of a process of which nothing tells to which rank it belongs.
const Nobody = -1

// Bounds of what a book keeps: a job may start processes for days.
const (
	maxLives     = 1 << 16 // processes
	maxSightings = 1 << 12 // files
)

// A Process is one of the job.
type Process struct {
	PID    int
	Rank   int       // in the job, to which it belongs; Nobody: unknown
	Began  time.Time // as the kernel says it; zero: unknown
	Leader bool      // it is the rank itself
}

// A tenure is a process of the job and until when it is known to have been that.
type tenure struct {
	Process
	until time.Time
}

// A sighting is a file that processes of the job held.
type sighting struct {
	born  time.Time
	ranks []int // whose they were
}

// A Book is what is known of the processes of a job on a node. Its zero value knows nothing, and
// frees nothing.
type Book struct {
	began  time.Time // no process of the job is older
	all    bool      // ranks that ended well count, too
	lives  map[int][]tenure
	kept   int          // processes in lives
	bad    map[int]bool // by rank that has ended: it did not end well
	held   map[fileNumber]*sighting
	hasty  bool      // a look took too long: files are left alone (PD-21)
	looked time.Time // last

	lookTime, freeTime time.Duration // how long these may take
}

// A fileNumber is what the kernel calls a file.
type fileNumber struct{ dev, number uint64 }

// NewBook is the book of a job of which no process runs yet. always: what ranks leave that end well
// is freed, too (--clean-ipc always).
func NewBook(always bool) *Book {
	return &Book{began: coarseNow(), all: always, lives: make(map[int][]tenure), bad: make(map[int]bool), held: make(map[fileNumber]*sighting), lookTime: LookTime, freeTime: FreeTime}
}

// Ended notes that a process of the job has ended.
func (b *Book) Ended(p Process, at time.Time) { b.note(p, at) }

// note extends what is known of a process. One that has the number of another is told from it by its birth.
func (b *Book) note(p Process, until time.Time) {
	if b == nil || p.Began.IsZero() {
		return
	}
	of := b.lives[p.PID]
	for i := range of {
		if near(of[i].Began, p.Began) {
			if of[i].until.Before(until) {
				of[i].until = until
			}
			return
		}
	}
	if b.kept == maxLives {
		return
	}
	b.kept++
	b.lives[p.PID] = append(of, tenure{p, until})
}

// near reports whether two times of a birth are the same one: the clock that the kernel's ticks are
// laid to may have been set a little meanwhile.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 100*time.Millisecond }

// Judged notes how a rank has ended.
func (b *Book) Judged(rank int, well bool) {
	if b != nil {
		b.bad[rank] = b.bad[rank] || !well
	}
}

// Dirty reports whether anything is to be freed at all.
func (b *Book) Dirty() bool {
	if b == nil {
		return false
	}
	for _, bad := range b.bad {
		if bad {
			return true
		}
	}
	return b.all && len(b.bad) > 0
}

// counts reports whether what belongs to a rank is to be freed (PD-16). What may belong to any rank
// is, if that of each is.
func (b *Book) counts(rank int) bool {
	if b.all {
		return true
	}
	if rank != Nobody {
		return b.bad[rank]
	}
	for _, bad := range b.bad {
		if !bad {
			return false
		}
	}
	return len(b.bad) > 0
}

// A sysvSegment is one of System V's shared memory.
type sysvSegment struct {
	key, id, cpid int
	uid, cuid     int
	attached      int64
	size          int64
	changed       int64 // seconds since 1970
}

// segments finds those that dead processes of the job have made and nobody uses (PD-18). The times of
// segments are whole seconds: one of grace.
func (b *Book) segments(all []sysvSegment, uid int) (left []owned[sysvSegment]) {
	for _, s := range all {
		if s.cuid != uid || s.attached != 0 {
			continue
		}
		for _, l := range b.lives[s.cpid] {
			if s.changed >= l.Began.Unix()-1 && s.changed <= l.until.Unix()+1 && b.counts(l.Rank) {
				left = append(left, owned[sysvSegment]{s, l.Rank})
				break
			}
		}
	}
	return left
}

// An owned thing is one that a rank has left; Nobody: one that processes of the job have, whose ranks
// are not known.
type owned[T any] struct {
	thing T
	rank  int
}

// A file is one in /dev/shm.
type file struct {
	name string
	fileNumber
	uid   int
	plain bool
	born  time.Time // zero: the file system does not tell
	size  int64
	taken int64 // of memory, in bytes
}

// fresh reports whether a file may be one of the job's at all: a plain one of ours, made while it ran.
func (b *Book) fresh(f file, uid int) bool {
	return f.plain && f.uid == uid && !f.born.IsZero() && !f.born.Before(b.began)
}

// files finds those that processes of the job have held when they were looked at, or whose name has the number
// of a rank in whose life they were made (PD-19). Whether anybody holds one still, only the kernel knows.
func (b *Book) files(all []file, uid int) (left []owned[file]) {
	if b.hasty {
		return nil
	}
	for _, f := range all {
		if !b.fresh(f, uid) {
			continue
		}
		if seen := b.held[f.fileNumber]; seen != nil && seen.born.Equal(f.born) && !slices.ContainsFunc(seen.ranks, func(rank int) bool { return !b.counts(rank) }) {
			left = append(left, owned[file]{f, seen.ranks[0]})
		} else if l, named := b.namedIn(f); named {
			left = append(left, owned[file]{f, l.Rank})
		}
	}
	return left
}

// leastNumber is below which a number in a name is taken for any number, and not for that of a process:
// containers count processes from 1.
const leastNumber = 1000

// namedIn finds the rank whose process number is in the name of a file that was made while it lived.
func (b *Book) namedIn(f file) (tenure, bool) {
	for digits := range strings.FieldsFuncSeq(f.name, func(r rune) bool { return r < '0' || r > '9' }) {
		pid, ok := number(digits, 10)
		if !ok || pid < leastNumber {
			continue
		}
		for _, l := range b.lives[int(pid)] {
			if l.Leader && !f.born.Before(l.Began) && !f.born.After(l.until) && b.counts(l.Rank) {
				return l, true
			}
		}
	}
	return tenure{}, false
}

// saw notes that processes of a rank held a file.
func (b *Book) saw(f file, rank int) {
	s := b.held[f.fileNumber]
	switch {
	case s == nil && len(b.held) == maxSightings:
	case s == nil || !s.born.Equal(f.born):
		b.held[f.fileNumber] = &sighting{f.born, []int{rank}}
	case !slices.Contains(s.ranks, rank):
		s.ranks = append(s.ranks, rank)
	}
}

// An Outcome is what was found when all processes were gone.
type Outcome struct {
	Freed      []job.Remnant // also those that could not be
	Semaphores int           // sets of semaphores of this user that were made meanwhile: whose, nobody knows
}
