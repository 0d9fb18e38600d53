package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Only one rank shows a help text. After a delay, and at the end, the user is told how many more
// ranks had the same text.
func TestHelpTextsAreAggregated(t *testing.T) {
	var r HelpAggregator
	begin := time.Unix(1e9, 0)
	abort, other := HelpTopic{"help-mpi-api.txt", "mpi-abort"}, HelpTopic{"help-mpi-api.txt", "other"}
	if r.CountText(abort, begin) || r.CountText(other, begin) || r.CountText(HelpTopic{"else", "mpi-abort"}, begin) || !r.NextReport().IsZero() {
		t.Error("what was not said is known, or the user is to be told of nothing")
	}
	if !r.CountText(abort, begin) || !r.CountText(abort, begin.Add(time.Second)) {
		t.Error("what was said is not known")
	}
	due := begin.Add(helpReportDelay)
	if !r.NextReport().Equal(due) || r.TakeDue(due.Add(-1)) != nil {
		t.Errorf("told at %v, want %v", r.NextReport(), due)
	}
	told := r.TakeDue(due)
	if !r.NextReport().IsZero() || r.TakeDue(due) != nil {
		t.Error("it is told twice")
	}
	r.CountText(other, due)
	r.CountText(abort, due)
	told = append(told, r.TakeRest()...)
	const want = "(mpi-abort: the same from 2 more ranks) (mpi-abort: the same from 1 more rank) (other: the same from 1 more rank)"
	if got := strings.Join(append(told, r.TakeRest()...), " "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// The number of remembered topics is limited. Texts of further topics are all shown.
func TestHelpTopicsAreBounded(t *testing.T) {
	var r HelpAggregator
	for i := range 2 * maxHelpTopics {
		r.CountText(HelpTopic{"f", fmt.Sprint(i)}, time.Time{})
	}
	if len(r.repeated) != maxHelpTopics || r.CountText(HelpTopic{"f", fmt.Sprint(maxHelpTopics)}, time.Time{}) || !r.CountText(HelpTopic{"f", "0"}, time.Time{}) {
		t.Errorf("%d are remembered", len(r.repeated))
	}
}
