package nodeset

import (
	"cmp"
	"slices"
	"strings"
)

// A Chooser chooses among the sets of one request for one job.
type Chooser struct {
	Setting
	Nodes []Node
	Sets  []Set
	Ranks int // of the job; 0: as many as there is room for

	// HoldsJob reports whether so many ranks (0: those of the job) find room on some nodes alone. nil: the
	// sum of their rooms decides, and Ranks is known.
	HoldsJob func(members []int, ranks int) bool
}

// NewChooser builds the sets.
func NewChooser(s Setting, nodes []Node, ranks int, holds func(members []int, ranks int) bool) *Chooser {
	return &Chooser{Setting: s, Nodes: nodes, Sets: BuildSets(s, nodes), Ranks: ranks, HoldsJob: holds}
}

// holdsRanks reports whether nodes of so much room hold some ranks.
func (c *Chooser) holdsRanks(members []int, room, ranks int) bool {
	if c.HoldsJob == nil {
		return room >= ranks
	}
	return c.HoldsJob(members, ranks)
}

// SetFits reports whether a set holds the job.
func (c *Chooser) SetFits(set int) bool {
	return c.holdsRanks(c.Sets[set].Members, c.Sets[set].Capacity, c.Ranks)
}

// capacityOf is that of some nodes.
func (c *Chooser) capacityOf(members []int) (room int) {
	for _, i := range members {
		room += c.Nodes[i].Capacity
	}
	return room
}

// ChooseOne is the set of ONEOF or FIRSTOF, with those of its members that go on; -1: none fits.
func (c *Chooser) ChooseOne() (set int, members []int) {
	if c.Policy == FirstOf || c.Priority == FirstFit {
		if set = slices.IndexFunc(c.indices(), c.SetFits); set < 0 {
			return -1, nil
		}
		return set, c.Sets[set].Members
	}
	set = -1
	var best setRating
	for i := range c.Sets {
		if !c.SetFits(i) {
			continue
		}
		if r := c.rate(i); set < 0 || r.compare(&best) < 0 {
			set, best = i, r
		}
	}
	if set < 0 {
		return -1, nil
	}
	return set, c.narrowByPriority(set)
}

// ChooseNamed is the set of a name, as One is; -1: it does not fit, or there is none.
func (c *Chooser) ChooseNamed(name string) (set int, members []int) {
	set = slices.IndexFunc(c.Sets, func(s Set) bool { return s.Name == name })
	switch {
	case set < 0 || !c.SetFits(set):
		return -1, nil
	case c.Policy == FirstOf:
		return set, c.Sets[set].Members
	}
	return set, c.narrowByPriority(set)
}

// HoldsRanks reports whether some nodes hold some ranks.
func (c *Chooser) HoldsRanks(members []int, ranks int) bool {
	return c.holdsRanks(members, c.capacityOf(members), ranks)
}

// UnionName is that of the union of all sets.
func (c *Chooser) UnionName() string {
	names := make([]string, len(c.Sets))
	for i, set := range c.Sets {
		names[i] = set.Name
	}
	return strings.Join(names, "+")
}

// UnionMembers is the members of all sets, each once.
func (c *Chooser) UnionMembers() []int {
	in := make([]bool, len(c.Nodes))
	for _, set := range c.Sets {
		for _, i := range set.Members {
			in[i] = true
		}
	}
	return slices.DeleteFunc(c.AllNodes(), func(i int) bool { return !in[i] })
}

// AllNodes are all nodes, whether they are in a set or not.
func (c *Chooser) AllNodes() []int {
	all := make([]int, len(c.Nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

// indices are those of the sets.
func (c *Chooser) indices() []int {
	all := make([]int, len(c.Sets))
	for i := range all {
		all[i] = i
	}
	return all
}

// BySize are the sets by descending number of CPUs, then by index: where CPUs are shared, the
// load of each is lowest so.
func (c *Chooser) BySize() []int {
	cpus := make([]int, len(c.Sets))
	for i, set := range c.Sets {
		for _, k := range set.Members {
			cpus[i] += c.Nodes[k].Size
		}
	}
	order := c.indices()
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cpus[b], cpus[a]) })
	return order
}

// narrowByPriority are the members of a chosen set that go on by its priority.
func (c *Chooser) narrowByPriority(set int) []int {
	members := c.Sets[set].Members
	stays := func(Node) bool { return true }
	switch c.Priority {
	case ByAffinity:
		stays = func(n Node) bool { return n.Affinity >= 0 }
	case MinLoss:
		if l := c.speedLossOf(set); l.speedsKnown {
			stays = func(n Node) bool { return n.Speed > 0 && n.Speed <= l.last }
		}
	default:
		return members
	}
	var fewer []int
	for _, i := range members {
		if stays(c.Nodes[i]) {
			fewer = append(fewer, i)
		}
	}
	if !c.holdsRanks(fewer, c.capacityOf(fewer), c.Ranks) {
		return members
	}
	return fewer
}
