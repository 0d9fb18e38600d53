package nodeset

import (
	"maps"
	"slices"
	"strings"

	"remshell/hostlist"
)

// A Node is a candidate as sets see it.
type Node struct {
	Value    Value // of the attribute of the request
	Global   bool  // in every set of FEATURE, if there is another node in it
	Capacity int   // ranks of the job that share no CPU
	Size     int   // S: its CPUs, busy or not
	Speed    Number
	Affinity int // -1, 0 or 1
}

// A Set is nodes that share a label, or whose numbers lie in a range.
type Set struct {
	Name     string
	Members  []int // indices into the nodes; of numbers by ascending number, else by index
	Capacity int   // of all of them
}

// BuildSets makes the sets of a request, in the order of their indices. Of sets of equal members the
// first stays, and no set is of GLOBAL nodes alone.
func BuildSets(s Setting, nodes []Node) []Set {
	if s.Kind.Numeric {
		return numberSets(s, nodes)
	}
	return labelSets(s, nodes)
}

// Numbers are the nodes whose number is known, by ascending number.
type numberLine struct {
	nodes           []int
	values          []Number // of them, each once, ascending
	ends            []int    // by value: behind its last node
	capacityThrough []int    // by place in the line: the room up to there; one more than nodes
}

func newNumberLine(nodes []Node) numberLine {
	byValue := make(map[Number][]int)
	for i := range nodes {
		if v := nodes[i].Value.Number; v > 0 {
			byValue[v] = append(byValue[v], i)
		}
	}
	l := numberLine{values: slices.Sorted(maps.Keys(byValue)), capacityThrough: []int{0}}
	for _, v := range l.values {
		for _, i := range byValue[v] {
			l.nodes = append(l.nodes, i)
			l.capacityThrough = append(l.capacityThrough, l.capacityThrough[len(l.capacityThrough)-1]+nodes[i].Capacity)
		}
		l.ends = append(l.ends, len(l.nodes))
	}
	return l
}

// setOf is the nodes whose number is at least first, and at most last with the tolerance.
func (l *numberLine) setOf(name string, first, last Number, t Tolerance) Set {
	low, _ := slices.BinarySearch(l.values, first)
	high, _ := slices.BinarySearchFunc(l.values, last, func(v, last Number) int {
		if withinTolerance(v, last, t) {
			return -1
		}
		return 1
	})
	from, to := l.endOf(low), max(l.endOf(low), l.endOf(high))
	return Set{Name: name, Members: l.nodes[from:to:to], Capacity: l.capacityThrough[to] - l.capacityThrough[from]}
}

// endOf is where the nodes of the first values end.
func (l *numberLine) endOf(values int) int {
	if values == 0 {
		return 0
	}
	return l.ends[values-1]
}

// numberSets are the sets of an attribute of numbers.
func numberSets(s Setting, nodes []Node) []Set {
	l := newNumberLine(nodes)
	var sets []Set
	known := make(map[[2]int]bool) // by the place of the first member in the line, and their number
	add := func(set Set) {
		if len(set.Members) == 0 {
			return
		}
		key := [2]int{set.Members[0], len(set.Members)}
		if !known[key] {
			sets = append(sets, set)
		}
		known[key] = true
	}
	switch {
	case s.List == nil:
		for _, v := range slices.Backward(l.values) {
			add(l.setOf(v.String(), v, v, s.Tolerance))
		}
	case s.Policy == AnyOf:
		whole := s.List[0]
		for _, item := range s.List {
			whole.First, whole.Last = min(whole.First, item.First), max(whole.Last, item.Last)
		}
		add(l.setOf(whole.canonicalText(), whole.First, whole.Last, s.Tolerance))
	default:
		for _, item := range s.List {
			add(l.setOf(item.canonicalText(), item.First, item.Last, s.toleranceOf(item)))
		}
	}
	return sets
}

// toleranceOf is the tolerance of an item: a written range has its bounds.
func (s *Setting) toleranceOf(item Item) Tolerance {
	if item.First != item.Last {
		return 0
	}
	return s.Tolerance
}

