package plan

import (
	"cmp"
	"slices"
)

// others reports whether what other jobs have is no obstacle: on this machine alone, unless
// one waits for it.
func (s *placement) others() bool { return s.req.Home && !s.req.Forbid && !s.req.Wait }

// lent is how many slots of a candidate other jobs have.
func (s *placement) lent(i int) int {
	n := &s.candidates[i]
	if n.crowded {
		return n.Size() - n.free
	}
	return max(0, n.Size()-n.Own-n.free)
}

// alone is how many ranks of an app would find free slots, were there no other jobs.
func (s *placement) alone(i int, a *eligible) int {
	return min(a.limit[i], s.ranksIn(i, s.free[i]+s.lent(i), max(1, a.app.Threads)))
}

// lends reports whether a rank that finds no free slot takes one of another job's with it.
func (s *placement) lends(i, width int) bool {
	lends := s.others() && s.lent(i) > 0 && s.free[i]+s.lent(i) >= width
	s.over = s.over || lends
	return lends
}

// welcomesSharing reports whether the user has said that ranks of this job may have the same CPUs.
func (s *placement) welcomesSharing() bool {
	return s.req.Overbook || s.req.Crowd || s.req.Oversubscribe && !s.req.Forbid
}

// mayShare reports whether n ranks, for which there is too little room, may share CPUs: if
// that was asked for and, on this machine alone, if it is other jobs that have the room, or
// nobody has counted slots (PLACE-4).
func (s *placement) mayShare(a *eligible, n int) bool {
	if s.unshared {
		return false
	}
	room, lent := 0, 0
	for _, i := range a.candidates {
		room += s.alone(i, a)
		lent += s.lent(i)
	}
	switch {
	case s.req.Forbid || s.req.Overbook || s.req.Crowd:
		return !s.req.Forbid
	case !s.req.Home:
		return false
	case n <= room && lent > 0:
		return s.others()
	}
	return slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Slots == 0 })
}

// bounds is m of 5.4, by candidate: the limit, and on nodes that must not be overbooked
// the sizes that are left. Beyond n a bound means nothing.
func (s *placement) bounds(a *eligible, n int) []int {
	bounds := make([]int, len(s.candidates))
	for _, i := range a.candidates {
		bounds[i] = min(a.limit[i], n)
		if s.req.Home && !s.req.Overbook && !s.req.Crowd && s.candidates[i].Slots > 0 {
			bounds[i] = min(bounds[i], s.alone(i, a))
		}
		if s.candidates[i].NoOverbook {
			bounds[i] = min(bounds[i], a.room[i])
		}
	}
	return bounds
}

// shares deals n more ranks evenly on all CPUs (5.4): so that, with what earlier
// parts of the job have put there, the nodes hold ranks in proportion to their
// sizes. A node that has more already gets none.
func (s *placement) shares(a *eligible, n int, bounds []int) []int {
	open := slices.Clone(a.candidates)
	for {
		need := n
		sizes, most := make([]int, len(open)), make([]int, len(open))
		for k, i := range open {
			need += s.mine[i]
			sizes[k] = max(1, s.ranksIn(i, s.candidates[i].Size(), s.widest))
			most[k] = s.mine[i] + bounds[i]
		}
		shares := make([]int, len(s.candidates))
		ahead := make(map[int]bool)
		for k, share := range spread(need, sizes, most) {
			i := open[k]
			shares[i] = share - s.mine[i]
			ahead[i] = shares[i] < 0
		}
		if !slices.ContainsFunc(open, func(i int) bool { return ahead[i] }) {
			return shares
		}
		open = slices.DeleteFunc(open, func(i int) bool { return ahead[i] })
	}
}

// spread deals n ranks in proportion to the sizes, within the bounds, in whole
// numbers by largest remainder, equal remainders in list order (5.4). The bounds
// leave room for n.
func spread(n int, sizes, bounds []int) []int {
	shares := make([]int, len(sizes))
	open := make([]int, len(sizes)) // nodes that are not at their bound
	for i := range sizes {
		open[i] = i
	}
	for need := n; ; {
		total := 0
		for _, i := range open {
			total += sizes[i]
		}
		full := func(i int) bool { return bounds[i]*total < need*sizes[i] }
		if !slices.ContainsFunc(open, full) {
			deal(need, total, open, sizes, shares)
			return shares
		}
		took := 0
		for _, i := range open {
			if full(i) {
				shares[i] = bounds[i]
				took += bounds[i]
			}
		}
		open = slices.DeleteFunc(open, full)
		need -= took
	}
}

// deal gives each open node the whole part of its share, and what is left over to
// the largest remainders.
func deal(need, total int, open, sizes, shares []int) {
	left := need
	for _, i := range open {
		shares[i] = need * sizes[i] / total
		left -= shares[i]
	}
	byRemainder := slices.Clone(open)
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		return cmp.Compare(need*sizes[b]%total, need*sizes[a]%total)
	})
	for _, i := range byRemainder[:left] {
		shares[i]++
	}
}
