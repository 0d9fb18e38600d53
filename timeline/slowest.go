package timeline

import (
	"cmp"
	"slices"
	"time"
)

// A Slow is how long a host took to start, and what of it took longest.
type Slow struct {
	Host string
	Took time.Duration // all of its steps until its ranks had met for the first time
	Step Span          // the longest of them
}

// Slowest are the n hosts that took longest to start, the slowest first. hosts is how many there are.
func Slowest(t Trace, n int) (slow []Slow, hosts int) {
	for _, o := range owners(t.Spans) {
		if o.name == "" {
			continue
		}
		hosts++
		if s := o.slow(); s.Took > 0 {
			slow = append(slow, s)
		}
	}
	slices.SortStableFunc(slow, func(a, b Slow) int { return cmp.Compare(b.Took, a.Took) })
	return slow[:min(n, len(slow))], hosts
}

// slow sums a host up.
func (o owner) slow() Slow {
	s := Slow{Host: o.name}
	for _, l := range o.rows {
		if l.Part != "" {
			continue
		}
		for i, span := range l.spans {
			if w := find(span.Step); w == nil || !w.begins || !l.leaf(i) {
				continue
			}
			if s.Took += span.Took(); span.Took() > s.Step.Took() {
				s.Step = span
			}
		}
	}
	return s
}
