//go:build linux

package sysvipc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// at returns a time, in seconds after the job began.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// newTestTracker returns the Tracker of a job of two ranks. Rank 0 has succeeded, and rank 1 has failed after
// 10 s. It has also seen a child process of unknown rank.
func newTestTracker(always bool) *Tracker {
	b := NewTracker(always)
	b.jobStart = at(0)
	b.NoteEnded(Process{PID: 4000, Rank: 0, Started: at(1), Leader: true}, at(9))
	b.NoteEnded(Process{PID: 4001, Rank: 1, Started: at(1), Leader: true}, at(10))
	b.NoteEnded(Process{PID: 4002, Rank: NoRank, Started: at(2)}, at(10))
	b.NoteRankEnd(0, true)
	b.NoteRankEnd(1, false)
	return b
}

// Which segments are freed: each row breaks one of the conditions (PD-18).
func TestSegments(t *testing.T) {
	const us, other = 77, 78
	own := sysvSegment{id: 5, cpid: 4001, uid: us, cuid: us, changed: at(5).Unix()}
	with := func(change func(*sysvSegment)) sysvSegment {
		s := own
		change(&s)
		return s
	}
	for _, test := range []struct {
		name   string
		s      sysvSegment
		always bool
		rank   int // its rank; -2: it stays
	}{
		{"that of a rank which failed", own, false, 1},
		{"given to another user, and made by ours", with(func(s *sysvSegment) { s.uid = other }), false, 1},
		{"made by another user", with(func(s *sysvSegment) { s.cuid = other }), false, -2},
		{"attached", with(func(s *sysvSegment) { s.attached = 1 }), false, -2},
		{"made by a process of no job", with(func(s *sysvSegment) { s.cpid = 4003 }), false, -2},
		{"in the second before", with(func(s *sysvSegment) { s.changed = at(0).Unix() }), false, 1},
		{"before the process was there: it has the number of another", with(func(s *sysvSegment) { s.changed = at(-1).Unix() }), false, -2},
		{"in the second after", with(func(s *sysvSegment) { s.changed = at(11).Unix() }), false, 1},
		{"after its end: another has its number", with(func(s *sysvSegment) { s.changed = at(12).Unix() }), false, -2},
		{"that of a rank which ended well", with(func(s *sysvSegment) { s.cpid = 4000 }), false, -2},
		{"the same with always", with(func(s *sysvSegment) { s.cpid = 4000 }), true, 0},
		{"of a child of nobody knows whom, where a rank ended well", with(func(s *sysvSegment) { s.cpid = 4002 }), false, -2},
		{"the same with always", with(func(s *sysvSegment) { s.cpid = 4002 }), true, NoRank},
	} {
		got := -2
		for _, left := range newTestTracker(test.always).leftSegments([]sysvSegment{test.s}, us) {
			got = left.rank
		}
		if got != test.rank {
			t.Errorf("%s: rank %d, want %d", test.name, got, test.rank)
		}
	}
	b := newTestTracker(false)
	b.NoteRankEnd(0, false)
	if left := b.leftSegments([]sysvSegment{{cpid: 4002, uid: us, cuid: us, changed: at(5).Unix()}}, us); len(left) != 1 {
		t.Errorf("of a child of nobody knows whom, where all ranks failed: %v", left)
	}
}

