package supervise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/text"
)

// A Topic is what the library of a rank has something to say about: a file of texts, and a name there.
type Topic struct{ File, Name string }

/*
Repeats knows what libraries of ranks have said, so that of all ranks of a job one says it, and the user is told
how many others wanted to (PMIX-48):

	first ---> said
	again ---> counted ---- 5 s, or the end ----> (mpi-abort: the same from 3 more ranks)

The zero value is ready.
*/
type Repeats struct {
	more map[Topic]int // ranks that had the same to say, of whom the user was not told
	due  time.Time     // when he is; zero: there are none
}

const (
	repeatsDelay = 5 * time.Second // until it is told how often a text has come again
	maxTopics    = 1 << 10         // that are remembered; of others each text is said
)

// IsKnown counts a text, and reports whether it was said before.
func (r *Repeats) IsKnown(of Topic, now time.Time) bool {
	if _, known := r.more[of]; known {
		r.more[of]++
		if r.due.IsZero() {
			r.due = now.Add(repeatsDelay)
		}
		return true
	}
	if r.more == nil {
		r.more = make(map[Topic]int)
	}
	if len(r.more) < maxTopics {
		r.more[of] = 0
	}
	return false
}

// Next is when the user is to be told; the zero time: not by now.
func (r *Repeats) Next() time.Time { return r.due }

// Due returns what the user is to be told by now.
func (r *Repeats) Due(now time.Time) []string {
	if r.due.IsZero() || now.Before(r.due) {
		return nil
	}
	return r.Rest()
}

// Rest returns what the user was not told yet.
func (r *Repeats) Rest() (lines []string) {
	r.due = time.Time{}
	topics := slices.SortedFunc(maps.Keys(r.more), func(a, b Topic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	for _, of := range topics {
		if n := r.more[of]; n > 0 {
			lines = append(lines, fmt.Sprintf("(%s: the same from %s)", of.Name, text.Count(n, "more rank")))
			r.more[of] = 0
		}
	}
	return lines
}
