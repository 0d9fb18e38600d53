package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Of those that have the same to say one says it; after a while, and at the end, it is told how many more
// there were.
func TestRepeats(t *testing.T) {
	var r Repeats
	begin := time.Unix(1e9, 0)
	abort, other := Topic{"help-mpi-api.txt", "mpi-abort"}, Topic{"help-mpi-api.txt", "other"}
	if r.IsKnown(abort, begin) || r.IsKnown(other, begin) || r.IsKnown(Topic{"else", "mpi-abort"}, begin) || !r.Next().IsZero() {
		t.Error("what was not said is known, or the user is to be told of nothing")
	}
	if !r.IsKnown(abort, begin) || !r.IsKnown(abort, begin.Add(time.Second)) {
		t.Error("what was said is not known")
	}
	due := begin.Add(repeatsDelay)
	if !r.Next().Equal(due) || r.Due(due.Add(-1)) != nil {
		t.Errorf("told at %v, want %v", r.Next(), due)
	}
	told := r.Due(due)
	if !r.Next().IsZero() || r.Due(due) != nil {
		t.Error("it is told twice")
	}
	r.IsKnown(other, due)
	r.IsKnown(abort, due)
	told = append(told, r.Rest()...)
	const want = "(mpi-abort: the same from 2 more ranks) (mpi-abort: the same from 1 more rank) (other: the same from 1 more rank)"
	if got := strings.Join(append(told, r.Rest()...), " "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// However many texts there are, so many are remembered, and of the others each is said.
func TestRepeatsAreBounded(t *testing.T) {
	var r Repeats
	for i := range 2 * maxTopics {
		r.IsKnown(Topic{"f", fmt.Sprint(i)}, time.Time{})
	}
	if len(r.more) != maxTopics || r.IsKnown(Topic{"f", fmt.Sprint(maxTopics)}, time.Time{}) || !r.IsKnown(Topic{"f", "0"}, time.Time{}) {
		t.Errorf("%d are remembered", len(r.more))
	}
}
