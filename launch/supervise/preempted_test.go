package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/preempt"
)

// A job gives way, and goes on when all of its CPUs are free again (survive.md SV-33): each line is an event, so many seconds after
// the first, and what comes of it.
func TestGivingWay(t *testing.T) {
	bob := Asked{Verb: job.AskYield, User: "bob", UID: 7, Right: job.Anybody, Args: preempt.Words("j-2")}
	eve := Asked{Verb: job.AskYield, User: "eve", UID: 8, Right: job.Anybody}
	ann := func(verb job.Verb) Asked { return Asked{Verb: verb, User: "ann", Right: job.Owner} }
	type line struct {
		at    float64
		event Event
		want  string
	}
	const given = "done of bob: suspended; its CPUs are free for others, its memory is not"
	gives := []line{
		{0, bob, "taken of bob: it is being suspended, watch, stop, preempted by job j-2 (bob): suspended, give up [0 1]"},
		{0, Vacated{Node: 0}, ""},
		{0, Changed{}, ""}, // not all are free yet
		{0, Vacated{Node: 1}, given},
	}
	asked := append(gives[:len(gives):len(gives)], line{1, Changed{}, "look [0 1]"}, line{1, Vacated{Node: 0, Taken: "bob has one", Had: true}, ""}, line{1, Vacated{Node: 1}, ""})
	back := func(at float64) []line {
		return []line{{at, Vacated{Node: 0}, ""}, {at, Vacated{Node: 1}, "take back [0 1]"}, {at, Vacated{Node: 0}, ""}, {at, Vacated{Node: 1}, "continue, goes on after " + job.Clock(time.Duration(at*float64(time.Second)))}}
	}
	then := func(lists ...[]line) (all []line) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	const nobody = "its CPUs were not claimed for 30s: it goes on, and does not give way to bob again until "
	until := time.Unix(1_000_000+30+600, 0).Format(time.TimeOnly)
	for name, lines := range map[string][]line{
		"they are free again":   then(asked, []line{{9, Changed{}, "look [0 1]"}}, back(9), []line{{9, bob, "taken of bob: it is being suspended, watch, stop, preempted by job j-2 (bob): suspended, give up [0 1]"}}),
		"nothing is told of it": then(asked, []line{{10.9, Tick{}, ""}, {11, Tick{}, "look [0 1]"}}, back(11)),
		"many changes":          then(asked, []line{{1.5, Changed{}, ""}, {1.9, Tick{}, ""}, {2, Tick{}, "look [0 1]"}}, back(2)),
		"a change while it looks": then(gives, []line{{1, Changed{}, "look [0 1]"}, {1, Vacated{Node: 0}, ""}, {1.01, Changed{}, ""}, {1.02, Vacated{Node: 1}, ""}, {1.04, Tick{}, ""},
			{1.05, Tick{}, "look [0 1]"}, {1.05, Vacated{Node: 0, Had: true}, ""}, {1.05, Vacated{Node: 1}, "take back [0 1]"}}),
		"somebody is faster": then(asked, []line{{9, Changed{}, "look [0 1]"}, {9, Vacated{Node: 0}, ""}, {9, Vacated{Node: 1}, "take back [0 1]"}, {9, Vacated{Node: 0, Taken: "eve"}, ""},
			{9, Vacated{Node: 1}, "give up [1]"}, {9, Vacated{Node: 1}, ""}, {19, Tick{}, "look [0 1]"}}),
		"nobody comes": then(gives, []line{{2, Changed{}, "look [0 1]"}, {2, Vacated{Node: 0}, ""}, {2, Vacated{Node: 1}, ""}, {12, Tick{}, "look [0 1]"}, {12, Vacated{Node: 0}, ""}, {12, Vacated{Node: 1}, ""},
			{22, Tick{}, "look [0 1]"}, {22, Vacated{Node: 0}, ""}, {22, Vacated{Node: 1}, ""}, {29.9, Tick{}, ""}, {30, Tick{}, "look [0 1]"}, {30, Vacated{Node: 0}, ""},
			{30, Vacated{Node: 1}, nobody + until + ", take back [0 1]"}, {30, Vacated{Node: 0}, ""}, {30, Vacated{Node: 1}, "continue, goes on after 00:00:30"},
			{31, bob, "refused of bob: it gave way to bob, who did not take its CPUs: not again until " + until},
			{31, eve, "taken of eve: it is being suspended, watch, stop, preempted by a job of eve: suspended, give up [0 1]"}}),
		"nobody comes, and a ledger cannot be read": then(gives, []line{{30, Tick{}, "look [0 1]"}, {30, Vacated{Node: 0}, ""},
			{30, Vacated{Node: 1, Notice: "unreadable"}, strings.Replace(nobody, "30s", "30s (b: unreadable)", 1) + until + ", take back [0 1]"}}),
		"somebody else asks, too":       then(gives, []line{{1, eve, "done of eve: its CPUs are free for others"}}),
		"somebody else asks in between": then(gives[:2], []line{{0, eve, "refused of eve: its CPUs are just being claimed, or given up (later)"}}),
		"its user lets it go on": then(asked, []line{{5, ann(job.AskResume), "taken of ann: its CPUs are claimed again, look [0 1]"}, {5, Vacated{Node: 0, Taken: "bob", Had: true}, ""},
			{5, Vacated{Node: 1}, "refused of ann: its CPUs are not free: a: bob (later)"}, {11, Tick{}, "look [0 1]"}}, back(11)),
		"its user suspends it, and it does not go on by itself": then(asked, []line{{5, ann(job.AskSuspend), "suspended by ann (--suspend) after 00:00:15; mpiexec --resume-job  goes on, done of ann: suspended; its CPUs are free for others"},
			{6, ann(job.AskSuspend), "refused of ann: already suspended"}, {11, Changed{}, ""}, {99, Tick{}, ""}, {100, ann(job.AskResume), "taken of ann: its CPUs are claimed again, look [0 1]"}}),
		"its user suspends it at once": then(gives[:2], []line{{0, ann(job.AskSuspend), "suspended by ann (--suspend) after 00:00:10; mpiexec --resume-job  goes on, done of ann: suspended; its CPUs are free for others"},
			{1, Vacated{Node: 1}, given}, {99, Tick{}, ""}}),
		"its user suspends it while it looks": then(asked[:len(asked)-2], []line{{5, ann(job.AskSuspend), "refused of ann: its CPUs are just being claimed, or given up (later)"}}),
		"its user has suspended it": {{0, ann(job.AskSuspend), "stop, suspended by ann (--suspend) after 00:00:10; mpiexec --resume-job  goes on, done of ann: suspended"},
			{1, bob, "taken of bob: it is being suspended, give up [0 1]"}, {1, Vacated{Node: 0}, ""}, {1, Vacated{Node: 1}, given}, {99, Changed{}, ""}, {99, Tick{}, ""}},
		"it is ended":            then(asked, []line{{5, ann(job.AskEnd), "taken of ann: the job is ended, end, continue"}, {6, Changed{}, ""}, {6, bob, "refused of bob: the job ends"}}),
		"a node is lost":         then(asked, []line{{5, NodeLost{1, "gone"}, "end, continue"}, {6, Changed{}, ""}}),
		"it ends while it looks": then(asked, []line{{9, Changed{}, "look [0 1]"}, {9, sig(job.SIGTERM), "end, continue"}, {9, Vacated{Node: 0}, ""}, {9, Vacated{Node: 1}, ""}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := play(Rules{Grace: time.Minute, Yields: job.YieldBySuspending}, nil)
			s.began = time.Unix(1_000_000-10, 0)
			for _, l := range lines {
				now := time.Unix(1_000_000, 0).Add(time.Duration(l.at * float64(time.Second)))
				if got := said(s.Step(l.event, now)); got != l.want {
					t.Errorf("%v s, %+v: %q, want %q", l.at, l.event, got, l.want)
				}
			}
		})
	}
}

