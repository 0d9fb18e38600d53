package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// words are actions as TestVacancy has them: what nodes are told, and what the asker is.
func words(actions []Action) string {
	var all []string
	for _, action := range actions {
		switch a := action.(type) {
		case Vacate:
			all = append(all, fmt.Sprintf("%s %v", a.What, a.Nodes))
		case Hold:
			all = append(all, map[bool]string{true: "stop", false: "continue"}[a.On])
		case Reply:
			later := map[bool]string{true: " (later)"}[a.Later]
			all = append(all, fmt.Sprintf("%s of %s: %s%s", a.State, a.To.User, a.Text, later))
		case EndAll:
			all = append(all, "end")
		}
	}
	return strings.Join(all, ", ")
}

// late is the moment at which a node is waited for no more.
type late struct{}

// A node that never says that it has given up its CPUs keeps nobody from asking for anything else.
func TestANodeIsSilentAboutItsCPUs(t *testing.T) {
	ask := func(verb job.Verb) Asked { return Asked{Verb: verb, User: "ann", Right: job.Owner} }
	s := play(Rules{Grace: time.Minute}, nil)
	now := time.Unix(1_000_010, 0)
	s.Step(ask(job.AskSuspendFree), now)
	s.Step(Vacated{Node: 0}, now)
	if got := s.Step(Tick{}, now.Add(cpusPatience-1)); got != nil {
		t.Errorf("before its time is over: %q", words(got))
	}
	s.Shift(time.Hour) // mpiexec was stopped
	now = now.Add(time.Hour)
	if s.Next() != now.Add(cpusPatience) {
		t.Errorf("it is waited for until %v, not %v", s.Next(), now.Add(cpusPatience))
	}
	const want = "done of ann: suspended; its CPUs are free for others, its memory is not (b: no answer for 30s, it may claim its CPUs still)"
	if got := words(s.Step(Tick{}, s.Next())); got != want || !s.Next().IsZero() {
		t.Errorf("%q, want %q", got, want)
	}
	if got := words(s.Step(ask(job.AskResume), now)); got != "taken of ann: its CPUs are claimed again, look [0 1]" {
		t.Errorf("--resume-job: %q", got)
	}
}

// CPUs are given to others, and taken back on all nodes or on none: each line is an event, and what comes of it.
func TestVacancy(t *testing.T) {
	ask := func(verb job.Verb, user string) Asked { return Asked{Verb: verb, User: user, Right: job.Owner} }
	free, resume := ask(job.AskSuspendFree, "ann"), ask(job.AskResume, "ann")
	type line struct {
		event Event
		want  string
	}
	const given = "done of ann: suspended; its CPUs are free for others, its memory is not"
	vacant := []line{
		{free, "stop, taken of ann: suspended, give up [0 1]"},
		{Vacated{Node: 0}, ""},
		{Vacated{Node: 0}, ""}, // twice is once
		{Vacated{Node: 1}, given},
	}
	looks := line{resume, "taken of ann: its CPUs are claimed again, look [0 1]"}
	for name, lines := range map[string][]line{
		"back again": {looks, {Vacated{Node: 1}, ""}, {Vacated{Node: 0}, "take back [0 1]"}, {Vacated{Node: 0}, ""},
			{Vacated{Node: 1}, "continue, done of ann: goes on"}, {resume, "refused of ann: not suspended"}, {free, "stop, taken of ann: suspended, give up [0 1]"}},
		"somebody has one": {looks, {Vacated{Node: 0, Taken: "CPU 3 is bob's"}, ""},
			{Vacated{Node: 1}, "refused of ann: its CPUs are not free: a: CPU 3 is bob's (later)"}, looks},
		"somebody is faster on one": {looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, "take back [0 1]"}, {Vacated{Node: 0}, ""},
			{Vacated{Node: 1, Taken: "CPU 3 is bob's"}, "give up [0]"},
			{ask(job.AskResume, "eve"), "refused of eve: its CPUs are just being claimed, or given up, for somebody else who has asked (later)"},
			{Vacated{Node: 0}, "refused of ann: its CPUs are not free: b: CPU 3 is bob's (later)"}, looks},
		"somebody is faster on both": {looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, "take back [0 1]"}, {Vacated{Node: 0, Taken: "x"}, ""},
			{Vacated{Node: 1, Taken: "y"}, "refused of ann: its CPUs are not free: a: x; b: y (later)"}},
		"the ledger is full": {looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, "take back [0 1]"}, {Vacated{Node: 0}, ""},
			{Vacated{Node: 1, Notice: "not claimed"}, "continue, done of ann: goes on (b: not claimed)"}},
		"it is ended meanwhile": {looks, {Vacated{Node: 0}, ""}, {ask(job.AskEnd, "eve"), "taken of eve: the job is ended, end, continue, refused of ann: the job ends"},
			{Vacated{Node: 1}, ""}},
		"a node is lost meanwhile": {looks, {NodeLost{1, "gone"}, "end, continue, refused of ann: the job ends"}, {Vacated{Node: 0}, ""}},
		"one is silent when it is to look": {looks, {Vacated{Node: 0}, ""}, {late{}, "refused of ann: its CPUs are not free: b: no answer for 30s (later)"},
			looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, ""}, {Vacated{Node: 1}, "take back [0 1]"}},
		"one is silent when it is to take them": {looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, "take back [0 1]"}, {Vacated{Node: 0}, ""},
			{late{}, "give up [0 1]"}, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, ""},
			{Vacated{Node: 1}, "refused of ann: its CPUs are not free: b: no answer for 30s (later)"}},
		"one is silent for ever": {looks, {Vacated{Node: 0}, ""}, {Vacated{Node: 1}, "take back [0 1]"}, {Vacated{Node: 0}, ""},
			{late{}, "give up [0 1]"}, {Vacated{Node: 0}, ""},
			{late{}, "refused of ann: its CPUs are not free: b: no answer for 30s (b: no answer for 30s, it may claim its CPUs still) (later)"}, looks},
		"it is ended": {{sig(job.SIGTERM), "end, continue"}, {resume, "refused of ann: the job ends"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(Rules{Grace: time.Minute}, nil)
			for _, l := range append(vacant[:len(vacant):len(vacant)], lines...) {
				now := time.Unix(1_000_010, 0)
				if _, is := l.event.(late); is {
					l.event, now = Tick{}, s.Next()
				}
				if got := words(s.Step(l.event, now)); got != l.want {
					t.Errorf("%+v: %q, want %q", l.event, got, l.want)
				}
			}
		})
	}
	s := play(Rules{Grace: time.Minute}, nil)
	s.Step(ask(job.AskSuspend, "ann"), time.Unix(1_000_010, 0))
	s.gpus = 2
	s.Tally.Hear(0, job.Sample{Mem: 41 << 30}, time.Unix(1_000_009, 0))
	s.Step(free, time.Unix(1_000_010, 0))
	s.Step(Vacated{Node: 0, Notice: "still claimed"}, time.Unix(1_000_010, 0))
	if got := words(s.Step(Vacated{Node: 1}, time.Unix(1_000_010, 0))); !strings.HasSuffix(got, "its CPUs are free for others, its 41 GiB of memory and 2 GPUs are not (a: still claimed)") {
		t.Error(got)
	}
	if s.Step(sig(job.SIGTERM), time.Unix(1_000_010, 0)); !s.Ceded() || s.Vacant() {
		t.Error("a job that has ended without its CPUs is taken for one that had them")
	}
}
