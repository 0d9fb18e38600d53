package supervise

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// A job whose ranks have all exited with 85 after a requested checkpoint moves. A job that ended
// well or otherwise does not (survive.md SV-17).
func TestMovedWhenItsRanksHaveLeft(t *testing.T) {
	leave := func(code int) (events []any) {
		for rank := range 4 {
			events = append(events, exits(rank, code))
		}
		return events
	}
	saving := []any{RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}, CheckpointRequested{Grace: 15 * time.Minute}}
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
		{"it was ended", append(slices.Clone(saving), Failure{Kind: EndedByRequest}), false, 143},
		{"^C", append(slices.Clone(saving), sig(job.SIGINT)), false, 130},
	} {
		s := play(Policy{Grace: time.Minute}, test.events)
		do := s.Step(MoveReady{"the job was moved to n3 by alice with --migrate"}, time.Unix(1_000_100, 0))
		ends := slices.ContainsFunc(do, func(a Action) bool { _, is := a.(EndAll); return is })
		if s.IsMoved() != test.moved || s.ExitCode() != test.code || ends != (test.name == "they run") {
			t.Errorf("%s: moved %v, code %d, %v", test.name, s.IsMoved(), s.ExitCode(), do)
		}
		if report := s.Report(func(int) RankProfile { return RankProfile{} }, Sequel{Attempt: &NextAttempt{}}); test.moved && (!strings.HasPrefix(report, "the job was moved to n3 by alice with --migrate") || strings.Contains(report, "restart")) {
			t.Errorf("%s: %q", test.name, report)
		}
	}
}

// If somebody ends a job that is already ending, no other attempt follows. The first failure stays
// the cause (EXIT-2), unless that was a move.
func TestToldToEndWhileItEnds(t *testing.T) {
	fails := []any{exits(2, 3)}
	moves := []any{RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}, MoveReady{"the job was moved to n3 by alice with --migrate"}}
	for _, test := range []struct {
		name   string
		before []any
		then   Event
		told   bool
		code   int
	}{
		{"^C", fails, sig(job.SIGINT), true, 3},
		{"SIGTERM", fails, sig(job.SIGTERM), true, 3},
		{"--end", fails, Failure{Kind: EndedByRequest}, true, 3},
		{"another failure", fails, exits(1, 4), false, 3},
		{"a signal for the ranks", fails, sig(job.SIGUSR1), false, 3},
		{"^C in a move", moves, sig(job.SIGINT), true, 130},
		{"--end in a move", moves, Failure{Kind: EndedByRequest}, true, 143},
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
