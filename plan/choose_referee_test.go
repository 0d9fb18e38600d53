package plan

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// A refNode is a node of a random cluster. Its speed is in MHz; 0 means unknown.
type refNode struct {
	id, cpus, procs, speed, affinity int
	features                         []string
	global                           bool
}

func (n refNode) freeCPUs() int { return max(0, n.cpus-n.procs) }

// A refCase is a cluster and a request.
type refCase struct {
	nodes              []refNode
	np                 int
	policy, attribute  string // empty policy: no sets
	list               []string
	tolerance          int // percent
	priority           string
	span, best         bool
	optional, balanced bool
	delay, waited      int
}

// A refSet is a named set of nodes.
type refSet struct {
	name  string
	index int
	nodes []refNode
}

func freeCPUsOf(nodes []refNode) (sum int) {
	for _, n := range nodes {
		sum += n.freeCPUs()
	}
	return sum
}

// expected returns the result by the specification: lines of "set: node*ranks ..." for each part, or an
// error code. It is written from which-hosts.md alone, for one app without shared CPUs, and tries every
// possibility.
func (c refCase) expected() string {
	var able []refNode
	for _, n := range c.nodes {
		if n.freeCPUs() > 0 {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		return CodeNoNodes
	}
	sets := c.sets(able)
	waiting := false
	var idle []refNode
	if c.policy != "" && c.delay > c.waited {
		for _, n := range c.nodes {
			n.procs = 0
			idle = append(idle, n)
		}
		waiting = c.chosenSet(c.sets(idle), c.np) != nil
	}
	if c.policy != "" {
		chosen := c.chosenSet(sets, c.np)
		if waiting && c.best && c.policy != "ANYOF" {
			chosen = c.bestWhenIdle(sets, idle, able)
		}
		if chosen != nil {
			return c.fill(chosen.name, c.balance(chosen.nodes, c.np), c.np)
		}
		if !waiting && c.span && c.policy != "ANYOF" {
			if text := c.evenSpan(sets); text != "" {
				return text
			}
		}
	}
	switch {
	case freeCPUsOf(able) < c.np:
		return CodeNotEnough
	case waiting:
		return CodeDelayed
	case c.policy == "" || c.optional:
		return c.fill("", c.balance(able, c.np), c.np)
	}
	return CodeNoSet
}

// bestWhenIdle returns those members of the best set of the idle nodes that are able now; nil if they do
// not fit. It has the name of the first set of now with the same members, if there is one.
func (c refCase) bestWhenIdle(sets []refSet, idle, able []refNode) *refSet {
	best := c.chosenSet(c.sets(idle), c.np).name
	for _, s := range c.sets(idle) {
		if s.name != best {
			continue
		}
		s.nodes = filterNodes(able, func(n refNode) bool { return slices.Contains(ids(s.nodes), n.id) })
		for _, other := range slices.Backward(sets) {
			if slices.Equal(ids(other.nodes), ids(s.nodes)) {
				s.name = other.name
			}
		}
		if freeCPUsOf(s.nodes) >= c.np {
			return c.narrowByPriority(&s)
		}
	}
	return nil
}

// sets returns the sets of some nodes.
func (c refCase) sets(nodes []refNode) (sets []refSet) {
	names := slices.Clone(c.list)
	if c.attribute == "PROCSPEED" {
		if names == nil {
			for mhz := 5000; mhz > 0; mhz-- {
				names = append(names, fmt.Sprint(mhz))
			}
			names = slices.DeleteFunc(names, func(name string) bool {
				return !slices.ContainsFunc(nodes, func(n refNode) bool { return fmt.Sprint(n.speed) == name })
			})
		} else if c.policy == "ANYOF" {
			return c.distinct([]refSet{{name: "range", nodes: filterNodes(nodes, func(n refNode) bool {
				low, high := slices.MinFunc(names, compareNumbers), slices.MaxFunc(names, compareNumbers)
				return n.speed > 0 && n.speed >= number(low) && c.tolerates(number(high), n.speed)
			})}})
		}
		for _, name := range names {
			sets = append(sets, refSet{name: name, nodes: filterNodes(nodes, func(n refNode) bool {
				return n.speed > 0 && n.speed >= number(name) && c.tolerates(number(name), n.speed)
			})})
		}
		return c.distinct(sets)
	}
	if names == nil {
		for name := 'a'; name <= 'h'; name++ {
			names = append(names, string(name))
		}
	}
	for _, name := range names {
		if s := filterNodes(nodes, func(n refNode) bool { return slices.Contains(n.features, name) }); len(s) > 0 {
			sets = append(sets, refSet{name: name, nodes: filterNodes(nodes, func(n refNode) bool { return slices.Contains(n.features, name) || n.global })})
		}
	}
	return c.distinct(sets)
}

func (c refCase) tolerates(v, x int) bool {
	most := new(big.Rat).Mul(big.NewRat(int64(v), 1), big.NewRat(int64(100+c.tolerance), 100))
	return big.NewRat(int64(x), 1).Cmp(most) <= 0
}

// distinct drops sets that are empty or equal to an earlier one.
func (c refCase) distinct(sets []refSet) (all []refSet) {
	for _, s := range sets {
		like := func(other refSet) bool { return fmt.Sprint(ids(other.nodes)) == fmt.Sprint(ids(s.nodes)) }
		if len(s.nodes) > 0 && !slices.ContainsFunc(all, like) {
			s.index = len(all)
			all = append(all, s)
		}
	}
	return all
}

// chosenSet returns the set that the policy chooses; nil if none fits.
func (c refCase) chosenSet(sets []refSet, np int) *refSet {
	if c.policy == "ANYOF" {
		var union refSet
		for _, s := range sets {
			for _, n := range s.nodes {
				if !slices.Contains(ids(union.nodes), n.id) {
					union.nodes = append(union.nodes, n)
				}
			}
		}
		if union.name = "*"; freeCPUsOf(union.nodes) < np {
			return nil
		}
		return &union
	}
	fit := slices.DeleteFunc(slices.Clone(sets), func(s refSet) bool { return freeCPUsOf(s.nodes) < np })
	if len(fit) == 0 {
		return nil
	}
	if c.policy == "FIRSTOF" {
		return &fit[0]
	}
	best := slices.MinFunc(fit, func(a, b refSet) int { return slices.Compare(c.key(a), c.key(b)) })
	return c.narrowByPriority(&best)
}

func number(text string) (n int) { fmt.Sscan(text, &n); return n }

func compareNumbers(a, b string) int { return number(a) - number(b) }

func filterNodes(nodes []refNode, which func(refNode) bool) (kept []refNode) {
	for _, n := range nodes {
		if which(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func ids(nodes []refNode) (ids []int) {
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	slices.Sort(ids)
	return ids
}

// key returns the sort key of a set: the set with the least key is chosen.
func (c refCase) key(s refSet) []int {
	switch c.priority {
	case "BESTFIT":
		return []int{freeCPUsOf(s.nodes), s.index}
	case "WORSTFIT":
		return []int{-freeCPUsOf(s.nodes), s.index}
	case "BESTRESOURCE":
		slowest := slices.MinFunc(s.nodes, func(a, b refNode) int { return a.speed - b.speed })
		return []int{-slowest.speed, freeCPUsOf(s.nodes), s.index}
	case "MINLOSS":
		lost, first, _, known := c.speedLoss(s)
		if !known {
			return []int{1 << 60, 0, freeCPUsOf(s.nodes), s.index}
		}
		return []int{lost, -first, freeCPUsOf(s.nodes), s.index}
	case "AFFINITY":
		shunned, favoured := 1, freeCPUsOf(filterNodes(s.nodes, func(n refNode) bool { return n.affinity > 0 }))
		if freeCPUsOf(filterNodes(s.nodes, func(n refNode) bool { return n.affinity >= 0 })) >= c.np {
			shunned = 0
		}
		return []int{shunned, -min(c.np, favoured), s.index}
	}
	return []int{s.index}
}

// speedLoss adds up, over the ranks, the speed that is lost if all run as fast as the slowest.
func (c refCase) speedLoss(s refSet) (lost, first, last int, known bool) {
	by := slices.Clone(s.nodes)
	slices.SortFunc(by, func(a, b refNode) int { return cmp.Or(a.speed-b.speed, a.id-b.id) })
	first = by[0].speed
	rank := 0
	for _, n := range by {
		for range n.freeCPUs() {
			if rank++; rank <= c.np {
				lost, last = lost+n.speed-first, n.speed
			}
		}
	}
	return lost, first, last, first > 0
}

// narrowByPriority drops the members that the priority does not use.
func (c refCase) narrowByPriority(s *refSet) *refSet {
	if c.policy != "ONEOF" {
		return s
	}
	fewer := s.nodes
	switch c.priority {
	case "MINLOSS":
		if _, _, last, known := c.speedLoss(*s); known {
			fewer = filterNodes(s.nodes, func(n refNode) bool { return n.speed <= last })
		}
	case "AFFINITY":
		fewer = filterNodes(s.nodes, func(n refNode) bool { return n.affinity >= 0 })
	}
	if freeCPUsOf(fewer) < c.np {
		return s
	}
	return &refSet{s.name, s.index, fewer}
}

// balance tries all ranges of speeds.
func (c refCase) balance(nodes []refNode, np int) []refNode {
	if !c.balanced {
		return nodes
	}
	best, from, width := nodes, 0, 1<<60
	for _, a := range nodes {
		for _, b := range nodes {
			in := filterNodes(nodes, func(n refNode) bool { return n.speed > 0 && n.speed >= a.speed && n.speed <= b.speed })
			if a.speed == 0 || b.speed < a.speed || freeCPUsOf(in) < np {
				continue
			}
			if w := b.speed - a.speed; w < width || w == width && a.speed > from {
				best, from, width = in, a.speed, w
			}
		}
	}
	return best
}

// evenSpan returns the first even span, as which-hosts.md defines it.
func (c refCase) evenSpan(sets []refSet) string {
	line := slices.Clone(sets)
	if c.policy == "ONEOF" && slices.Contains([]string{"BESTFIT", "WORSTFIT", "BESTRESOURCE"}, c.priority) {
		slices.SortFunc(line, func(a, b refSet) int { return slices.Compare(c.key(a), c.key(b)) })
	}
	for k := 2; k <= min(len(sets), c.np); k++ {
		var parts []string
		var taken, used []int
		for part := range k {
			quota := c.np / k
			if part < c.np%k {
				quota++
			}
			for _, s := range line {
				left := filterNodes(s.nodes, func(n refNode) bool { return !slices.Contains(taken, n.id) && !(n.global && c.attribute == "FEATURE") })
				if slices.Contains(used, s.index) || freeCPUsOf(left) < quota {
					continue
				}
				parts = append(parts, c.fill(s.name, c.balance(left, quota), quota))
				used, taken = append(used, s.index), append(taken, ids(left)...)
				break
			}
			if len(parts) <= part {
				break
			}
		}
		if len(parts) == k {
			return strings.Join(parts, "; ")
		}
	}
	return ""
}

// fill fills nodes by PROC: fewest processes, most CPUs, least ID.
func (c refCase) fill(set string, nodes []refNode, np int) string {
	by := slices.Clone(nodes)
	slices.SortFunc(by, func(a, b refNode) int { return cmp.Or(a.procs-b.procs, b.cpus-a.cpus, a.id-b.id) })
	var b strings.Builder
	if c.policy == "ANYOF" && set != "" {
		set = "*"
	}
	b.WriteString(set + ":")
	for _, n := range by {
		if take := min(n.freeCPUs(), np); take > 0 {
			fmt.Fprintf(&b, " n%d*%d", n.id, take)
			np -= take
		}
	}
	return b.String()
}

// actual returns the result of Make in the format of expected.
func (c refCase) actual(t *testing.T) string {
	req := job.Request{Apps: []job.App{{N: c.np}}, Placement: job.Placement{Sort: "PROC"}}
	req.NodeSet = nodeset.Setting{Priority: nodeset.Priority(c.priority), Optional: c.optional, Plus: nodeset.Plus{SpanEvenly: c.span, Delay: c.best},
		Tolerance: nodeset.Tolerance(c.tolerance * 10_000), Delay: time.Duration(c.delay) * time.Second}
	req.Balance = c.balanced
	if c.policy != "" {
		kinds, _ := nodeset.KindsOf(0, nil)
		var err error
		if req.NodeSet.Request, err = nodeset.ParseParts(c.policy, c.attribute, c.list, kinds); err != nil {
			t.Fatal(err)
		}
	}
	snap := job.Snapshot{Waited: time.Duration(c.waited) * time.Second}
	for value := -1; value <= 1; value++ {
		a := job.Affinity{Value: value, Nodes: []string{}}
		for _, n := range filterNodes(c.nodes, func(n refNode) bool { return n.affinity == value }) {
			a.Nodes = append(a.Nodes, fmt.Sprint("N", n.id))
		}
		req.Affinity = append(req.Affinity, a)
	}
	for _, n := range c.nodes {
		def := job.NodeDef{ID: n.id, Name: fmt.Sprint("n", n.id), NodePolicy: job.NodePolicy{Features: n.features, InAllSets: n.global,
			Attributes: nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(int64(n.speed))}}}}
		var topology pin.Topology
		for cpu := range n.cpus {
			topology.Cores = append(topology.Cores, pin.Core{CPUs: []int{cpu}, CoreLocation: pin.UnknownLocation})
		}
		req.Nodes = append(req.Nodes, def)
		snap.Nodes = append(snap.Nodes, job.Node{NodeDef: def, Probe: job.Probe{Topology: topology}, Occupancy: job.Occupancy{Ranks: n.procs}})
	}
	p, err := Make(req, snap)
	if err != nil {
		return err.(*Error).Code
	}
	if p.Choice == nil {
		p.Choice = &job.NodeChoice{Groups: []job.ChosenGroup{{Ranks: p.Size, Nodes: namesByRank(p)}}}
	}
	counts := make(map[string]int)
	for _, n := range p.Nodes {
		counts[n.Name] = len(n.Ranks)
	}
	var parts []string
	for _, part := range p.Choice.Groups {
		set := part.Set
		if c.policy == "ANYOF" && set != "" {
			set = "*"
		}
		text := set + ":"
		for _, name := range part.Nodes {
			text += fmt.Sprintf(" %s*%d", name, counts[name])
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func namesByRank(p job.Plan) (names []string) {
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// random returns a random case that is small enough to read, and uses all features of the specification.
func random(r *rand.Rand) refCase {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	c := refCase{np: 1 + r.IntN(20), policy: pick("ONEOF", "ONEOF", "ONEOF", "FIRSTOF", "ANYOF", ""), attribute: pick("FEATURE", "PROCSPEED"),
		span: r.IntN(2) == 0, best: r.IntN(3) == 0, optional: r.IntN(4) == 0, balanced: r.IntN(5) == 0}
	if r.IntN(3) == 0 {
		c.delay, c.waited = 60, r.IntN(3)*30
	}
	for id := range 1 + r.IntN(9) {
		n := refNode{id: id, cpus: 1 + r.IntN(6), speed: r.IntN(6) * 500, affinity: r.IntN(3) - 1, global: r.IntN(6) == 0}
		if n.procs = 0; r.IntN(2) == 0 {
			n.procs = r.IntN(n.cpus + 1)
		}
		for range r.IntN(3) {
			n.features = append(n.features, string(rune('a'+r.IntN(4))))
		}
		c.nodes = append(c.nodes, n)
	}
	c.priority = pick("FIRSTFIT", "BESTFIT", "WORSTFIT", "AFFINITY", "MINLOSS", "BESTRESOURCE")
	if c.attribute == "PROCSPEED" {
		c.tolerance = r.IntN(3) * 50
	} else if c.priority == "BESTRESOURCE" {
		c.priority = "BESTFIT"
	}
	for range r.IntN(4) {
		if c.attribute == "PROCSPEED" {
			c.list = append(c.list, fmt.Sprint(500+r.IntN(6)*500))
		} else {
			c.list = append(c.list, string(rune('a'+r.IntN(5))))
		}
	}
	return c
}

// For random clusters and requests Make agrees with the referee: on the set, the parts and their ranks,
// the order of the nodes, or the error.
func TestChoiceAgainstAReferee(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 12))
	kinds := make(map[string]int)
	for i := range 4_000 {
		c := random(r)
		want, got := c.expected(), c.actual(t)
		if got != want {
			t.Fatalf("case %d, %+v:\n got %s\nwant %s", i, c, got, want)
		}
		switch {
		case strings.Contains(want, ";"):
			kinds["span"]++
		case strings.Contains(want, ": "):
			kinds["placed"]++
		default:
			kinds[want]++
		}
	}
	for _, kind := range []string{"span", "placed", CodeNoNodes, CodeNotEnough, CodeNoSet, CodeDelayed} {
		if kinds[kind] < 20 {
			t.Errorf("only %d cases of %s: the cases are too much alike", kinds[kind], kind)
		}
	}
}
