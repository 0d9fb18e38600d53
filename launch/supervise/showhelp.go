package supervise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/text"
)

// A HelpTopic identifies a help text of an MPI library: its file, and its name in the file.
type HelpTopic struct{ File, Name string }

/*
A HelpAggregator counts the help texts of ranks' MPI libraries. The first rank prints a text. The
user is told how many other ranks had the same (PMIX-48):

	first rank ----> its library prints the text
	other ranks ---> counted ---- 5 s, or the end ----> (mpi-abort: the same from 3 more ranks)

The zero value is ready for use.
*/
type HelpAggregator struct {
	repeated map[HelpTopic]int // by topic, ranks with the same text that are not reported yet
	reportAt time.Time         // when to report them; zero: there are none
}

const (
	helpReportDelay = 5 * time.Second // from a repeated text to the report of it
	maxHelpTopics   = 1 << 10         // remembered topics; texts of further topics are all printed
)

// CountText counts a text, and reports whether another rank has already shown it.
func (r *HelpAggregator) CountText(topic HelpTopic, now time.Time) bool {
	if _, known := r.repeated[topic]; known {
		r.repeated[topic]++
		if r.reportAt.IsZero() {
			r.reportAt = now.Add(helpReportDelay)
		}
		return true
	}
	if r.repeated == nil {
		r.repeated = make(map[HelpTopic]int)
	}
	if len(r.repeated) < maxHelpTopics {
		r.repeated[topic] = 0
	}
	return false
}

// NextReport returns when to call TakeDue; the zero time means that nothing is to be reported.
func (r *HelpAggregator) NextReport() time.Time { return r.reportAt }

// TakeDue returns the lines to report by now.
func (r *HelpAggregator) TakeDue(now time.Time) []string {
	if r.reportAt.IsZero() || now.Before(r.reportAt) {
		return nil
	}
	return r.TakeRest()
}

// TakeRest returns all lines that were not reported yet.
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
