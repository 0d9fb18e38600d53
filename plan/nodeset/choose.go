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

	// Holds reports whether so many ranks (0: those of the job) find room on some nodes alone. nil: the
	// sum of their rooms decides, and Ranks is known.
	Holds func(members []int, ranks int) bool
}

// NewChooser builds the sets.
func NewChooser(s Setting, nodes []Node, ranks int, holds func(members []int, ranks int) bool) *Chooser {
	return &Chooser{Setting: s, Nodes: nodes, Sets: Build(s, nodes), Ranks: ranks, Holds: holds}
}

// holds reports whether nodes of so much room hold some ranks.
func (c *Chooser) holds(members []int, room, ranks int) bool {
	if c.Holds == nil {
		return room >= ranks
	}
	return c.Holds(members, ranks)
}

// Fits reports whether a set holds the job.
func (c *Chooser) Fits(set int) bool { return c.holds(c.Sets[set].Members, c.Sets[set].Room, c.Ranks) }

// room is that of some nodes.
func (c *Chooser) room(members []int) (room int) {
	for _, i := range members {
		room += c.Nodes[i].Room
	}
	return room
}

// One is the set of ONEOF or FIRSTOF, with those of its members that go on; -1: none fits.
func (c *Chooser) One() (set int, members []int) {
	if c.Policy == FirstOf || c.Priority == FirstFit {
		if set = slices.IndexFunc(c.indices(), c.Fits); set < 0 {
			return -1, nil
		}
		return set, c.Sets[set].Members
	}
	set = -1
	var best rating
	for i := range c.Sets {
		if !c.Fits(i) {
			continue
		}
		if r := c.rate(i); set < 0 || r.compare(&best) < 0 {
			set, best = i, r
		}
	}
	if set < 0 {
		return -1, nil
	}
	return set, c.narrowed(set)
}

// Take is the set of a name, as One is; -1: it does not fit, or there is none.
func (c *Chooser) Take(name string) (set int, members []int) {
	set = slices.IndexFunc(c.Sets, func(s Set) bool { return s.Name == name })
	switch {
	case set < 0 || !c.Fits(set):
		return -1, nil
	case c.Policy == FirstOf:
		return set, c.Sets[set].Members
	}
	return set, c.narrowed(set)
}

// Hold reports whether some nodes hold some ranks.
func (c *Chooser) Hold(members []int, ranks int) bool {
	return c.holds(members, c.room(members), ranks)
}

// Name is that of the union of all sets.
func (c *Chooser) Name() string {
	names := make([]string, len(c.Sets))
	for i, set := range c.Sets {
		names[i] = set.Name
	}
	return strings.Join(names, "+")
}

// Union is the members of all sets, each once.
func (c *Chooser) Union() []int {
	in := make([]bool, len(c.Nodes))
	for _, set := range c.Sets {
		for _, i := range set.Members {
			in[i] = true
		}
	}
	return slices.DeleteFunc(c.All(), func(i int) bool { return !in[i] })
}

// All are all nodes, whether they are in a set or not.
func (c *Chooser) All() []int {
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

// Largest are the sets by descending number of CPUs, then by index: where CPUs are shared, the
// load of each is lowest so.
func (c *Chooser) Largest() []int {
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

// narrowed are the members of a chosen set that go on by its priority.
func (c *Chooser) narrowed(set int) []int {
	members := c.Sets[set].Members
	stays := func(Node) bool { return true }
	switch c.Priority {
	case Affine:
		stays = func(n Node) bool { return n.Affinity >= 0 }
	case MinLoss:
		if l := c.lose(set); l.known {
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
	if !c.holds(fewer, c.room(fewer), c.Ranks) {
		return members
	}
	return fewer
}