// said is words, with what the user reads of it.
func said(actions []Action) string {
	var all []string
	for _, action := range actions {
		switch a := action.(type) {
		case Say:
			all = append(all, a.Text)
		case Watch:
			all = append(all, "watch")
		case Requeue:
			all = append(all, "requeue for "+a.By.User)
		default:
			if text := words([]Action{a}); text != "" {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, ", ")
}

// Time that mpiexec was stopped is none in which somebody could have claimed anything; and a job that gives way to nobody says so.
func TestGivingWayWhileStopped(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := play(Rules{Grace: time.Minute, Yields: job.YieldBySuspending}, nil)
	s.Step(Asked{Verb: job.AskYield, User: "bob"}, start)
	s.Step(Vacated{Node: 0}, start)
	s.Step(Vacated{Node: 1}, start)
	if next := s.Next(); !next.Equal(start.Add(preempt.Patience)) {
		t.Errorf("it looks at %v", next)
	}
	s.Shift(time.Hour)
	if next := s.Next(); !next.Equal(start.Add(preempt.Patience + time.Hour)) {
		t.Errorf("it looks at %v", next)
	}
	firm := play(Rules{Grace: time.Minute}, nil)
	if got := said(firm.Step(Asked{Verb: job.AskYield, User: "bob", Right: job.Owner}, start)); got != "refused of bob: it does not give way: it was started without --preemptible" {
		t.Error(got)
	}
}

// A job that gives way by being queued again is ended by whoever has seen to its checkpoint; who tells it to end then has no other attempt.
func TestQueuedAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	bob := Asked{Verb: job.AskYield, User: "bob", UID: 7, Right: job.Anybody}
	running := []any{Started{0}, Started{1}, Started{2}, Started{3}}
	s := play(Rules{Grace: time.Minute, Yields: job.YieldByRequeueing}, running)
	if got := said(s.Step(bob, now)); got != "requeue for bob" {
		t.Errorf("%q", got)
	}
	if got := said(s.Step(Preempted{bob}, now)); got != "end" || !s.Resettles() || s.IsMoved() || s.Cause.End() != job.ByPreemption || s.ToldToEnd() {
		t.Errorf("%q, %+v", got, s.Cause)
	}
	if s.Step(Asked{Verb: job.AskEnd, User: "ann"}, now); !s.ToldToEnd() || s.ExitCode() != 143 {
		t.Errorf("told to end: %+v", s.Cause)
	}
	s = play(Rules{Grace: time.Minute, Yields: job.YieldByRequeueing}, running)
	s.rules.Grudges.Note(7, now)
	if got := said(s.Step(bob, now)); !strings.HasPrefix(got, "refused of bob: it gave way to bob, who did not take its CPUs") {
		t.Errorf("%q", got)
	}
	s = play(Rules{Grace: time.Minute, Yields: job.YieldByRequeueing}, []any{exits(2, 3)})
	if s.Step(Preempted{bob}, now); s.Resettles() || s.ExitCode() != 3 {
		t.Errorf("a failed job gives way: %+v", s.Cause)
	}
}

// A rank that failed and was let be (-disable-auto-cleanup) is no cause for a job that is ended later for another attempt: that one follows.
func TestSettledAnewBesideAFailedRank(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	bob := Asked{Verb: job.AskYield, User: "bob", Right: job.Anybody}
	for want, event := range map[job.EndKind]Event{job.ByPreemption: Preempted{bob}, job.ByMove: Moved{By: bob, To: "n3"}} {
		s := play(Rules{Grace: time.Minute, Ends: job.Ends{KeepOnExit: true}}, []any{Started{0}, Started{1}, Started{2}, Started{3}, exits(2, 3)})
		if !s.Runs() || s.Cause == nil {
			t.Fatalf("the others do not go on: %+v", s.Cause)
		}
		if got := said(s.Step(event, now)); got != "end" || !s.Resettles() || s.Cause.End() != want {
			t.Errorf("%T: %q, %+v", event, got, s.Cause)
		}
	}
}

// Who asks may say anything of the job for which he does.
func TestForWhom(t *testing.T) {
	for word, want := range map[string]string{"for=j-2": "job j-2 (bob)", "for=": "a job of bob", "j-2": "a job of bob", "for=\x1b[2J": "a job of bob", "for=" + strings.Repeat("a", 41): "a job of bob"} {
		if got := (Asked{User: "bob", Args: []string{word}}).Beneficiary(); got != want {
			t.Errorf("%q: %q", word, got)
		}
	}
	if got := fmt.Sprint(preempt.For(nil), preempt.For([]string{"for=a", "for=b"})); got != "" {
		t.Error(got)
	}
}