// foldLabel is a label as it is compared.
func (k Kind) foldLabel(label string) string {
	if k.AnyCase {
		return strings.ToLower(label)
	}
	return label
}

// labelSets are the sets of an attribute of labels.
func labelSets(s Setting, nodes []Node) []Set {
	members := make(map[string][]int) // by folded label
	spelt := make(map[string]string)  // as the first node has it
	var global []int
	for i := range nodes {
		if s.Attribute == Feature && nodes[i].Global {
			global = append(global, i)
			continue
		}
		for _, label := range nodes[i].Value.Labels {
			key := s.Kind.foldLabel(label)
			if of := members[key]; len(of) > 0 && of[len(of)-1] == i {
				continue // the node has it twice
			} else if of == nil {
				spelt[key] = label
			}
			members[key] = append(members[key], i)
		}
	}
	var sets []Set
	alike := make(map[[3]int][]int) // sets by number, first and last of their members
	for _, name := range s.labelNames(spelt) {
		of := members[s.Kind.foldLabel(name)]
		if len(of) == 0 {
			continue
		}
		set := Set{Name: name, Members: of}
		if len(global) > 0 {
			set.Members = slices.Sorted(slices.Values(slices.Concat(of, global)))
		}
		for _, i := range set.Members {
			set.Capacity += nodes[i].Capacity
		}
		key := [3]int{len(set.Members), set.Members[0], set.Members[len(set.Members)-1]}
		if !slices.ContainsFunc(alike[key], func(other int) bool { return slices.Equal(sets[other].Members, set.Members) }) {
			alike[key] = append(alike[key], len(sets))
			sets = append(sets, set)
		}
	}
	return sets
}

// labelNames are the labels of the sets in their order: those of the list, patterns giving way to what
// they match, or all that nodes have in natural order.
func (s *Setting) labelNames(spelt map[string]string) []string {
	if s.List == nil {
		return slices.SortedFunc(maps.Values(spelt), hostlist.Compare)
	}
	var names []string
	listed := make(map[string]bool)
	add := func(name string) {
		if key := s.Kind.foldLabel(name); !listed[key] {
			listed[key] = true
			names = append(names, name)
		}
	}
	for _, item := range s.List {
		if !item.isPattern() {
			add(item.Label)
			continue
		}
		pattern := s.Kind.foldLabel(item.Label)
		for _, label := range slices.SortedFunc(maps.Values(spelt), hostlist.Compare) {
			if matches(pattern, s.Kind.foldLabel(label)) {
				add(label)
			}
		}
	}
	return names
}

// matches reports whether a label matches a pattern: ? is any character, * any number of them.
func matches(pattern, label string) bool {
	star, after := -1, 0 // the last * met, and where what is behind it is tried
	p := 0
	for l := 0; l < len(label); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, after = p, l
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == label[l]):
			p++
			l++
		case star >= 0:
			after++
			p, l = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// UnusedValues lists the values of the list that none of the nodes has, in their order. Patterns are not
// among them, nor do GLOBAL nodes have any.
func UnusedValues(s Setting, nodes []Node) []string {
	if s.List == nil {
		return nil
	}
	labels := make(map[string]bool)
	for i := range nodes {
		if s.Attribute == Feature && nodes[i].Global {
			continue
		}
		for _, label := range nodes[i].Value.Labels {
			labels[s.Kind.foldLabel(label)] = true
		}
	}
	var l numberLine
	if s.Kind.Numeric {
		l = newNumberLine(nodes)
	}
	var unused []string
	for _, item := range s.List {
		there := item.isPattern() || labels[s.Kind.foldLabel(item.Label)]
		if s.Kind.Numeric {
			there = len(l.setOf("", item.First, item.Last, s.toleranceOf(item)).Members) > 0
		}
		if !there && !slices.Contains(unused, item.canonicalText()) {
			unused = append(unused, item.canonicalText())
		}
	}
	return unused
}
