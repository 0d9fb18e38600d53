package trace

import (
	"cmp"
	"slices"
	"time"
)

// A SlowHost is a host with the time that it took to start, and the longest step of that start.
type SlowHost struct {
	Host string
	Took time.Duration // sum of its steps until its ranks had completed the first fence
	Step Span          // the longest of them
}

// Slowest returns the n hosts that took longest to start, the slowest first. hosts is the total number of hosts.
func Slowest(t Trace, n int) (slow []SlowHost, hosts int) {
	for _, o := range groupByHost(t.Spans) {
		if o.name == "" {
			continue
		}
		hosts++
		if s := o.slowHost(); s.Took > 0 {
			slow = append(slow, s)
		}
	}
	slices.SortStableFunc(slow, func(a, b SlowHost) int { return cmp.Compare(b.Took, a.Took) })
	return slow[:min(n, len(slow))], hosts
}

// slowHost returns the host's longest step and the total time of its steps. In both, it considers only steps that
// contain no other step, and it ignores the steps of ranks.
func (o hostTracks) slowHost() SlowHost {
	s := SlowHost{Host: o.name}
	for _, l := range o.tracks {
		if l.Part != "" {
			continue
		}
		for i, span := range l.spans {
			if w := infoOf(span.Step); w == nil || !w.countsForSlowest || !l.isInnermost(i) {
				continue
			}
			if s.Took += span.Took(); span.Took() > s.Step.Took() {
				s.Step = span
			}
		}
	}
	return s
}
