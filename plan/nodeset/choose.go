package nodeset

import (
	"cmp"
	"slices"
	"strings"
)

// A Chooser chooses a node set for one job.
type Chooser struct {
	Setting
	Nodes []Node
	Sets  []Set
	Ranks int // ranks of the job; 0 means as many as fit

	// HoldsJob reports whether some nodes alone can run a number of ranks; 0 means the whole job. If it is
	// nil, the sum of the capacities decides, and Ranks is not 0.
	HoldsJob func(members []int, ranks int) bool
}

// NewChooser returns a Chooser for the node sets of a setting. holds reports whether nodes can run a number
// of ranks; it is stored in HoldsJob and may be nil.
func NewChooser(s Setting, nodes []Node, ranks int, holds func(members []int, ranks int) bool) *Chooser {
	return &Chooser{Setting: s, Nodes: nodes, Sets: BuildSets(s, nodes), Ranks: ranks, HoldsJob: holds}
}

// holdsRanks reports whether members can run the given number of ranks. capacity is the total capacity of members.
func (c *Chooser) holdsRanks(members []int, capacity, ranks int) bool {
	if c.HoldsJob == nil {
		return capacity >= ranks
	}
	return c.HoldsJob(members, ranks)
}

// SetFits reports whether the nodes of a set can run the job.
func (c *Chooser) SetFits(set int) bool {
	return c.holdsRanks(c.Sets[set].Members, c.Sets[set].Capacity, c.Ranks)
}

// capacityOf returns the total capacity of the nodes in members, in ranks.
func (c *Chooser) capacityOf(members []int) (capacity int) {
	for _, i := range members {
		capacity += c.Nodes[i].Capacity
	}
	return capacity
}

// ChooseOne returns the set that the policy ONEOF or FIRSTOF chooses, and the members of the set that the job may use.
// If no set can run the job, set is -1.
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
	return set, c.narrowByPriority(c.Sets[set].Members)
}

// UsableMembers returns the nodes of a set that the job may use. members contains all nodes of the set. If these
// nodes cannot run the job, UsableMembers returns nil.
func (c *Chooser) UsableMembers(members []int) []int {
	switch {
	case !c.HoldsRanks(members, c.Ranks):
		return nil
	case c.Policy == FirstOf:
		return members
	}
	return c.narrowByPriority(members)
}

// NameOf returns the name of the first set that has exactly these members, in any order. If there is no such
// set, it returns the given name.
func (c *Chooser) NameOf(members []int, name string) string {
	members = slices.Sorted(slices.Values(members))
	for _, set := range c.Sets {
		if slices.Equal(slices.Sorted(slices.Values(set.Members)), members) {
			return set.Name
		}
	}
	return name
}

// HoldsRanks reports whether the nodes in members can run the given number of ranks.
func (c *Chooser) HoldsRanks(members []int, ranks int) bool {
	return c.holdsRanks(members, c.capacityOf(members), ranks)
}

// UnionName returns the name of the union of all sets: the names of the sets, joined by "+".
func (c *Chooser) UnionName() string {
	names := make([]string, len(c.Sets))
	for i, set := range c.Sets {
		names[i] = set.Name
	}
	return strings.Join(names, "+")
}

// UnionMembers returns the members of all sets without duplicates.
func (c *Chooser) UnionMembers() []int {
	in := make([]bool, len(c.Nodes))
	for _, set := range c.Sets {
		for _, i := range set.Members {
			in[i] = true
		}
	}
	return slices.DeleteFunc(c.AllNodes(), func(i int) bool { return !in[i] })
}

// AllNodes returns the indices of all nodes, whether or not they are in a set.
func (c *Chooser) AllNodes() []int {
	all := make([]int, len(c.Nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

// indices returns the indices of all sets.
func (c *Chooser) indices() []int {
	all := make([]int, len(c.Sets))
	for i := range all {
		all[i] = i
	}
	return all
}

// OrderForSharing returns the sets in the order in which they are tried if ranks share CPUs. For FIRSTOF they are
// in the order of their indices. For ONEOF, sets with more CPUs come first, because fewer ranks then share a CPU.
func (c *Chooser) OrderForSharing() []int {
	if c.Policy == FirstOf {
		return c.indices()
	}
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

// narrowByPriority returns the members of a set without those that the request's priority excludes. AFFINITY excludes
// nodes that the request says to avoid. MINLOSS excludes nodes that are faster than needed. If the remaining nodes
// cannot run the job, it returns all members.
func (c *Chooser) narrowByPriority(members []int) []int {
	remains := func(Node) bool { return true }
	switch c.Priority {
	case ByAffinity:
		remains = func(n Node) bool { return n.Affinity >= 0 }
	case MinLoss:
		if l := c.speedLossOf(members); l.speedsKnown {
			remains = func(n Node) bool { return n.Speed > 0 && n.Speed <= l.last }
		}
	default:
		return members
	}
	var fewer []int
	for _, i := range members {
		if remains(c.Nodes[i]) {
			fewer = append(fewer, i)
		}
	}
	if !c.holdsRanks(fewer, c.capacityOf(fewer), c.Ranks) {
		return members
	}
	return fewer
}
