package sampler

import (
	"maps"
	"testing"
	"time"

	"remshell/job"
)

// helper is the helper's PID in these tests; rank 0 has PID 70, rank 1 has 80.
const helper = 50

var roots = map[int]int{70: 0, 80: 1}

// testProcess returns a process with CPU seconds and memory; its address space is ten times as large.
func testProcess(pid, parent, group int, seconds, mem int64) Process {
	return Process{PID: pid, Parent: parent, Group: group, StartTicks: uint64(pid),
		UsageSample: job.UsageSample{CPU: time.Duration(seconds) * time.Second, Mem: mem, VMem: 10 * mem}}
}

// withHelper adds the processes of every machine: init, the reaper, the helper, another user's.
func withHelper(others ...Process) []Process {
	return append([]Process{testProcess(1, 0, 1, 99, 99), testProcess(40, 1, 40, 5, 5), testProcess(helper, 40, 40, 7, 7), testProcess(60, 1, 60, 8, 8), testProcess(61, 60, 60, 8, 8)}, others...)
}

func TestOwners(t *testing.T) {
	nobody := func(int) int { return NoRank }
	for _, test := range []struct {
		name   string
		passes [][]Process
		groups map[int]int
		ask    func(pid int) int
		ranks  map[int]int64 // memory
		host   int64
	}{
		{"ranks alone", [][]Process{withHelper(testProcess(70, helper, 70, 1, 10), testProcess(80, helper, 80, 1, 20))}, nil, nobody, map[int]int64{0: 10, 1: 20}, 30},
		{"children and theirs", [][]Process{withHelper(testProcess(70, helper, 70, 1, 10), testProcess(71, 70, 71, 1, 3), testProcess(72, 71, 72, 1, 4))}, nil, nobody, map[int]int64{0: 17}, 17},
		{"a rank below a rank is its own", [][]Process{withHelper(testProcess(70, helper, 70, 1, 10), testProcess(80, 70, 80, 1, 3))}, nil, nobody, map[int]int64{0: 10, 1: 3}, 13},
		{"an orphan, by its group", [][]Process{withHelper(testProcess(71, helper, 80, 1, 3))}, map[int]int{80: 1}, nobody, map[int]int64{1: 3}, 3},
		{"an orphan that had been seen", [][]Process{withHelper(testProcess(70, helper, 70, 1, 10), testProcess(71, 70, 71, 1, 3)), withHelper(testProcess(71, helper, 71, 1, 4))}, nil, nobody, map[int]int64{0: 4}, 4},
		{"another with the number of one that had been seen", [][]Process{withHelper(testProcess(70, helper, 70, 1, 10), testProcess(71, 70, 71, 1, 3)),
			withHelper(Process{PID: 71, Parent: helper, Group: 71, StartTicks: 1000, UsageSample: job.UsageSample{Mem: 4}})}, nil, nobody, map[int]int64{0: 0, NoRank: 4}, 4},
		{"an orphan, by its environment", [][]Process{withHelper(testProcess(71, helper, 71, 1, 3), testProcess(72, 71, 71, 1, 4))}, nil, func(pid int) int {
			if pid == 71 {
				return 1
			}
			return NoRank
		}, map[int]int64{1: 7}, 7},
		{"nobody's", [][]Process{withHelper(testProcess(71, helper, 71, 1, 3), testProcess(72, 71, 71, 1, 4))}, nil, nobody, map[int]int64{NoRank: 7}, 7},
		{"nobody's child that has joined a rank's group", [][]Process{withHelper(testProcess(71, helper, 71, 1, 3), testProcess(72, 71, 80, 1, 4))}, map[int]int{80: 1}, nobody, map[int]int64{1: 4, NoRank: 3}, 7},
		{"ssh, and what is below it", [][]Process{withHelper(testProcess(90, helper, 90, 1, 50), testProcess(91, 90, 90, 1, 50), testProcess(70, helper, 70, 1, 1))}, nil, nobody, map[int]int64{0: 1}, 1},
		{"parents in a circle", [][]Process{withHelper(testProcess(100, 101, 100, 1, 3), testProcess(101, 100, 100, 1, 3), testProcess(102, 102, 102, 1, 3))}, nil, nobody, nil, 0},
		{"a parent that is gone", [][]Process{withHelper(testProcess(100, 99, 100, 1, 3))}, nil, nobody, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var book Tracker
			var ranks map[int]job.UsageSample
			var host job.UsageSample
			for _, all := range test.passes {
				ranks, host = book.SumByRank(all, Ownership{Helper: helper, RankByPID: roots, RankByGroup: test.groups, RankFromEnviron: test.ask, NotOfJob: func(pid int) bool { return pid == 90 }})
			}
			got := make(map[int]int64)
			for rank, s := range ranks {
				if got[rank] = s.Mem; s.VMem != 10*s.Mem && s.Mem != 4 {
					t.Errorf("rank %d has %+v", rank, s)
				}
			}
			if !maps.Equal(got, test.ranks) && len(got)+len(test.ranks) > 0 || host.Mem != test.host {
				t.Errorf("ranks %v, host %d, want %v, %d", got, host.Mem, test.ranks, test.host)
			}
		})
	}
}

