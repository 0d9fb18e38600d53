package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

var start = time.Unix(1_000_000, 0)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// A story is a job with a rank on each of two nodes, watched for 60 s.
type story struct {
	t *testing.T
	*Watch
	reading Reading
}

func newStory(t *testing.T, plain bool) *story {
	s := &story{t, NewWatch(Policy{After: time.Minute, Plain: plain}, []int{0, 1}), Reading{Size: 2}}
	s.groups("MPI_Barrier", job.StackRuns, "MPI_Recv", job.StackRuns)
	return s
}

// groups sets what the stacks say: two words for each rank.
func (s *story) groups(words ...any) {
	s.reading.Groups, s.reading.Calls = nil, nil
	for i := 0; i < len(words); i += 2 {
		s.reading.Groups = append(s.reading.Groups, job.StackGroup{Ranks: []int{i / 2}, Threads: 1, State: words[i+1].(job.StackState)})
		s.reading.Calls = append(s.reading.Calls, words[i].(string))
	}
}

// quiet makes both nodes report that nothing has changed since second 0.
func (s *story) quiet(now float64, awake ...int) {
	for key := range 2 {
		s.AddReport(key, Report{For: time.Duration(now * float64(time.Second)), PMI: true, Awake: awake}, at(now))
	}
}

// run lets the time pass until a second, and returns the seconds of reports.
func (s *story) run(from, until float64) (reports []float64) {
	for now := from; now <= until; now += 0.5 {
		if read, _ := s.NextReading(at(now)); read {
			if v := s.AddReading(s.reading, at(now)); v.Hangs {
				if v.Quiet != at(now).Sub(start) {
					s.t.Errorf("at %v: quiet for %v", now, v.Quiet)
				}
				reports = append(reports, now)
			}
		}
	}
	return reports
}

// A job in which no rank can go on is reported at 60 s and at doubled times. It is not while a rank may go on.
func TestWatch(t *testing.T) {
	for _, test := range []struct {
		name  string
		plain bool
		tell  func(*story)
		want  string
	}{
		{"all wait in MPI", false, func(s *story) { s.quiet(54) }, "[60 120 240]"},
		{"one node changes", false, func(s *story) { s.quiet(54); s.AddReport(1, Report{}, at(54)) }, "[]"},
		{"one node has not reported", false, func(s *story) { s.quiet(54); s.AddNode(2) }, "[]"},
		{"no rank has called PMI", false, func(s *story) {
			s.quiet(54)
			for _, n := range s.nodes {
				n.PMI = false
			}
		}, "[]"},
		{"no rank has called PMI, with --hang", true, func(s *story) {
			s.quiet(54)
			for _, n := range s.nodes {
				n.PMI = false
			}
		}, "[60 120 240]"},
		{"one waits for standard input", false, func(s *story) { s.quiet(54); s.nodes[1].User = true }, "[]"},
		{"one computes", false, func(s *story) { s.quiet(54); s.groups("MPI_Barrier", job.StackRuns, "", job.StackRuns) }, "[]"},
		{"one waits in the kernel", false, func(s *story) { s.quiet(54); s.groups("MPI_Barrier", job.StackRuns, "", job.StackBlocked) }, "[60 120 240]"},
		{"that one is awake at times", false, func(s *story) { s.quiet(54, 1); s.groups("MPI_Barrier", job.StackRuns, "", job.StackSleeps) }, "[]"},
		{"one in MPI uses a CPU", false, func(s *story) { s.quiet(54, 0, 1) }, "[60 120 240]"},
		{"one is stopped", false, func(s *story) { s.quiet(54, 1); s.groups("MPI_Barrier", job.StackRuns, "", job.StackStopped) }, "[60 120 240]"},
		{"one has ended", false, func(s *story) { s.quiet(54); s.groups("MPI_Barrier", job.StackRuns, "", job.StackEnded) }, "[60 120 240]"},
		{"one moves", false, func(s *story) { s.quiet(54); s.reading.Moved = []int{1} }, "[]"},
		{"a thread of one computes", false, func(s *story) { s.quiet(54); s.reading.Computing = []int{1} }, "[]"},
		{"they wait for another job", false, func(s *story) {
			s.quiet(54)
			s.groups("MPI_Comm_accept", job.StackRuns, "MPI_Comm_accept", job.StackRuns)
		}, "[]"},
		{"one is not read", false, func(s *story) { s.quiet(54); s.groups("MPI_Barrier", job.StackRuns) }, "[]"},
		{"a debugger traces one", false, func(s *story) { s.quiet(54); s.reading.Groups[1].Note = "process 7 traces it already" }, "[]"},
		{"suspended", false, func(s *story) { s.quiet(54); s.Suspend(true, at(54)) }, "[]"},
		{"resumed", false, func(s *story) { s.quiet(54); s.Suspend(true, at(54)); s.Suspend(false, at(100)) }, "[160 220]"},
		{"no node is left", false, func(s *story) { s.quiet(54); s.RemoveNode(0); s.RemoveNode(1) }, "[]"},
	} {
		s := newStory(t, test.plain)
		test.tell(s)
		if s.resumed.IsZero() {
			if got := fmt.Sprint(s.run(54, 300)); got != test.want {
				t.Errorf("%s: reports at %s, want %s", test.name, got, test.want)
			}
			continue
		}
		var reports []float64
		for now := 100.0; now <= 300; now += 0.5 {
			if read, _ := s.NextReading(at(now)); read {
				if s.AddReading(s.reading, at(now)).Hangs {
					reports = append(reports, now)
				}
			}
		}
		if got := fmt.Sprint(reports); got != test.want {
			t.Errorf("%s: reports at %s, want %s", test.name, got, test.want)
		}
	}
}

