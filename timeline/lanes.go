package timeline

import (
	"cmp"
	"slices"
	"time"
)

// A host of a trace, or mpiexec: all of its rows.
type owner struct {
	name string // empty: mpiexec
	rows []track
}

// A track is a row in which steps are one behind the other or one inside the other, as all who show
// traces want to have it.
type track struct {
	Row
	again int // steps of one row that overlap otherwise are on several tracks; the first is 0
	spans []Span
}

// owners are mpiexec and the hosts in the order in which they are first named, each with its tracks.
func owners(spans []Span) (all []owner) {
	at := make(map[string]int)
	rows := make(map[Row][]Span)
	for _, s := range spans {
		i, known := at[s.Host]
		if !known {
			i = len(all)
			at[s.Host], all = i, append(all, owner{name: s.Host})
		}
		if rows[s.Row] == nil {
			all[i].rows = append(all[i].rows, track{Row: s.Row})
		}
		rows[s.Row] = append(rows[s.Row], s)
	}
	slices.SortStableFunc(all, func(a, b owner) int { // mpiexec first
		return cmp.Compare(min(len(a.name), 1), min(len(b.name), 1))
	})
	for i := range all {
		slices.SortStableFunc(all[i].rows, func(a, b track) int { return cmp.Compare(a.Order, b.Order) })
		var tracks []track
		for _, row := range all[i].rows {
			tracks = append(tracks, lanes(row.Row, rows[row.Row])...)
		}
		all[i].rows = tracks
	}
	return all
}

// lanes deals the spans of a row to as few tracks as it takes.
func lanes(row Row, spans []Span) (tracks []track) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(b.Ended, a.Ended))
	})
	var open [][]time.Duration // of each track, when the steps end that the next one may be inside of
	for _, s := range spans {
		i := 0
		for ; i < len(tracks); i++ {
			if open[i] = stillOpen(open[i], s.Began); len(open[i]) == 0 || s.Ended <= open[i][len(open[i])-1] {
				break
			}
		}
		if i == len(tracks) {
			tracks, open = append(tracks, track{Row: row, again: i}), append(open, nil)
		}
		tracks[i].spans, open[i] = append(tracks[i].spans, s), append(open[i], s.Ended)
	}
	return tracks
}

// stillOpen drops those of a stack of ends that are over at a moment.
func stillOpen(ends []time.Duration, at time.Duration) []time.Duration {
	for len(ends) > 0 && ends[len(ends)-1] <= at {
		ends = ends[:len(ends)-1]
	}
	return ends
}

// leaf reports whether no other span of a track is inside of the i-th.
func (l track) leaf(i int) bool {
	return i+1 == len(l.spans) || l.spans[i+1].Began >= l.spans[i].Ended
}
