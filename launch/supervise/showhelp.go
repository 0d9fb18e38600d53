package supervise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/text"
)

// A HelpTopic is what the library of a rank has something to say about: a file of texts, and a name there.
type HelpTopic struct{ File, Name string }

/*
Repeats knows what libraries of ranks have said, so that of all ranks of a job one says it, and the user is told
how many others wanted to (PMIX-48):

	first ---> said
	again ---> counted ---- 5 s, or the end ----> (mpi-abort: the same from 3 more ranks)

The zero value is ready.
*/
type HelpAggregator struct {
	repeated map[HelpTopic]int // ranks that had the same to say, of whom the user was not told
	reportAt time.Time         // when he is; zero: there are none
}

const (
	helpReportDelay = 5 * time.Second // until it is told how often a text has come again
	maxHelpTopics   = 1 << 10         // that are remembered; of others each text is said
)

// CountText counts a text, and reports whether it was said before.
func (r *HelpAggregator) CountText(of HelpTopic, now time.Time) bool {
	if _, known := r.repeated[of]; known {
		r.repeated[of]++
		if r.reportAt.IsZero() {
			r.reportAt = now.Add(helpReportDelay)
		}
		return true
	}
	if r.repeated == nil {
		r.repeated = make(map[HelpTopic]int)
	}
	if len(r.repeated) < maxHelpTopics {
		r.repeated[of] = 0
	}
	return false
}

// NextReport is when the user is to be told; the zero time: not by now.
func (r *HelpAggregator) NextReport() time.Time { return r.reportAt }

// TakeDue returns what the user is to be told by now.
func (r *HelpAggregator) TakeDue(now time.Time) []string {
	if r.reportAt.IsZero() || now.Before(r.reportAt) {
		return nil
	}
	return r.TakeRest()
}

// TakeRest returns what the user was not told yet.
func (r *HelpAggregator) TakeRest() (lines []string) {
	r.reportAt = time.Time{}
	topics := slices.SortedFunc(maps.Keys(r.repeated), func(a, b HelpTopic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	for _, of := range topics {
		if n := r.repeated[of]; n > 0 {
			lines = append(lines, fmt.Sprintf("(%s: the same from %s)", of.Name, text.Count(n, "more rank")))
			r.repeated[of] = 0
		}
	}
	return lines
}
