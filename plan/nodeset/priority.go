package nodeset

import (
	"cmp"
	"math/bits"
	"slices"
)

// A setRating is the key of a set by a priority: the least is the best.
type setRating struct {
	first    uint128
	second   int64
	capacity int64
	set      int
}

func (r *setRating) compare(other *setRating) int {
	return cmp.Or(r.first.compare(other.first), cmp.Compare(r.second, other.second), cmp.Compare(r.capacity, other.capacity), cmp.Compare(r.set, other.set))
}

// rate is the rating of a set:
//
//	FIRSTFIT      index
//	BESTFIT       room, index
//	WORSTFIT      -room, index
//	BESTRESOURCE  -(slowest speed of a member with room), room, index
//	MINLOSS       loss, -s0, room, index
//	AFFINITY      shunned, -favoured, index
func (c *Chooser) rate(set int) setRating {
	r := setRating{set: set}
	room := int64(c.Sets[set].Capacity)
	switch c.Priority {
	case BestFit:
		r.capacity = room
	case WorstFit:
		r.capacity = -room
	case BestResource:
		r.second, r.capacity = -int64(c.slowestSpeed(set)), room
	case MinLoss:
		l := c.speedLossOf(set)
		r.first, r.second, r.capacity = l.total, -int64(l.first), room
		if !l.speedsKnown {
			r.first = maxUint128
		}
	case ByAffinity:
		r.first.low, r.second = c.needsAvoidedNodes(set), -int64(c.ranksOnPreferredNodes(set))
	}
	return r
}

// slowestSpeed is the least speed of a member with room; 0: unknown.
func (c *Chooser) slowestSpeed(set int) (least Number) {
	for _, i := range c.Sets[set].Members {
		if n := &c.Nodes[i]; n.Capacity > 0 && (least == 0 || n.Speed < least) {
			least = n.Speed
			if c.Attribute == ProcSpeed {
				break // they ascend
			}
		}
	}
	return least
}

// needsAvoidedNodes is 0 if the set holds the job without its nodes that had better not be used.
func (c *Chooser) needsAvoidedNodes(set int) uint64 {
	var welcome []int
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity >= 0 {
			welcome = append(welcome, i)
		}
	}
	if c.holdsRanks(welcome, c.capacityOf(welcome), c.Ranks) {
		return 0
	}
	return 1
}

// ranksOnPreferredNodes is how many of the ranks find room on nodes that are recommended.
func (c *Chooser) ranksOnPreferredNodes(set int) (room int) {
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity > 0 {
			room += c.Nodes[i].Capacity
		}
	}
	if c.Ranks > 0 {
		return min(room, c.Ranks)
	}
	return room
}

// A speedLoss is what is lost of the speed of nodes when all ranks run at the pace of the slowest.
type speedLoss struct {
	speedsKnown bool    // the speeds of all members are
	total       uint128 // sum of ranks by what their node is faster than the first
	first, last Number  // speeds, of the nodes that the ranks would take
}

// speedLossOf takes the members with room by ascending speed until all ranks have their place.
func (c *Chooser) speedLossOf(set int) (l speedLoss) {
	members := c.Sets[set].Members
	if c.Attribute != ProcSpeed {
		members = slices.Clone(members)
		slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(c.Nodes[a].Speed, c.Nodes[b].Speed) })
	}
	left := c.Ranks
	if left == 0 {
		left = c.Sets[set].Capacity
	}
	if len(members) > 0 && c.Nodes[members[0]].Speed == 0 {
		return speedLoss{}
	}
	l.speedsKnown = true
	for _, i := range members {
		n := &c.Nodes[i]
		x := min(n.Capacity, left)
		if x <= 0 {
			continue
		}
		if l.first == 0 {
			l.first = n.Speed
		}
		l.last = n.Speed
		l.total = l.total.plus(multiply(uint64(x), uint64(n.Speed-l.first)))
		if left -= x; left == 0 {
			break
		}
	}
	return l
}

// A uint128 is a number of 128 bits, since speeds have ten decimals.
type uint128 struct{ high, low uint64 }

// maxUint128 comes behind every other.
var maxUint128 = uint128{1<<64 - 1, 1<<64 - 1}

func multiply(a, b uint64) (w uint128) {
	w.high, w.low = bits.Mul64(a, b)
	return w
}

func (w uint128) plus(v uint128) uint128 {
	low, carry := bits.Add64(w.low, v.low, 0)
	return uint128{w.high + v.high + carry, low}
}

func (w uint128) compare(v uint128) int {
	return cmp.Or(cmp.Compare(w.high, v.high), cmp.Compare(w.low, v.low))
}
