package supervise

import (
	"testing"
	"time"

	"remshell/job"
)

// A suspended job goes on for a checkpoint, and stands still again behind it (survive.md SV-16): each line is an event, so many seconds
// after the first, and what comes of it.
func TestRespite(t *testing.T) {
	ann := func(verb job.Verb) Asked { return Asked{Verb: verb, User: "ann", Right: job.Owner} }
	bob := Asked{Verb: job.AskYield, User: "bob", UID: 7, Right: job.Anybody}
	type line struct {
		at    float64
		event Event
		want  string
	}
	const (
		goesOn = "continue, goes on for a checkpoint, and stands still again then"
		stands = "stop, stands still again behind its checkpoint"
		given  = "suspended; its CPUs are free for others, its memory is not"
		meant  = "a checkpoint is being written; suspended again then"
	)
	then := func(lists ...[]line) (all []line) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	held := []line{{0, ann(job.AskSuspend), "stop, suspended by ann (--suspend) after 00:00:00; mpiexec --resume-job  goes on, done of ann: suspended"}}
	vacant := []line{{0, ann(job.AskSuspendFree), "stop, suspended by ann (--suspend=free) after 00:00:00; mpiexec --resume-job  goes on, taken of ann: suspended, give up [0 1]"},
		{0, Vacated{Node: 0}, ""}, {0, Vacated{Node: 1}, "done of ann: " + given}}
	saves := []line{{10, ann(job.AskCheckpoint), goesOn + ", checkpoint"}}
	looks := []line{{10, ann(job.AskCheckpoint), "taken of ann: its CPUs are claimed for a checkpoint, look [0 1]"}, {10, Vacated{Node: 0}, ""}}
	gave := []line{{0, bob, "taken of bob: it is being suspended, watch, stop, preempted by a job of bob: suspended, give up [0 1]"}, {0, Vacated{Node: 0}, ""}, {0, Vacated{Node: 1}, "done of bob: " + given}}
	takes := append(looks[:2:2], line{10, Vacated{Node: 1}, "take back [0 1]"}, line{10, Vacated{Node: 0}, ""}, line{10, Vacated{Node: 1}, goesOn + ", checkpoint"})
	for name, lines := range map[string][]line{
		"and again":                {{0, ann(job.AskCheckpoint), "checkpoint"}, {1, Relieved{}, ""}},
		"it stands again":          then(held, saves, []line{{12, Relieved{}, stands}, {13, Relieved{}, ""}, {20, ann(job.AskResume), "continue, goes on after 00:00:08, done of ann: goes on"}}),
		"it is to go on":           then(held, saves, []line{{11, ann(job.AskResume), "goes on, done of ann: goes on"}, {12, Relieved{}, ""}, {13, ann(job.AskResume), "refused of ann: not suspended"}}),
		"it is to be suspended":    then(held, saves, []line{{11, ann(job.AskSuspend), "refused of ann: already suspended: it goes on for a checkpoint alone"}}),
		"others want its CPUs":     then(held, saves, []line{{11, ann(job.AskSuspendFree), "taken of ann: " + meant}, {12, Relieved{}, stands + ", give up [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, "done of ann: " + given}}),
		"it is to give way":        then(held, saves, []line{{11, bob, "taken of bob: " + meant}, {11, bob, "refused of bob: its CPUs are just being given up for somebody else who has asked (later)"}, {12, Relieved{}, stands + ", give up [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, "done of bob: " + given}}),
		"and is to go on after":    then(held, saves, []line{{11, bob, "taken of bob: " + meant}, {12, ann(job.AskResume), "goes on, done of ann: goes on, refused of bob: it goes on: somebody wants it to (later)"}}),
		"it fails":                 then(held, saves, []line{{11, bob, "taken of bob: " + meant}, {12, exits(2, 3), "end, refused of bob: the job ends"}, {12, Relieved{}, ""}}),
		"another one is asked for": then(held, saves, []line{{11, ann(job.AskCheckpoint), "checkpoint"}, {12, Relieved{}, stands}}),
		"it has its CPUs again":    then(vacant, takes, []line{{12, Relieved{}, stands + ", give up [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, ""}, {13, ann(job.AskSuspendFree), "refused of ann: already suspended"}}),
		"others have them":         then(vacant, looks, []line{{10, Vacated{Node: 1, Taken: "eve"}, "refused of ann: its CPUs are not free: b: eve (later)"}}),
		"it looks for somebody":    then(vacant, looks, []line{{10, ann(job.AskCheckpoint), "refused of ann: its CPUs are just being claimed, or given up, for somebody else who has asked (later)"}}),
		"it gave way":              then(gave, takes, []line{{12, Relieved{}, stands + ", give up [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, ""}, {42, Tick{}, "look [0 1]"}}),
		"it gave way, and is to be suspended": then(gave, takes, []line{{11, ann(job.AskSuspend), "suspended by ann (--suspend) after 00:00:11; mpiexec --resume-job  goes on, done of ann: suspended again behind its checkpoint; then its CPUs are free for others"},
			{11, ann(job.AskSuspend), "refused of ann: already suspended: it goes on for a checkpoint alone"}, {12, Relieved{}, stands + ", give up [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, ""}, {42, Tick{}, ""}}),
		"it is to be moved":       then(vacant, []line{{10, ann(job.AskMigrate), "refused of ann: suspended: others may have its CPUs, so that it cannot write a checkpoint; --resume-job first"}, {10, Relieve{}, ""}}),
		"it is about to be moved": then(held, []line{{10, ann(job.AskMigrate), "move"}, {11, Relieve{}, goesOn}, {12, Relieved{}, stands}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := play(Rules{Grace: time.Minute, Yields: job.YieldBySuspending}, nil)
			s.began = time.Unix(1_000_000, 0)
			for _, l := range lines {
				if got := said(s.Step(l.event, s.began.Add(time.Duration(l.at*float64(time.Second))))); got != l.want {
					t.Errorf("%v s, %+v: %q, want %q", l.at, l.event, got, l.want)
				}
			}
		})
	}
	unable := play(Rules{Unsaved: true}, nil)
	unable.Step(ann(job.AskSuspend), time.Unix(1_000_100, 0))
	if got := said(unable.Step(ann(job.AskCheckpoint), time.Unix(1_000_100, 0))); got != "checkpoint" || !unable.Held() {
		t.Errorf("a job that can write none goes on for one: %q", got)
	}
}

// The times of a job run while it goes on for a checkpoint, and stand still before and behind it.
func TestTimeRunsInARespite(t *testing.T) {
	s := play(Rules{Grace: time.Minute, Timeout: time.Hour}, nil)
	began, due := s.Began(), s.Next()
	s.Step(Asked{Verb: job.AskSuspend}, began.Add(10*time.Minute))
	s.Step(Asked{Verb: job.AskCheckpoint}, began.Add(20*time.Minute))
	if got := s.Next(); !got.Equal(due.Add(10 * time.Minute)) {
		t.Errorf("it is due at %v", got)
	}
	s.Step(Relieved{}, began.Add(21*time.Minute))
	if got := s.Next(); !got.IsZero() {
		t.Errorf("it is due at %v, and stands still", got)
	}
	s.Step(Asked{Verb: job.AskResume}, began.Add(31*time.Minute))
	if got := s.Next(); !got.Equal(due.Add(20 * time.Minute)) {
		t.Errorf("it is due at %v in the end", got)
	}
}

// What stood still when it was ended to begin elsewhere does so there; what has failed, or was told to go on, does not.
func TestAJobThatMovesStandsStillThere(t *testing.T) {
	now := time.Unix(1_000_100, 0)
	suspend, moved := Asked{Verb: job.AskSuspendFree, User: "ann"}, Moved{By: Asked{User: "ann"}, To: "n3"}
	running := []any{Started{0}, Started{1}, Started{2}, Started{3}, Asked{Verb: job.AskSuspend, User: "ann"}}
	for _, test := range []struct {
		name   string
		events []any
		stands bool
	}{
		{"suspended", append(running, moved), true},
		{"in a respite", append(running, Relieve{}, moved), true},
		{"told to go on", append(running, Asked{Verb: job.AskResume}, moved), false},
		{"told to go on in a respite", append(running, Relieve{}, Asked{Verb: job.AskResume}, moved), false},
		{"failed", append(running, exits(2, 3)), false},
	} {
		s := play(Rules{Grace: time.Minute}, test.events)
		if got := s.Stands().Verb == job.AskSuspend; got != test.stands {
			t.Errorf("%s: it stands still in its new place: %v", test.name, got)
		}
	}
	s := play(Rules{Grace: time.Minute}, nil)
	s.began = now
	const want = "stop, suspended by ann (--suspend=free) after 00:00:00; mpiexec --resume-job  goes on, give up [0 1]"
	if got := said(s.Step(Suspended{By: suspend}, now)); got != want || !s.Held() || !s.Vacant() {
		t.Errorf("%q, want %q", got, want)
	}
}
