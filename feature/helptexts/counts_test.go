package helptexts

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Only one rank shows a help text. After a delay, and at the end, the user is told how many more
// ranks had the same text.
func TestHelpTextsAreAggregated(t *testing.T) {
	var r aggregator
	begin := time.Unix(1e9, 0)
	abort, other := topic{"help-mpi-api.txt", "mpi-abort"}, topic{"help-mpi-api.txt", "other"}
	if r.countText(abort, begin) || r.countText(other, begin) || r.countText(topic{"else", "mpi-abort"}, begin) || !r.reportAt.IsZero() {
		t.Error("what was not said is known, or the user is to be told of nothing")
	}
	if !r.countText(abort, begin) || !r.countText(abort, begin.Add(time.Second)) {
		t.Error("what was said is not known")
	}
	due := begin.Add(reportDelay)
	if !r.reportAt.Equal(due) || r.takeDue(due.Add(-1)) != nil {
		t.Errorf("told at %v, want %v", r.reportAt, due)
	}
	told := r.takeDue(due)
	if !r.reportAt.IsZero() || r.takeDue(due) != nil {
		t.Error("it is told twice")
	}
	r.countText(other, due)
	r.countText(abort, due)
	told = append(told, r.takeRest()...)
	const want = "(mpi-abort: 2 more ranks printed the same text) (mpi-abort: 1 more rank printed the same text) (other: 1 more rank printed the same text)"
	if got := strings.Join(append(told, r.takeRest()...), " "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// The number of remembered topics is limited. Texts of further topics are all shown.
func TestHelpTopicsAreBounded(t *testing.T) {
	var r aggregator
	for i := range 2 * maxTopics {
		r.countText(topic{"f", fmt.Sprint(i)}, time.Time{})
	}
	if len(r.repeated) != maxTopics || r.countText(topic{"f", fmt.Sprint(maxTopics)}, time.Time{}) || !r.countText(topic{"f", "0"}, time.Time{}) {
		t.Errorf("%d are remembered", len(r.repeated))
	}
}
