package nodeset

import (
	"cmp"
	"math/bits"
	"slices"
)

// A rating is the key of a set by a priority: the least is the best.
type rating struct {
	first  wide
	second int64
	room   int64
	set    int
}

func (r *rating) compare(other *rating) int {
	return cmp.Or(r.first.compare(other.first), cmp.Compare(r.second, other.second), cmp.Compare(r.room, other.room), cmp.Compare(r.set, other.set))
}

// rate is the rating of a set:
//
//	FIRSTFIT      index
//	BESTFIT       room, index
//	WORSTFIT      -room, index
//	BESTRESOURCE  -(slowest speed of a member with room), room, index
//	MINLOSS       loss, -s0, room, index
//	AFFINITY      shunned, -favoured, index
func (c *Chooser) rate(set int) rating {
	r := rating{set: set}
	room := int64(c.Sets[set].Room)
	switch c.Priority {
	case BestFit:
		r.room = room
	case WorstFit:
		r.room = -room
	case BestResource:
		r.second, r.room = -int64(c.slowest(set)), room
	case MinLoss:
		l := c.lose(set)
		r.first, r.second, r.room = l.loss, -int64(l.first), room
		if !l.known {
			r.first = most
		}
	case Affine:
		r.first.low, r.second = c.shunned(set), -int64(c.favoured(set))
	}
	return r
}

// slowest is the least speed of a member with room; 0: unknown.
func (c *Chooser) slowest(set int) (least Number) {
	for _, i := range c.Sets[set].Members {
		if n := &c.Nodes[i]; n.Room > 0 && (least == 0 || n.Speed < least) {
			least = n.Speed
			if c.Attribute == ProcSpeed {
				break // they ascend
			}
		}
	}
	return least
}

// shunned is 0 if the set holds the job without its nodes that had better not be used.
func (c *Chooser) shunned(set int) uint64 {
	var welcome []int
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity >= 0 {
			welcome = append(welcome, i)
		}
	}
	if c.holds(welcome, c.room(welcome), c.Ranks) {
		return 0
	}
	return 1
}

// favoured is how many of the ranks find room on nodes that are recommended.
func (c *Chooser) favoured(set int) (room int) {
	for _, i := range c.Sets[set].Members {
		if c.Nodes[i].Affinity > 0 {
			room += c.Nodes[i].Room
		}
	}
	if c.Ranks > 0 {
		return min(room, c.Ranks)
	}
	return room
}

// A loss is what is lost of the speed of nodes when all ranks run at the pace of the slowest.
type loss struct {
	known       bool   // the speeds of all members are
	loss        wide   // sum of ranks by what their node is faster than the first
	first, last Number // speeds, of the nodes that the ranks would take
}

// lose takes the members with room by ascending speed until all ranks have their place.
func (c *Chooser) lose(set int) (l loss) {
	members := c.Sets[set].Members
	if c.Attribute != ProcSpeed {
		members = slices.Clone(members)
		slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(c.Nodes[a].Speed, c.Nodes[b].Speed) })
	}
	left := c.Ranks
	if left == 0 {
		left = c.Sets[set].Room
	}
	if len(members) > 0 && c.Nodes[members[0]].Speed == 0 {
		return loss{}
	}
	l.known = true
	for _, i := range members {
		n := &c.Nodes[i]
		x := min(n.Room, left)
		if x <= 0 {
			continue
		}
		if l.first == 0 {
			l.first = n.Speed
		}
		l.last = n.Speed
		l.loss = l.loss.plus(product(uint64(x), uint64(n.Speed-l.first)))
		if left -= x; left == 0 {
			break
		}
	}
	return l
}

// A wide is a number of 128 bits, since speeds have ten decimals.
type wide struct{ high, low uint64 }

// most comes behind every other.
var most = wide{1<<64 - 1, 1<<64 - 1}

func product(a, b uint64) (w wide) {
	w.high, w.low = bits.Mul64(a, b)
	return w
}

func (w wide) plus(v wide) wide {
	low, carry := bits.Add64(w.low, v.low, 0)
	return wide{w.high + v.high + carry, low}
}

func (w wide) compare(v wide) int {
	return cmp.Or(cmp.Compare(w.high, v.high), cmp.Compare(w.low, v.low))
}