// A change between two readings starts the time anew, also the doubled one.
func TestChangeStartsAnew(t *testing.T) {
	s := newStory(t, false)
	s.quiet(54)
	if got := s.run(54, 100); !slices.Equal(got, []float64{60}) {
		t.Fatal(got)
	}
	s.AddReport(0, Report{}, at(100))
	s.AddReport(0, Report{For: 54 * time.Second, PMI: true}, at(154))
	for now := 154.0; now < 200; now += 0.5 {
		if read, _ := s.NextReading(at(now)); read {
			if v := s.AddReading(s.reading, at(now)); v.Hangs {
				if now != 160 || v.Quiet != time.Minute {
					t.Errorf("at %v: %v", now, v.Quiet)
				}
				return
			}
		}
	}
	t.Error("not reported again")
}

// While stacks are read, no other reading begins. What has changed meanwhile counts.
func TestChangeDuringAReading(t *testing.T) {
	s := newStory(t, false)
	s.quiet(54)
	if read, _ := s.NextReading(at(54)); !read {
		t.Fatal("the stacks are not read")
	}
	if read, _ := s.NextReading(at(60)); read {
		t.Error("two readings at a time")
	}
	s.AddReport(0, Report{}, at(60))
	if v := s.AddReading(s.reading, at(61)); v.Why == "" || v.Quiet != 61*time.Second || s.round != 0 {
		t.Errorf("a reading counts although something has changed: %+v", v)
	}
}

// A node reports when nothing has changed for nine tenths of the time, and when something changes again.
func TestTracker(t *testing.T) {
	tracker := Tracker{After: time.Minute}
	now, signature := 0.0, uint64(1)
	var sent []string
	take := func(rank RankSample) {
		r, send, next := tracker.Add(Sample{At: at(now), Signature: signature, PMI: true, Ranks: map[int]RankSample{3: rank}}, false)
		if send {
			sent = append(sent, fmt.Sprintf("%v: %v %v", now, r.For, r.Awake))
		}
		now += next.Seconds()
	}
	for now < 61 {
		take(RankSample{})
	}
	cpu := time.Duration(0)
	for now < 71 {
		cpu += time.Second
		take(RankSample{CPU: cpu})
	}
	take(RankSample{CPU: cpu})
	take(RankSample{CPU: cpu, Wakeup: 1})
	signature++
	take(RankSample{CPU: cpu})
	take(RankSample{CPU: cpu})
	want := []string{"54: 54s []", "59: 59s []", "64: 1m4s [3]", "69: 1m9s [3]", "75: 1m15s [3]", "81: 1m21s [3]", "88: 0s []"}
	for i := range want {
		if i >= len(sent) || !closeTo(sent[i], want[i]) {
			t.Fatalf("%q, want about %q", sent, want)
		}
	}
	if len(sent) != len(want) {
		t.Errorf("%q, want %q", sent, want)
	}
}

