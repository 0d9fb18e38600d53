package plan

import (
	"cmp"
	"slices"
)

// ignoresOtherJobs reports whether what other jobs have is no obstacle: on this machine alone, unless
// one waits for it.
func (s *placement) ignoresOtherJobs() bool {
	return s.req.LocalOnly && !s.req.NoOversubscribe && !s.req.Wait
}

// slotsOfOtherJobs is how many slots of a candidate other jobs have.
func (s *placement) slotsOfOtherJobs(i int) int {
	n := &s.candidates[i]
	if n.sharesOwnCPUs {
		return n.SlotCount() - n.free
	}
	return max(0, n.SlotCount()-n.OwnRanks-n.free)
}

// capacityWithoutOtherJobs is how many ranks of an app would find free slots, were there no other jobs.
func (s *placement) capacityWithoutOtherJobs(i int, a *eligibleNodes) int {
	return min(a.limits[i], s.ranksInSlots(i, s.freeSlots[i]+s.slotsOfOtherJobs(i), max(1, a.app.CPUsPerRank)))
}

// mayUseSlotOfOtherJob reports whether a rank that finds no free slot takes one of another job's with it.
func (s *placement) mayUseSlotOfOtherJob(i, width int) bool {
	lends := s.ignoresOtherJobs() && s.slotsOfOtherJobs(i) > 0 && s.freeSlots[i]+s.slotsOfOtherJobs(i) >= width
	s.sharesCPUs = s.sharesCPUs || lends
	return lends
}

// userAllowsSharing reports whether the user has said that ranks of this job may have the same CPUs.
func (s *placement) userAllowsSharing() bool {
	return s.req.Overbook || s.req.ShareOwnCPUs || s.req.Oversubscribe && !s.req.NoOversubscribe
}

// mayShareCPUs reports whether n ranks, for which there is too little room, may share CPUs: if
// that was asked for and, on this machine alone, if it is other jobs that have the room, or
// nobody has counted slots (PLACE-4).
func (s *placement) mayShareCPUs(a *eligibleNodes, n int) bool {
	if s.mustNotShare {
		return false
	}
	room, lent := 0, 0
	for _, i := range a.candidates {
		room += s.capacityWithoutOtherJobs(i, a)
		lent += s.slotsOfOtherJobs(i)
	}
	switch {
	case s.req.NoOversubscribe || s.req.Overbook || s.req.ShareOwnCPUs:
		return !s.req.NoOversubscribe
	case !s.req.LocalOnly:
		return false
	case n <= room && lent > 0:
		return s.ignoresOtherJobs()
	}
	return slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Slots == 0 })
}

// rankBounds is m of 5.4, by candidate: the limit, and on nodes that must not be overbooked
// the sizes that are left. Beyond n a bound means nothing.
func (s *placement) rankBounds(a *eligibleNodes, n int) []int {
	bounds := make([]int, len(s.candidates))
	for _, i := range a.candidates {
		bounds[i] = min(a.limits[i], n)
		if s.req.LocalOnly && !s.req.Overbook && !s.req.ShareOwnCPUs && s.candidates[i].Slots > 0 {
			bounds[i] = min(bounds[i], s.capacityWithoutOtherJobs(i, a))
		}
		if s.candidates[i].NoOverbook {
			bounds[i] = min(bounds[i], a.capacity[i])
		}
	}
	return bounds
}

// proportionalShares deals n more ranks evenly on all CPUs (5.4): so that, with what earlier
// parts of the job have put there, the nodes hold ranks in proportion to their
// sizes. A node that has more already gets none.
func (s *placement) proportionalShares(a *eligibleNodes, n int, bounds []int) []int {
	open := slices.Clone(a.candidates)
	for {
		need := n
		sizes, most := make([]int, len(open)), make([]int, len(open))
		for k, i := range open {
			need += s.ranksOn[i]
			sizes[k] = max(1, s.ranksInSlots(i, s.candidates[i].SlotCount(), s.maxThreads))
			most[k] = s.ranksOn[i] + bounds[i]
		}
		shares := make([]int, len(s.candidates))
		ahead := make(map[int]bool)
		for k, share := range apportion(need, sizes, most) {
			i := open[k]
			shares[i] = share - s.ranksOn[i]
			ahead[i] = shares[i] < 0
		}
		if !slices.ContainsFunc(open, func(i int) bool { return ahead[i] }) {
			return shares
		}
		open = slices.DeleteFunc(open, func(i int) bool { return ahead[i] })
	}
}

// apportion deals n ranks in proportion to the sizes, within the bounds, in whole
// numbers by largest remainder, equal remainders in list order (5.4). The bounds
// leave room for n.
func apportion(n int, sizes, bounds []int) []int {
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
			apportionRemainder(need, total, open, sizes, shares)
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

// apportionRemainder gives each open node the whole part of its share, and what is left over to
// the largest remainders.
func apportionRemainder(need, total int, open, sizes, shares []int) {
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