// Time never falls: an ended process counts once, whichever way its end is learned first (example 21).
func TestTimeOfProcessesThatEnd(t *testing.T) {
	var book Tracker
	take := func(others ...Process) time.Duration {
		ranks, _ := book.SumByRank(withHelper(others...), Ownership{Helper: helper, RankByPID: roots})
		return ranks[0].CPU
	}
	rank, grandchild := testProcess(70, helper, 70, 1, 1), testProcess(72, 71, 72, 2, 1)
	for i, step := range []struct {
		reaped int // a PID reaped before this pass
		spent  time.Duration
		all    []Process
		want   time.Duration
	}{
		{0, 0, []Process{rank, testProcess(71, 70, 70, 0, 1), grandchild}, 3 * time.Second},
		{0, 0, []Process{rank, testProcess(72, helper, 72, 2, 1)}, 3 * time.Second},
		{70, time.Second, []Process{rank, testProcess(72, helper, 72, 2, 1)}, 3 * time.Second}, // read before it was reaped
		{0, 0, []Process{testProcess(72, helper, 72, 2, 1)}, 3 * time.Second},
		{0, 0, nil, 3 * time.Second}, // reaped, but not reported yet
		{72, 2 * time.Second, nil, 3 * time.Second},
		{0, 0, nil, 3 * time.Second},
	} {
		if step.reaped != 0 {
			owner, known := book.Owner(step.reaped)
			if !known || owner != 0 {
				t.Errorf("step %d: %d is that of %d, %v", i, step.reaped, owner, known)
			}
			book.NoteReaped(step.reaped, owner, step.spent)
		}
		if got := take(step.all...); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	if _, known := book.Owner(72); known {
		t.Error("who is long gone is still known")
	}
}

// A nil Tracker records nothing.
func TestNilTracker(t *testing.T) {
	var book *Tracker
	book.NoteReaped(1, 1, time.Second)
	if _, known := book.Owner(1); known {
		t.Error("a book that is none knows somebody")
	}
}

// All hosts sample at the same times of their clocks.
func TestNextPass(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1e9, 0).Add(time.Duration(s * float64(time.Second))) }
	for _, test := range []struct {
		began, now float64
		every      int
		want       float64
	}{
		{0.3, 0.3, 5, 0.4}, {0.3, 0.4, 5, 1}, {0.3, 1, 5, 2}, {0.3, 9.99, 5, 10},
		{0.3, 10.2, 5, 11}, {0.3, 11, 5, 15}, {0.3, 15.001, 5, 20}, {0.3, 16, 1, 17},
		{0.3, 0.3, 30, 0.4}, {0.3, 0.4, 30, 20}, {0.3, 20.5, 30, 50},
	} {
		if got := NextPass(at(test.began), at(test.now), time.Duration(test.every)*time.Second); !got.Equal(at(test.want)) {
			t.Errorf("began %v, now %v: %v, want %v", test.began, test.now, got.Sub(at(0)), test.want)
		}
	}
}