// What a reading of stacks does to a rank does not count as a sign of life.
func TestTrackerAfterReading(t *testing.T) {
	tracker := Tracker{After: time.Minute}
	awake := func(now float64, wakeup uint64, reading bool) int {
		r, _, _ := tracker.Add(Sample{At: at(now), Ranks: map[int]RankSample{3: {Wakeup: wakeup}}}, reading)
		return len(r.Awake)
	}
	for _, step := range []struct {
		now     float64
		wakeup  uint64
		reading bool
		awake   int
	}{{0, 1, false, 0}, {30, 1, false, 0}, {54, 1, true, 0}, {55, 2, false, 0}, {60, 3, false, 0}, {90, 3, false, 0}, {114, 3, true, 0}, {180, 4, false, 1}} {
		if got := awake(step.now, step.wakeup, step.reading); got != step.awake {
			t.Errorf("at %v: %d ranks are awake, want %d", step.now, got, step.awake)
		}
	}
}

// A job that is quiet for days takes no more memory, and a rank that was awake an hour ago does not count for ever.
func TestTrackerForDays(t *testing.T) {
	tracker := Tracker{After: time.Minute}
	cpu, awake := time.Duration(0), 0
	for now := 0.0; now < 7*24*3600; {
		if now < 3600 {
			cpu += time.Minute
		}
		r, _, next := tracker.Add(Sample{At: at(now), Ranks: map[int]RankSample{3: {CPU: cpu}}}, false)
		awake = len(r.Awake)
		if now > 60 && now < 3600 && awake != 1 {
			t.Fatalf("at %v: rank 3 is not awake", now)
		}
		now += next.Seconds()
	}
	if awake != 0 || len(tracker.earlier) > maxEarlier {
		t.Errorf("after a week: %d ranks are awake, %d samples are kept", awake, len(tracker.earlier))
	}
}

// The rank that is named is the one that is awake, not another rank in the same call.
func TestNamesTheRankThatIsAwake(t *testing.T) {
	s := newStory(t, false)
	s.quiet(54, 1)
	s.reading.Groups = []job.StackGroup{{Ranks: []int{0, 1}, Threads: 2, State: job.StackSleeps}}
	s.reading.Calls = []string{""}
	s.NextReading(at(54))
	if v := s.AddReading(s.reading, at(54)); !strings.Contains(v.Why, "rank 1 ") {
		t.Errorf("%q", v.Why)
	}
}

// A rank that slept for a limited time when a reading began counts as awake in the reports during the reading.
func TestTrackerDuringAReading(t *testing.T) {
	tracker := Tracker{After: 2 * time.Second}
	awake := func(now float64, sleeps, reading bool, signature uint64) int {
		r, _, _ := tracker.Add(Sample{At: at(now), Signature: signature, Ranks: map[int]RankSample{3: {Sleeps: sleeps}}}, reading)
		return len(r.Awake)
	}
	for i, step := range []struct {
		now             float64
		sleeps, reading bool
		signature       uint64
		awake           int
	}{{0, false, false, 1, 0}, {1, false, false, 1, 0}, {2, true, true, 1, 1}, {2.1, false, false, 1, 1}, {3.5, false, false, 1, 1}, {4, false, true, 1, 0}, {5, true, true, 1, 1}, {6, false, false, 2, 0}, {9, false, false, 2, 0}} {
		if got := awake(step.now, step.sleeps, step.reading, step.signature); got != step.awake {
			t.Errorf("step %d: %d ranks are awake, want %d", i, got, step.awake)
		}
	}
}

// closeTo reports whether two lines differ by less than two seconds.
func closeTo(a, b string) bool {
	var at1, at2 float64
	var for1, for2, awake1, awake2 string
	fmt.Sscanf(a, "%g: %s %s", &at1, &for1, &awake1)
	fmt.Sscanf(b, "%g: %s %s", &at2, &for2, &awake2)
	d1, _ := time.ParseDuration(for1)
	d2, _ := time.ParseDuration(for2)
	return at1-at2 < 2 && at2-at1 < 2 && (d1-d2).Abs() < 2*time.Second && awake1 == awake2
}
