package control

import (
	"testing"
	"time"

	"remshell/job"
)

// Requests that one node forwards are limited in rate. Other nodes, this machine's own helper, and
// --end are not affected.
func TestAsksOfANodeArePaced(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	limits := make(RateLimits)
	passed := func(verb job.Verb, node string, after time.Duration) (n int) {
		for range 1000 {
			if limits.TooSoon(Request{Verb: verb, SayingNode: node}, began.Add(after)) == "" {
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
	if why := limits.TooSoon(Request{Verb: job.VerbSuspend, SayingNode: "n1"}, began.Add(time.Hour)); why != "the job received too many requests through n1; try again in 10 s" {
		t.Error(why)
	}
}
