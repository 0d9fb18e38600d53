package nodeset

import (
	"cmp"
	"slices"
)

// Balance are those of some members whose speeds lie in the range, of those that hold the ranks, with
// the least distance of its ends; of equal ones the fastest. Without such a range it is all members.
func (c *Chooser) Balance(members []int, ranks int) []int {
	var by []int // with a known speed, ascending
	for _, i := range members {
		if c.Nodes[i].Speed > 0 {
			by = append(by, i)
		}
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(c.Nodes[a].Speed, c.Nodes[b].Speed) })
	speed := func(k int) Number { return c.Nodes[by[k]].Speed }
	next := func(k int) int { // behind the nodes of one speed
		end := k + 1
		for end < len(by) && speed(end) == speed(k) {
			end++
		}
		return end
	}
	from, to, room := 0, 0, 0
	best := members
	least := MaxNumber + 1
	for from < len(by) {
		for to < len(by) && !c.holdsRanks(by[from:to], room, ranks) {
			end := next(to)
			room += c.capacityOf(by[to:end])
			to = end
		}
		if !c.holdsRanks(by[from:to], room, ranks) {
			break
		}
		if distance := speed(to-1) - speed(from); distance <= least {
			best, least = by[from:to:to], distance
		}
		end := next(from)
		room -= c.capacityOf(by[from:end])
		from = end
	}
	return best
}
