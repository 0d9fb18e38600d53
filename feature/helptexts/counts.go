package helptexts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/text"
)

// A topic identifies a help text of an MPI library by the name of its file and its name in the file.
type topic struct{ File, Name string }

/*
An aggregator counts the help texts of ranks' MPI libraries. Only the first rank prints a text. Later the
aggregator reports how many other ranks have sent the same text (rule PMIX-48). The zero value is ready for use.
*/
type aggregator struct {
	repeated map[topic]int // by topic, ranks with the same text that are not reported yet
	reportAt time.Time     // when to report them; zero: there are none
}

const (
	reportDelay = 5 * time.Second // from a repeated text to the report of it
	maxTopics   = 1 << 10         // remembered topics; texts of further topics are all printed
)

// countText counts a help text, and reports whether another rank has already printed it.
func (r *aggregator) countText(t topic, now time.Time) bool {
	if _, known := r.repeated[t]; known {
		r.repeated[t]++
		if r.reportAt.IsZero() {
			r.reportAt = now.Add(reportDelay)
		}
		return true
	}
	if r.repeated == nil {
		r.repeated = make(map[topic]int)
	}
	if len(r.repeated) < maxTopics {
		r.repeated[t] = 0
	}
	return false
}

// takeDue returns the lines that must be reported now, and removes them.
func (r *aggregator) takeDue(now time.Time) []string {
	if r.reportAt.IsZero() || now.Before(r.reportAt) {
		return nil
	}
	return r.takeRest()
}

// takeRest returns all lines that were not reported yet, and removes them.
func (r *aggregator) takeRest() (lines []string) {
	r.reportAt = time.Time{}
	topics := slices.SortedFunc(maps.Keys(r.repeated), func(a, b topic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	for _, of := range topics {
		if n := r.repeated[of]; n > 0 {
			lines = append(lines, fmt.Sprintf("(%s: %s printed the same text)", of.Name, text.Count(n, "more rank")))
			r.repeated[of] = 0
		}
	}
	return lines
}