// Which files are freed: each row breaks one of the conditions (PD-19).
func TestFiles(t *testing.T) {
	const us, other = 77, 78
	seen := file{name: "x.1", fileNumber: fileNumber{26, 5}, uid: us, plain: true, createdAt: at(5)}
	named := file{name: "psm.4001-a", fileNumber: fileNumber{26, 9}, uid: us, plain: true, createdAt: at(5)}
	change := func(f file, change func(*file)) file {
		change(&f)
		return f
	}
	for _, test := range []struct {
		name   string
		f      file
		holder int
		rank   int // its rank; -2: it stays
	}{
		{"seen in the hands of a rank that failed", seen, 1, 1},
		{"seen in those of one that ended well", seen, 0, -2},
		{"of another user", change(seen, func(f *file) { f.uid = other }), 1, -2},
		{"a link, a pipe, a folder", change(seen, func(f *file) { f.plain = false }), 1, -2},
		{"older than the job", change(seen, func(f *file) { f.createdAt = at(-0.001) }), 1, -2},
		{"of unknown age", change(seen, func(f *file) { f.createdAt = time.Time{} }), 1, -2},
		{"another one with its name", change(seen, func(f *file) { f.fileNumber.number++ }), 1, -2},
		{"another one with its inode", change(seen, func(f *file) { f.createdAt = at(6) }), 1, -2},
		{"on another file system", change(seen, func(f *file) { f.fileNumber.dev++ }), 1, -2},
		{"it has the number of a rank that failed", named, -2, 1},
		{"that of one that ended well", change(named, func(f *file) { f.name = "psm.4000-a" }), -2, -2},
		{"its number is a part of another", change(named, func(f *file) { f.name = "psm.14001" }), -2, -2},
		{"that of a process that is no rank", change(named, func(f *file) { f.name = "psm.4002" }), -2, -2},
		{"made before that rank", change(named, func(f *file) { f.createdAt = at(0.5) }), -2, -2},
		{"made after it", change(named, func(f *file) { f.createdAt = at(10.5) }), -2, -2},
		{"no number at all", change(named, func(f *file) { f.name = "psm" }), -2, -2},
		{"a number beyond all", change(named, func(f *file) { f.name = strings.Repeat("9", 200) }), -2, -2},
	} {
		b := newTestTracker(false)
		if test.holder != -2 {
			b.noteHeld(seen, test.holder)
		}
		got := -2
		for _, left := range b.leftFiles([]file{test.f}, us) {
			got = left.rank
		}
		if got != test.rank {
			t.Errorf("%s: rank %d, want %d", test.name, got, test.rank)
		}
	}
}

// Small numbers in names are not taken for process numbers, because containers number processes from 1.
func TestSmallNumbersInNames(t *testing.T) {
	b := newTestTracker(false)
	b.NoteEnded(Process{PID: 7, Rank: 1, Started: at(1), Leader: true}, at(10))
	if left := b.leftFiles([]file{{name: "result.7", uid: 77, plain: true, createdAt: at(5)}}, 77); left != nil {
		t.Errorf("freed would be %v", left)
	}
}

// A file that both a failed and a successful rank held stays: the latter may mean it for the next program.
func TestFileOfSeveralRanks(t *testing.T) {
	b := newTestTracker(false)
	f := file{name: "x", fileNumber: fileNumber{26, 5}, uid: 77, plain: true, createdAt: at(5)}
	b.noteHeld(f, 1)
	b.noteHeld(f, 0)
	if left := b.leftFiles([]file{f}, 77); left != nil {
		t.Errorf("freed would be %v", left)
	}
	b.incomplete, b.freeAll = true, true
	if left := b.leftFiles([]file{f}, 77); left != nil {
		t.Errorf("after a look that took too long: %v", left)
	}
}

// Two processes of the job with the same number are told apart. And the number of records is limited.
func TestLifetimes(t *testing.T) {
	b := newTestTracker(false)
	b.NoteEnded(Process{PID: 4001, Rank: 0, Started: at(20)}, at(21))
	b.noteProcess(Process{PID: 4001, Rank: 0, Started: at(20.01)}, at(22)) // the same, by a clock that was set
	var lives []string
	for _, l := range b.lifetimes[4001] {
		lives = append(lives, fmt.Sprint(l.Rank, l.lastSeen.Sub(at(0))))
	}
	if want := []string{"1 10s", "0 22s"}; !slices.Equal(lives, want) {
		t.Errorf("%q, want %q", lives, want)
	}
	for pid := range 2 * maxProcesses {
		b.NoteEnded(Process{PID: 10_000 + pid, Started: at(1)}, at(2))
	}
	for i := range 2 * maxHeldFiles {
		b.noteHeld(file{fileNumber: fileNumber{26, uint64(i)}}, 1)
	}
	if b.lifetimeCount != maxProcesses || len(b.heldFiles) != maxHeldFiles {
		t.Errorf("%d lives and %d files are kept", b.lifetimeCount, len(b.heldFiles))
	}
}

// A node whose ranks all succeeded has no work.
func TestHasWork(t *testing.T) {
	var none *Tracker
	for _, always := range []bool{false, true} {
		b := NewTracker(always)
		if b.HasWork() {
			t.Error("before any rank has ended")
		}
		if b.NoteRankEnd(0, true); b.HasWork() != always {
			t.Errorf("always %v: after a good end %v", always, b.HasWork())
		}
		if b.NoteRankEnd(1, false); !b.HasWork() {
			t.Error("after a bad one it is not")
		}
	}
	if none.HasWork() || len(none.Free().Freed) > 0 {
		t.Error("no book frees something")
	}
}
