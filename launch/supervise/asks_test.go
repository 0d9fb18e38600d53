package supervise

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// did is what comes of an ask, in the words of the table.
func did(s *State, actions []Action) string {
	for _, action := range actions {
		switch a := action.(type) {
		case Checkpoint:
			return "asked for"
		case Reply:
			if text, _, _ := strings.Cut(a.Text, ":"); a.State == job.AskRefused {
				return "refused: " + text
			}
		}
	}
	continued := slices.ContainsFunc(actions, func(a Action) bool { h, is := a.(Hold); return is && !h.On })
	switch {
	case s.Phase != Running && continued:
		return "continued, over"
	case s.Phase != Running:
		return "over"
	case s.Held():
		return "held"
	}
	return "running"
}

// The table of survive.md 8 is what Step does.
func TestTableOfAsks(t *testing.T) {
	ask := func(verb job.Verb) Asked { return Asked{Verb: verb, User: "alice", Right: job.Owner} }
	verbs := [][]Event{{ask(job.AskSuspend)}, {ask(job.AskResume)}, {ask(job.AskCheckpoint)}, {ask(job.AskEnd), exits(2, 3), NodeLost{1, "gone"}, sig(job.SIGINT), sig(job.SIGTERM)}}
	var table strings.Builder
	table.WriteString("| state | suspend | resume-job | checkpoint | end, failure, ^C |\n|---|---|---|---|---|\n")
	for _, before := range []struct {
		state  string
		events []any
	}{{"running", nil}, {"held", []any{ask(job.AskSuspend)}}, {"ending", []any{ask(job.AskEnd)}}} {
		fmt.Fprintf(&table, "| %s |", before.state)
		for _, events := range verbs {
			var words []string
			for _, event := range events {
				s := play(Rules{Grace: time.Minute}, before.events)
				words = append(words, did(&s, s.Step(event, time.Unix(1_000_100, 0))))
			}
			if words = slices.Compact(words); len(words) != 1 {
				t.Errorf("%s: %v", before.state, words)
			}
			fmt.Fprintf(&table, " %s |", words[0])
		}
		table.WriteString("\n")
	}
	page, err := os.ReadFile("../../doc/spec/survive.md")
	if err != nil || !strings.Contains(string(page), table.String()) {
		t.Errorf("%v; survive.md 8 is not what Step does:\n%s", err, &table)
	}
}

// While a job is suspended no time is over; what was left of it is left when it goes on.
func TestTimeStandsStillWhileSuspended(t *testing.T) {
	s := play(Rules{Grace: time.Minute, Timeout: time.Hour}, nil)
	began := s.Began()
	due := s.Next()
	s.Step(Asked{Verb: job.AskSuspend}, began.Add(10*time.Minute))
	if next := s.Next(); !next.IsZero() {
		t.Errorf("due at %v", next)
	}
	if do := s.Step(Tick{}, began.Add(9*time.Hour)); len(do) > 0 || s.Phase != Running {
		t.Errorf("%v", do)
	}
	if do := s.Step(Signaled{job.SIGCONT}, began.Add(9*time.Hour)); len(do) > 0 {
		t.Errorf("a SIGCONT lets it go on: %v", do)
	}
	s.Shift(time.Hour) // and mpiexec was stopped for an hour of it
	s.Step(Asked{Verb: job.AskResume}, began.Add(10*time.Hour+10*time.Minute))
	if got, want := s.Next(), due.Add(10*time.Hour); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
}
