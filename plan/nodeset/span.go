package nodeset

import "slices"

// A Part is one of the sets that a job spans, with those of its members that count there.
type Part struct {
	Set     int
	Members []int
	Ranks   int
}

// Span finds the least number of sets that hold the job in parts that differ by at most one rank;
// nil: there is none. The search does not go back: where sets overlap it may miss a span.
//
//	line = sets with room, by the key of the priority
//	for k = 2 .. min(number of sets, np):
//	    q, r = np / k, np mod k;  quotas = r times q + 1, then k - r times q
//	    each quota in turn: the first set of the line, not taken yet, that holds it on
//	        members that are not GLOBAL and not of a set taken before
//	    all found: these k parts, in this order
func (c *Chooser) Span() []Part {
	sets := c.setsToSpan()
	for k := 2; k <= min(len(sets), c.Ranks); k++ {
		least := func(set int) bool { return c.Sets[set].Capacity < c.Ranks/k }
		if large := len(sets) - count(sets, least); large < k {
			continue // rooms only shrink by what other parts take
		}
		if parts := c.spanOver(sets, k); parts != nil {
			return parts
		}
	}
	return nil
}

func count(sets []int, which func(int) bool) (n int) {
	for _, set := range sets {
		if which(set) {
			n++
		}
	}
	return n
}

// setsToSpan are the sets with room in the order in which they are tried.
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

// spanOver finds so many parts.
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
			at = 0 // what was too small may hold one less
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

// membersForPart is the members of a set that are not taken, if they hold so many ranks; nil: they do not.
func (c *Chooser) membersForPart(set, ranks int, taken []bool) []int {
	members := slices.DeleteFunc(slices.Clone(c.Sets[set].Members), func(i int) bool { return taken[i] })
	if !c.holdsRanks(members, c.capacityOf(members), ranks) {
		return nil
	}
	return members
}
