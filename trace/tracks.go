package trace

import (
	"cmp"
	"slices"
	"time"
)

// A hostTracks contains the lanes of a host, or of mpiexec.
type hostTracks struct {
	name   string // empty: mpiexec
	tracks []lane
}

// A lane is one line of steps in a trace viewer. It is a row of the trace or, if steps of the row overlap, a part of
// the row. Any two steps of a lane either follow each other or are nested, as trace viewers require.
type lane struct {
	Row
	overlap int // number of the lane within the row; the first is 0
	spans   []Span
}

// groupByHost returns mpiexec and then the hosts in the order of their first spans, each with its lanes.
func groupByHost(spans []Span) (all []hostTracks) {
	at := make(map[string]int)
	rows := make(map[Row][]Span)
	for _, s := range spans {
		i, known := at[s.Host]
		if !known {
			i = len(all)
			at[s.Host], all = i, append(all, hostTracks{name: s.Host})
		}
		if rows[s.Row] == nil {
			all[i].tracks = append(all[i].tracks, lane{Row: s.Row})
		}
		rows[s.Row] = append(rows[s.Row], s)
	}
	slices.SortStableFunc(all, func(a, b hostTracks) int { // mpiexec first
		return cmp.Compare(min(len(a.name), 1), min(len(b.name), 1))
	})
	for i := range all {
		slices.SortStableFunc(all[i].tracks, func(a, b lane) int { return cmp.Compare(a.Order, b.Order) })
		var tracks []lane
		for _, row := range all[i].tracks {
			tracks = append(tracks, assignLanes(row.Row, rows[row.Row])...)
		}
		all[i].tracks = tracks
	}
	return all
}

// assignLanes distributes the spans of a row to as few lanes as possible.
func assignLanes(row Row, spans []Span) (tracks []lane) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(b.Ended, a.Ended))
	})
	var open [][]time.Duration // for each lane, the ends of the steps that contain the next one
	for _, s := range spans {
		i := 0
		for ; i < len(tracks); i++ {
			if open[i] = dropEnded(open[i], s.Began); len(open[i]) == 0 || s.Ended <= open[i][len(open[i])-1] {
				break
			}
		}
		if i == len(tracks) {
			tracks, open = append(tracks, lane{Row: row, overlap: i}), append(open, nil)
		}
		tracks[i].spans, open[i] = append(tracks[i].spans, s), append(open[i], s.Ended)
	}
	return tracks
}

// dropEnded removes from a stack of end times all times up to and including the given time.
func dropEnded(ends []time.Duration, at time.Duration) []time.Duration {
	for len(ends) > 0 && ends[len(ends)-1] <= at {
		ends = ends[:len(ends)-1]
	}
	return ends
}

// isInnermost reports whether span i of the lane contains no other span.
func (l lane) isInnermost(i int) bool {
	return i+1 == len(l.spans) || l.spans[i+1].Began >= l.spans[i].Ended
}
