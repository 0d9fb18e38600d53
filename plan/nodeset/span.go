package nodeset

import "slices"

// A Part is one of several node sets among which a job is divided, with the members of the set that the job uses.
type Part struct {
	Set     int
	Members []int
	Ranks   int
}

// Span divides the job evenly among as few node sets as possible. The numbers of ranks in the parts differ by at
// most one. It returns nil if no division is found. The search does not backtrack, so it may miss a division if
// sets overlap.
//
//	line = the sets that have capacity, in descending order by priority
//	for k = 2 .. min(number of sets, np):
//	    quotas: np mod k parts of np / k + 1 ranks each, then parts of np / k ranks each
//	    for each quota: find the first unused set in the line that can run these ranks
//	        without nodes that are GLOBAL or belong to a set used before
//	    if a set is found for each quota: return these k parts
func (c *Chooser) Span() []Part {
	sets := c.setsToSpan()
	for k := 2; k <= min(len(sets), c.Ranks); k++ {
		least := func(set int) bool { return c.Sets[set].Capacity < c.Ranks/k }
		if large := len(sets) - count(sets, least); large < k {
			continue // other parts can only reduce capacities
		}
		if parts := c.spanOver(sets, k); parts != nil {
			return parts
		}
	}
	return nil
}

func count(sets []int, match func(int) bool) (n int) {
	for _, set := range sets {
		if match(set) {
			n++
		}
	}
	return n
}

// setsToSpan returns the node sets that have capacity, in the order in which Span tries them.
func (c *Chooser) setsToSpan() []int {
	sets := slices.DeleteFunc(c.indices(), func(set int) bool { return c.Sets[set].Capacity == 0 })
	if c.Policy == FirstOf || c.Priority == FirstFit || c.Priority == MinLoss || c.Priority == ByAffinity {
		return sets
	}
	ratings := make([]setRating, len(c.Sets))
	for _, set := range sets {
		ratings[set] = c.rate(set)
	}
	slices.SortFunc(sets, func(a, b int) int { return ratings[a].compare(&ratings[b]) })
	return sets
}

// spanOver divides the job evenly among k of the given sets. It returns nil if that is not possible.
func (c *Chooser) spanOver(sets []int, k int) (parts []Part) {
	taken := make([]bool, len(c.Nodes))
	for i := range c.Nodes {
		taken[i] = c.Nodes[i].Global && c.Attribute == Feature
	}
	used := make([]bool, len(c.Sets))
	quota, larger := c.Ranks/k, c.Ranks%k
	at := 0
	for part := range k {
		ranks := quota
		if part < larger {
			ranks++
		} else if part == larger {
			at = 0 // a set that was too small may fit the smaller quota
		}
		for ; at < len(sets); at++ {
			if set := sets[at]; !used[set] && c.Sets[set].Capacity >= ranks {
				if members := c.membersForPart(set, ranks, taken); members != nil {
					used[set] = true
					parts = append(parts, Part{set, members, ranks})
					break
				}
			}
		}
		if len(parts) <= part {
			return nil
		}
		for _, i := range parts[part].Members {
			taken[i] = true
		}
	}
	return parts
}

// membersForPart returns the members of a set that no other part uses. It returns nil if these members cannot run the
// given number of ranks.
func (c *Chooser) membersForPart(set, ranks int, isUsed []bool) []int {
	members := slices.DeleteFunc(slices.Clone(c.Sets[set].Members), func(i int) bool { return isUsed[i] })
	if !c.holdsRanks(members, c.capacityOf(members), ranks) {
		return nil
	}
	return members
}
