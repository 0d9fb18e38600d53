package plan

import (
	"cmp"
	"slices"
)

// others reports whether what other jobs have is no obstacle: on this machine alone, unless
// one waits for it.
func (s *seating) others() bool { return s.req.Home && !s.req.Forbid && !s.req.Wait }

// lent is how many slots of a site other jobs have.
func (s *seating) lent(i int) int {
	n := &s.sites[i]
	if n.crowded {
		return n.Size() - n.free
	}
	return max(0, n.Size()-n.Own-n.free)
}

// alone is how many ranks of an app would find free slots, were there no other jobs.
func (s *seating) alone(i int, a *area) int {
	return min(a.limit[i], s.seatsIn(i, s.free[i]+s.lent(i), max(1, a.app.Threads)))
}

// lends reports whether a rank that finds no free slot takes one of another job's with it.
func (s *seating) lends(i, width int) bool {
	lends := s.others() && s.lent(i) > 0 && s.free[i]+s.lent(i) >= width
	s.over = s.over || lends
	return lends
}

// mayShare reports whether n ranks, for which there is too little room, may share CPUs: if
// that was asked for and, on this machine alone, if it is other jobs that have the room, or
// nobody has counted slots (PLACE-4).
func (s *seating) mayShare(a *area, n int) bool {
	room, lent := 0, 0
	for _, i := range a.sites {
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
	return slices.ContainsFunc(a.sites, func(i int) bool { return s.sites[i].Slots == 0 })
}

// bounds is m of 5.4, by site: the limit, and on nodes that must not be overbooked
// the seats that are left. Beyond n a bound means nothing.
func (s *seating) bounds(a *area, n int) []int {
	bounds := make([]int, len(s.sites))
	for _, i := range a.sites {
		bounds[i] = min(a.limit[i], n)
		if s.req.Home && !s.req.Overbook && !s.req.Crowd && s.sites[i].Slots > 0 {
			bounds[i] = min(bounds[i], s.alone(i, a))
		}
		if s.sites[i].NoOverbook {
			bounds[i] = min(bounds[i], a.room[i])
		}
	}
	return bounds
}

// shares deals n more ranks evenly on all CPUs (5.4): so that, with what earlier
// parts of the job have put there, the nodes hold ranks in proportion to their
// seats. A node that has more already gets none.
func (s *seating) shares(a *area, n int, bounds []int) []int {
	open := slices.Clone(a.sites)
	for {
		need := n
		seats, most := make([]int, len(open)), make([]int, len(open))
		for k, i := range open {
			need += s.mine[i]
			seats[k] = max(1, s.seatsIn(i, s.sites[i].Size(), s.widest))
			most[k] = s.mine[i] + bounds[i]
		}
		shares := make([]int, len(s.sites))
		ahead := make(map[int]bool)
		for k, share := range spread(need, seats, most) {
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

// spread deals n ranks in proportion to the seats, within the bounds, in whole
// numbers by largest remainder, equal remainders in list order (5.4). The bounds
// leave room for n.
func spread(n int, seats, bounds []int) []int {
	shares := make([]int, len(seats))
	open := make([]int, len(seats)) // nodes that are not at their bound
	for i := range seats {
		open[i] = i
	}
	for need := n; ; {
		total := 0
		for _, i := range open {
			total += seats[i]
		}
		full := func(i int) bool { return bounds[i]*total < need*seats[i] }
		if !slices.ContainsFunc(open, full) {
			deal(need, total, open, seats, shares)
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
func deal(need, total int, open, seats, shares []int) {
	left := need
	for _, i := range open {
		shares[i] = need * seats[i] / total
		left -= shares[i]
	}
	byRemainder := slices.Clone(open)
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		return cmp.Compare(need*seats[b]%total, need*seats[a]%total)
	})
	for _, i := range byRemainder[:left] {
		shares[i]++
	}
}
