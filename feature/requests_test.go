package feature_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/control"
	"remshell/launch/hold"
	"remshell/launch/supervise"
)

// A standing is how a job is when a request arrives.
type standing struct {
	failure supervise.State
	holds   hold.State
}

// at returns the job of the table in one of its states.
func at(state string) *standing {
	now := time.Unix(1_000_000, 0)
	s := &standing{failure: supervise.NewState(job.Plan{Size: 2, Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{Rank: 0}, {Rank: 1}}}}}, supervise.Policy{Grace: time.Minute}, now)}
	switch state {
	case "held":
		s.holds.Add(job.HoldRequested, now)
	case "ending":
		s.end(supervise.Failure{Kind: supervise.EndedByRequest}, now)
	}
	return s
}

// end passes an event to the job, as package launch does, and returns what the table says of it.
func (s *standing) end(event supervise.Event, now time.Time) string {
	s.failure.Step(event, now)
	if s.failure.Phase == supervise.Running {
		return "running"
	}
	if len(s.holds.End(now)) > 0 {
		return "continued, over"
	}
	return "over"
}

// request returns what the table says of a request.
func (s *standing) request(verb job.Verb) string {
	why := control.WhyRefused(verb, s.failure.Phase == supervise.Running, s.holds.Has(job.HoldRequested))
	if why, _, _ = strings.Cut(why, ":"); why != "" {
		return "refused: " + why
	}
	return map[job.Verb]string{job.VerbSuspend: "held", job.VerbResume: "running", job.VerbCheckpoint: "asked for", job.VerbMigrate: "mpiexec looks for other hosts"}[verb]
}

// A request has the outcome that the table of survive.md 8 says.
func TestTableOfRequests(t *testing.T) {
	now := time.Unix(1_000_100, 0)
	ends := []supervise.Event{supervise.Failure{Kind: supervise.EndedByRequest}, supervise.RankEnded{Exit: &job.Exit{Rank: 1, Code: 3}},
		supervise.NodeLost{Why: "gone"}, supervise.Signaled{Signal: job.SIGINT}, supervise.Signaled{Signal: job.SIGTERM}}
	var table strings.Builder
	table.WriteString("| state | suspend | resume-job | checkpoint | migrate | end, failure, ^C |\n|---|---|---|---|---|---|\n")
	for _, state := range []string{"running", "held", "ending"} {
		fmt.Fprintf(&table, "| %s |", state)
		for _, verb := range []job.Verb{job.VerbSuspend, job.VerbResume, job.VerbCheckpoint, job.VerbMigrate} {
			fmt.Fprintf(&table, " %s |", at(state).request(verb))
		}
		var words []string
		for _, event := range ends {
			words = append(words, at(state).end(event, now))
		}
		fmt.Fprintf(&table, " %s |\n", strings.Join(slices.Compact(words), ", or "))
	}
	page, err := os.ReadFile("../doc/spec/survive.md")
	if err != nil || !strings.Contains(string(page), table.String()) {
		t.Errorf("%v; survive.md 8 is not what follows:\n%s", err, &table)
	}
}

// --status and --end are never refused, and after ^C all others are (SV-31).
func TestNothingIsDoneForAnybodyBehindAnInterrupt(t *testing.T) {
	s := at("running")
	s.end(supervise.Signaled{Signal: job.SIGINT}, time.Unix(1_000_000, 0))
	for _, verb := range []job.Verb{job.VerbSuspend, job.VerbCheckpoint, job.VerbMigrate, job.VerbResume, "dance"} {
		if got := s.request(verb); got != "refused: the job is already ending" {
			t.Errorf("%s: %s", verb, got)
		}
	}
	for _, verb := range []job.Verb{job.VerbStatus, job.VerbEnd} {
		if why := control.WhyRefused(verb, false, true); why != "" {
			t.Errorf("%s: refused: %s", verb, why)
		}
	}
	if why := control.WhyRefused("dance", true, false); why != `the mpiexec of this job does not support the request "dance"` {
		t.Error(why)
	}
}
