package plan

import (
	"cmp"
	"slices"
)

// ignoresOtherJobs reports whether the job may use CPUs that other jobs use. It returns true if the job runs only on
// this machine, may oversubscribe, and does not wait.
func (s *placement) ignoresOtherJobs() bool {
	return s.req.LocalOnly && !s.req.NoOversubscribe && !s.req.Wait
}

// slotsOfOtherJobs returns how many slots of candidate i are used by other jobs.
func (s *placement) slotsOfOtherJobs(i int) int {
	n := &s.candidates[i]
	if n.sharesOwnCPUs {
		return n.SlotCount() - n.free
	}
	return max(0, n.SlotCount()-n.OwnRanks-n.free)
}

// capacityWithoutOtherJobs returns how many ranks of an app would fit on candidate i if there were no other jobs.
func (s *placement) capacityWithoutOtherJobs(i int, a *eligibleNodes) int {
	return min(a.limits[i], s.ranksInSlots(i, s.freeSlots[i]+s.slotsOfOtherJobs(i), max(1, a.app.CPUsPerRank)))
}

// mayUseSlotOfOtherJob reports whether a rank may share a slot with another job if no slot is free. If so, it sets
// s.sharesCPUs.
func (s *placement) mayUseSlotOfOtherJob(i, width int) bool {
	shares := s.ignoresOtherJobs() && s.slotsOfOtherJobs(i) > 0 && s.freeSlots[i]+s.slotsOfOtherJobs(i) >= width
	s.sharesCPUs = s.sharesCPUs || shares
	return shares
}

// userAllowsSharing reports whether the user allows ranks of this job to use the same CPUs.
func (s *placement) userAllowsSharing() bool {
	return s.req.Overbook || s.req.ShareOwnCPUs || s.req.Oversubscribe && !s.req.NoOversubscribe
}

// mayShareCPUs reports whether ranks may share CPUs if n ranks do not fit otherwise. It returns true if the user allows
// sharing. For a job that runs only on this machine, it also returns true in two other cases (rule PLACE-4): the ranks
// would fit without other jobs, or the user has not written a number of slots.
func (s *placement) mayShareCPUs(a *eligibleNodes, n int) bool {
	if s.mustNotShare {
		return false
	}
	capacity, usedByOthers := 0, 0
	for _, i := range a.candidates {
		capacity += s.capacityWithoutOtherJobs(i, a)
		usedByOthers += s.slotsOfOtherJobs(i)
	}
	switch {
	case s.req.NoOversubscribe || s.req.Overbook || s.req.ShareOwnCPUs:
		return !s.req.NoOversubscribe
	case !s.req.LocalOnly:
		return false
	case n <= capacity && usedByOthers > 0:
		return s.ignoresOtherJobs()
	}
	return slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Slots == 0 })
}

// rankBounds returns the maximum number of ranks for each candidate (m in placement.md 5.4). It is at
// most n, and at most the candidate's limit. On nodes that must not be overbooked, it is also at most
// the candidate's capacity.
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

// proportionalShares returns how many of n further ranks each candidate gets (placement.md 5.4). As a result, the
// numbers of ranks on the nodes, including ranks of earlier apps, are proportional to the nodes' sizes. A node that
// already has more ranks than its share gets none.
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

// apportion divides n ranks in proportion to sizes, by the largest-remainder method. bounds contains the maximum for
// each share. If two remainders are equal, the share that is earlier in the list gets the rank (placement.md 5.4). The
// sum of bounds must be at least n.
func apportion(n int, sizes, bounds []int) []int {
	shares := make([]int, len(sizes))
	open := make([]int, len(sizes)) // nodes that have not reached their bound
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

// apportionRemainder sets the shares of the open nodes, which are nodes that have not reached their maximum. total is
// the sum of their sizes. Each share is the integer part of the node's proportional share of ranks. The nodes with the
// largest remainders get one more rank.
func apportionRemainder(ranks, total int, open, sizes, shares []int) {
	left := ranks
	for _, i := range open {
		shares[i] = ranks * sizes[i] / total
		left -= shares[i]
	}
	byRemainder := slices.Clone(open)
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		return cmp.Compare(ranks*sizes[b]%total, ranks*sizes[a]%total)
	})
	for _, i := range byRemainder[:left] {
		shares[i]++
	}
}
