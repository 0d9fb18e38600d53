package supervise

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// did formats the actions that follow a request, in the words of the table.
func did(s *State, actions []Action) string {
	for _, action := range actions {
		switch a := action.(type) {
		case RequestCheckpoint:
			return "asked for"
		case FindMoveTarget:
			return "a place is looked for"
		case SendReply:
			if a.State == job.ReplyAccepted {
				continue
			}
			if text, _, _ := strings.Cut(a.Text, ":"); a.State == job.ReplyRefused {
				return "refused: " + text
			}
		}
	}
	continued := slices.ContainsFunc(actions, func(a Action) bool { h, is := a.(HoldRanks); return is && !h.On })
	switch {
	case s.Phase != Running && continued:
		return "continued, over"
	case s.Phase != Running:
		return "over"
	case s.IsSuspended():
		return "held"
	}
	return "running"
}

// Step acts as the table of survive.md 8 says.
func TestTableOfAsks(t *testing.T) {
	ask := func(verb job.Verb) ControlRequested {
		return ControlRequested{Verb: verb, User: "alice", Role: job.RoleOwner}
	}
	verbs := [][]Event{{ask(job.VerbSuspend)}, {ask(job.VerbResume)}, {ask(job.VerbCheckpoint)}, {ask(job.VerbMigrate)}, {ask(job.VerbEnd), exits(2, 3), NodeLost{1, "gone"}, sig(job.SIGINT), sig(job.SIGTERM)}}
	var table strings.Builder
	table.WriteString("| state | suspend | resume-job | checkpoint | migrate | end, failure, ^C |\n|---|---|---|---|---|---|\n")
	for _, before := range []struct {
		state  string
		events []any
	}{{"running", nil}, {"held", []any{ask(job.VerbSuspend)}}, {"ending", []any{ask(job.VerbEnd)}}} {
		fmt.Fprintf(&table, "| %s |", before.state)
		for _, events := range verbs {
			var words []string
			for _, event := range events {
				s := play(Policy{Grace: time.Minute}, before.events)
				words = append(words, did(&s, s.Step(event, time.Unix(1_000_100, 0))))
			}
			fmt.Fprintf(&table, " %s |", strings.Join(slices.Compact(words), ", or "))
		}
		table.WriteString("\n")
	}
	page, err := os.ReadFile("../../doc/spec/survive.md")
	if err != nil || !strings.Contains(string(page), table.String()) {
		t.Errorf("%v; survive.md 8 is not what Step does:\n%s", err, &table)
	}
}

// No deadline passes while a job is suspended. The time left before is left when it resumes.
func TestTimeStandsStillWhileSuspended(t *testing.T) {
	s := play(Policy{Grace: time.Minute, Timeout: time.Hour}, nil)
	began := s.Began()
	due := s.Next()
	s.Step(ControlRequested{Verb: job.VerbSuspend}, began.Add(10*time.Minute))
	if next := s.Next(); !next.IsZero() {
		t.Errorf("due at %v", next)
	}
	if do := s.Step(Tick{}, began.Add(9*time.Hour)); len(do) > 0 || s.Phase != Running {
		t.Errorf("%v", do)
	}
	if do := s.Step(Signaled{job.SIGCONT}, began.Add(9*time.Hour)); len(do) > 0 {
		t.Errorf("a SIGCONT lets it go on: %v", do)
	}
	s.Shift(time.Hour) // mpiexec was stopped for an hour of it
	s.Step(ControlRequested{Verb: job.VerbResume}, began.Add(10*time.Hour+10*time.Minute))
	if got, want := s.Next(), due.Add(10*time.Hour); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
}

// A job whose ranks have all exited with 85 after a requested checkpoint moves. A job that ended
// well or otherwise does not (survive.md SV-17).
func TestMovedWhenItsRanksHaveLeft(t *testing.T) {
	leave := func(code int) (events []any) {
		for rank := range 4 {
			events = append(events, exits(rank, code))
		}
		return events
	}
	saving := []any{RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}, CheckpointRequested{Until: time.Unix(1_000_900, 0)}}
	for _, test := range []struct {
		name   string
		events []any
		moved  bool
		code   int
	}{
		{"they run", saving, true, 85},
		{"they have saved", append(slices.Clone(saving), leave(85)...), true, 85},
		{"they have ended well", append(slices.Clone(saving), leave(0)...), false, 0},
		{"one has failed", append(slices.Clone(saving), exits(2, 3)), false, 3},
		{"it was ended", append(slices.Clone(saving), ControlRequested{Verb: job.VerbEnd, User: "bob"}), false, 143},
		{"^C", append(slices.Clone(saving), sig(job.SIGINT)), false, 130},
	} {
		s := play(Policy{Grace: time.Minute}, test.events)
		do := s.Step(MoveReady{By: ControlRequested{User: "alice", Role: job.RoleOwner}, To: "n3"}, time.Unix(1_000_100, 0))
		ends := slices.ContainsFunc(do, func(a Action) bool { _, is := a.(EndAll); return is })
		if s.IsMoved() != test.moved || s.ExitCode() != test.code || ends != (test.name == "they run") {
			t.Errorf("%s: moved %v, code %d, %v", test.name, s.IsMoved(), s.ExitCode(), do)
		}
		s.NextAttempt = &NextAttempt{}
		if report := s.Report(func(int) RankProfile { return RankProfile{} }); test.moved && (!strings.HasPrefix(report, "moved to n3 by alice with --migrate") || strings.Contains(report, "restart")) {
			t.Errorf("%s: %q", test.name, report)
		}
	}
}

