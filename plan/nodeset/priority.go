package nodeset

import (
	"cmp"
	"math/bits"
	"slices"
)

// A setRating is the sort key of a node set for a given priority. The set with the smallest rating is the
// best.
type setRating struct {
	first    uint128
	second   int64
	capacity int64
	set      int
}

func (r *setRating) compare(other *setRating) int {
	return cmp.Or(r.first.compare(other.first), cmp.Compare(r.second, other.second), cmp.Compare(r.capacity, other.capacity), cmp.Compare(r.set, other.set))
}

// rate returns the rating of a set. The keys are, in this order:
//
//	FIRSTFIT      index
//	BESTFIT       capacity, index
//	WORSTFIT      -capacity, index
//	BESTRESOURCE  -(slowest speed of a member with capacity), capacity, index
//	MINLOSS       lost speed, -(slowest speed of a node used), capacity, index
//	AFFINITY      1 if nodes to avoid are needed, -(ranks on preferred nodes), index
//
// The lost speed is speedLoss.total.
func (c *Chooser) rate(set int) setRating {
	r := setRating{set: set}
	capacity := int64(c.Sets[set].Capacity)
	switch c.Priority {
	case BestFit:
		r.capacity = capacity
	case WorstFit:
		r.capacity = -capacity
	case BestResource:
		r.second, r.capacity = -int64(c.slowestSpeed(set)), capacity
	case MinLoss:
		l := c.speedLossOf(c.Sets[set].Members)
		r.first, r.second, r.capacity = l.total, -int64(l.first), capacity
		if !l.speedsKnown {
			r.first = maxUint128
		}
	case ByAffinity:
		r.first.low, r.second = c.needsAvoidedNodes(set), -int64(c.ranksOnPreferredNodes(set))
	}
	return r
}

// slowestSpeed returns the lowest speed among the members of the set that have capacity. It returns 0 if the speed is
// unknown.
func (c *Chooser) slowestSpeed(set int) (slowest Number) {
	for _, i := range c.Sets[set].Members {
		if n := &c.Nodes[i]; n.Capacity > 0 && (slowest == 0 || n.Speed < slowest) {
			slowest = n.Speed
			if c.Attribute == ProcSpeed {
				break // members are sorted by speed
			}
		}
	}
	return slowest
}

// needsAvoidedNodes returns 1 if the set can run the job only with nodes that the request says to
// avoid, and 0 otherwise.
func (c *Chooser) needsAvoidedNodes(set int) uint64 {
	var allowed []int
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity >= 0 {
			allowed = append(allowed, i)
		}
	}
	if c.holdsRanks(allowed, c.capacityOf(allowed), c.Ranks) {
		return 0
	}
	return 1
}

// ranksOnPreferredNodes returns how many ranks of the job fit on the preferred nodes of a set.
func (c *Chooser) ranksOnPreferredNodes(set int) (capacity int) {
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity > 0 {
			capacity += c.Nodes[i].Capacity
		}
	}
	if c.Ranks > 0 {
		return min(capacity, c.Ranks)
	}
	return capacity
}

// A speedLoss is the total speed that nodes lose because all ranks run at the speed of the slowest node.
type speedLoss struct {
	speedsKnown bool    // the speeds of all members are known
	total       uint128 // sum over the ranks of the speed above that of the slowest node
	first, last Number  // slowest and fastest speed of the nodes used
}

// speedLossOf computes the lost speed for a node set with the given members. It assumes that ranks fill the members
// that have capacity, slowest first, until all ranks are placed.
func (c *Chooser) speedLossOf(members []int) (l speedLoss) {
	if c.Attribute != ProcSpeed {
		members = slices.Clone(members)
		slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(c.Nodes[a].Speed, c.Nodes[b].Speed) })
	}
	left := c.Ranks
	if left == 0 {
		left = c.capacityOf(members)
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

// A uint128 is an unsigned integer with 128 bits. It holds sums of speeds, which may need more than 64 bits.
type uint128 struct{ high, low uint64 }

// maxUint128 is the maximum value of a uint128.
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
