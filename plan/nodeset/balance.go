package nodeset

import (
	"cmp"
	"slices"
)

// Balance returns the members in the narrowest range of speeds that has enough nodes for the ranks. If several ranges
// are equally narrow, it uses the fastest one. If no range suffices, it returns all members.
func (c *Chooser) Balance(members []int, ranks int) []int {
	var bySpeed []int // members with known speed, by ascending speed
	for _, i := range members {
		if c.Nodes[i].Speed > 0 {
			bySpeed = append(bySpeed, i)
		}
	}
	slices.SortStableFunc(bySpeed, func(a, b int) int { return cmp.Compare(c.Nodes[a].Speed, c.Nodes[b].Speed) })
	speed := func(k int) Number { return c.Nodes[bySpeed[k]].Speed }
	next := func(k int) int { // end of the nodes with the same speed
		end := k + 1
		for end < len(bySpeed) && speed(end) == speed(k) {
			end++
		}
		return end
	}
	from, to, capacity := 0, 0, 0
	best := members
	least := MaxNumber + 1
	for from < len(bySpeed) {
		for to < len(bySpeed) && !c.holdsRanks(bySpeed[from:to], capacity, ranks) {
			end := next(to)
			capacity += c.capacityOf(bySpeed[to:end])
			to = end
		}
		if !c.holdsRanks(bySpeed[from:to], capacity, ranks) {
			break
		}
		if distance := speed(to-1) - speed(from); distance <= least {
			best, least = bySpeed[from:to:to], distance
		}
		end := next(from)
		capacity -= c.capacityOf(bySpeed[from:end])
		from = end
	}
	return best
}