// If somebody ends a job that is already ending, no other attempt follows. The first failure stays
// the cause (EXIT-2), unless that was a move.
func TestToldToEndWhileItEnds(t *testing.T) {
	fails := []any{exits(2, 3)}
	moves := []any{RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}, MoveReady{By: ControlRequested{User: "alice"}, To: "n3"}}
	for _, test := range []struct {
		name   string
		before []any
		then   Event
		told   bool
		code   int
	}{
		{"^C", fails, sig(job.SIGINT), true, 3},
		{"SIGTERM", fails, sig(job.SIGTERM), true, 3},
		{"--end", fails, ControlRequested{Verb: job.VerbEnd, User: "bob"}, true, 3},
		{"another failure", fails, exits(1, 4), false, 3},
		{"a signal for the ranks", fails, sig(job.SIGUSR1), false, 3},
		{"^C in a move", moves, sig(job.SIGINT), true, 130},
		{"--end in a move", moves, ControlRequested{Verb: job.VerbEnd, User: "bob"}, true, 143},
		{"a rank that fails in a move", moves, exits(2, 3), false, 85},
		{"^C first", []any{sig(job.SIGINT)}, sig(job.SIGINT), true, 130},
	} {
		s := play(Policy{Grace: time.Minute}, test.before)
		s.Step(test.then, time.Unix(1_000_100, 0))
		if got := s.WasToldToEnd(); got != test.told || s.ExitCode() != test.code {
			t.Errorf("%s: %v, code %d", test.name, got, s.ExitCode())
		}
	}
}

// After ^C a job cannot be suspended: the end of a job resumes its ranks (SV-31).
func TestNothingIsDoneForAnybodyBehindAnInterrupt(t *testing.T) {
	for _, verb := range []job.Verb{job.VerbSuspend, job.VerbCheckpoint, job.VerbMigrate, job.VerbResume} {
		s := play(Policy{Grace: time.Minute}, []any{sig(job.SIGINT)})
		by := ControlRequested{Verb: verb, User: "ann", Role: job.RoleOwner}
		if got, want := s.Step(by, s.Began()), []Action{SendReply{To: by, State: job.ReplyRefused, Text: "the job ends"}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", verb, got, want)
		}
	}
}

// Requests that one node forwards are limited in rate. Other nodes, this machine's own helper, and
// --end are not affected. The limits carry over to the next attempt.
func TestAsksOfANodeArePaced(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	s := play(Policy{}, nil)
	passed := func(verb job.Verb, node string, after time.Duration) (n int) {
		for range 1000 {
			if s.TooSoon(ControlRequested{Verb: verb, SayingNode: node}, began.Add(after)) == "" {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		verb  job.Verb
		node  string
		after time.Duration
		want  int
	}{
		{job.VerbCheckpoint, "n1", 0, 8}, {job.VerbSuspend, "n1", 9 * time.Second, 0}, {job.VerbCheckpoint, "n1", 10 * time.Second, 1},
		{job.VerbMigrate, "n1", 40 * time.Second, 3}, {job.VerbResume, "n1", time.Hour, 8}, {job.VerbCheckpoint, "n2", 0, 8},
		{job.VerbStatus, "n1", 0, 8}, {job.VerbStatus, "n1", 5 * time.Second, 5}, {job.VerbEnd, "n1", 0, 1000}, {job.VerbCheckpoint, "", 0, 1000},
	} {
		if got := passed(step.verb, step.node, step.after); got != step.want {
			t.Errorf("%s of %s after %v: %d pass, want %d", step.verb, step.node, step.after, got, step.want)
		}
	}
	next := play(Policy{RateLimits: s.policy.RateLimits}, nil)
	if why := next.TooSoon(ControlRequested{Verb: job.VerbSuspend, SayingNode: "n1"}, began.Add(time.Hour)); why != "too many requests have come by n1; ask again in 10 s" {
		t.Error(why)
	}
}

// A requester that only a remote node vouches for is reported with that node.
func TestWhoSaysWhoAsks(t *testing.T) {
	for _, says := range []string{"", "n3"} {
		prefix := map[string]string{"": "", "n3": "n3 says: "}[says]
		by := ControlRequested{User: "bob", Role: job.RoleAdministrator, SayingNode: says}
		for want, event := range map[string]Event{
			"ended by bob (administrator) with --end":           ControlRequested{User: "bob", Role: job.RoleAdministrator, SayingNode: says, Verb: job.VerbEnd},
			"moved to n4 by bob (administrator) with --migrate": MoveReady{By: by, To: "n4"},
		} {
			s := play(Policy{}, nil)
			if s.Step(event, time.Unix(1_000_100, 0)); s.Cause == nil || s.Cause.Text != prefix+want {
				t.Errorf("%+v, want %s%s", s.Cause, prefix, want)
			}
		}
		s := play(Policy{}, nil)
		by.Verb = job.VerbSuspend
		const want = "suspended by bob (administrator) (--suspend) after 00:01:40; to go on: mpiexec --resume-job  a"
		if do := s.Step(by, time.Unix(1_000_100, 0)); !slices.Contains(do, Action(ReportLine{prefix + want})) {
			t.Errorf("%+v, want %s%s", do, prefix, want)
		}
	}
}
