package nodeset

import (
	"maps"
	"slices"
	"strings"

	"remshell/hostlist"
)

// A Node holds the data that this package needs about a node that may run the job.
type Node struct {
	Value    Value // of the requested attribute
	Global   bool  // member of every set of FEATURE
	Capacity int   // most ranks of the job without shared CPUs
	Size     int   // its CPUs, busy or not (S in placement.md)
	Speed    Number
	Affinity int // -1 to avoid, 0, or 1 to prefer
}

// A Set is a node set. Its nodes share a label, or have numbers in the same range.
type Set struct {
	Name     string
	Members  []int // indices into the nodes; sorted by number, if numeric, else by index
	Capacity int   // total capacity of the members, in ranks
}

// BuildSets returns the node sets of a setting in the order of their indices. If several sets have the same
// members, it returns only the first.
func BuildSets(s Setting, nodes []Node) []Set {
	if s.Kind.Numeric {
		return numberSets(s, nodes)
	}
	return labelSets(s, nodes)
}

// A numberLine holds the nodes for which a numeric attribute is known, sorted by the attribute's value.
type numberLine struct {
	nodes           []int
	values          []Number // the distinct numbers, ascending
	ends            []int    // by value: end of its nodes in nodes
	capacityThrough []int    // total capacity of the first i nodes; one element more than nodes
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

// setOf returns the node set of the nodes whose numbers are between first and last, inclusive. t is the tolerance by
// which numbers may exceed last.
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

// endOf returns how many nodes have one of the count lowest values. Several nodes may have the same value.
func (l *numberLine) endOf(count int) int {
	if count == 0 {
		return 0
	}
	return l.ends[count-1]
}

// numberSets returns the node sets of a numeric attribute.
func numberSets(s Setting, nodes []Node) []Set {
	l := newNumberLine(nodes)
	var sets []Set
	known := make(map[[2]int]bool) // by first member and number of members
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
		whole := s.wholeRange()
		add(l.setOf(whole.canonicalText(), whole.First, whole.Last, s.Tolerance))
	default:
		for _, item := range s.List {
			add(l.setOf(item.canonicalText(), item.First, item.Last, s.toleranceOf(item)))
		}
	}
	return sets
}

// wholeRange returns the range from the smallest to the largest number of the request's list, which must not
// be empty.
func (s *Setting) wholeRange() Item {
	whole := s.List[0]
	for _, item := range s.List {
		whole.First, whole.Last = min(whole.First, item.First), max(whole.Last, item.Last)
	}
	return whole
}

// toleranceOf returns the tolerance for an item of the list. It returns 0 for a range.
func (s *Setting) toleranceOf(item Item) Tolerance {
	if item.First != item.Last {
		return 0
	}
	return s.Tolerance
}

// foldLabel returns a label in the form that is used for comparisons. If this kind of attribute ignores case, the
// form is lower case.
func (k Kind) foldLabel(label string) string {
	if k.AnyCase {
		return strings.ToLower(label)
	}
	return label
}

// labelSets returns the sets of an attribute whose values are labels.
func labelSets(s Setting, nodes []Node) []Set {
	members := make(map[string][]int)   // by folded label
	spelling := make(map[string]string) // as the first node spells it
	var global []int
	for i := range nodes {
		if s.Attribute == Feature && nodes[i].Global {
			global = append(global, i)
		}
		for _, label := range nodes[i].Value.Labels {
			key := s.Kind.foldLabel(label)
			if of := members[key]; len(of) > 0 && of[len(of)-1] == i {
				continue // the node has the label twice
			} else if of == nil {
				spelling[key] = label
			}
			members[key] = append(members[key], i)
		}
	}
	var sets []Set
	alike := make(map[[3]int][]int) // indices of sets, by number, first and last of their members
	for _, name := range s.labelNames(spelling) {
		of := members[s.Kind.foldLabel(name)]
		if len(of) == 0 {
			continue
		}
		set := Set{Name: name, Members: of}
		if len(global) > 0 {
			set.Members = slices.Compact(slices.Sorted(slices.Values(slices.Concat(of, global))))
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

// labelNames returns the labels of the sets, in the order of the sets. If the request has a list, these are the labels
// in the list; a pattern stands for all labels that match it. Without a list, these are all labels of the nodes, in
// natural order.
func (s *Setting) labelNames(spelling map[string]string) []string {
	if s.List == nil {
		return slices.SortedFunc(maps.Values(spelling), hostlist.Compare)
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
		for _, label := range slices.SortedFunc(maps.Values(spelling), hostlist.Compare) {
			if matches(pattern, s.Kind.foldLabel(label)) {
				add(label)
			}
		}
	}
	return names
}

// matches reports whether a label matches a pattern. "?" matches any character, and "*" matches any number of
// characters.
func matches(pattern, label string) bool {
	star, after := -1, 0 // the last * seen, and the position in label that it is matched up to
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

// UnusedValues returns the values of the list that no node has, in the order of the list. Patterns are skipped. For
// ANYOF, a list of numbers stands for the range from its smallest to its largest number. If any node's number is in
// this range, the smallest and the largest number of the list are both treated as used.
func UnusedValues(s Setting, nodes []Node) []string {
	if s.List == nil {
		return nil
	}
	labels := make(map[string]bool)
	for i := range nodes {
		for _, label := range nodes[i].Value.Labels {
			labels[s.Kind.foldLabel(label)] = true
		}
	}
	var l numberLine
	var whole Item
	if s.Kind.Numeric {
		l, whole = newNumberLine(nodes), s.wholeRange()
	}
	inRange := s.Policy == AnyOf && s.Kind.Numeric && len(l.setOf("", whole.First, whole.Last, s.Tolerance).Members) > 0
	var unused []string
	for _, item := range s.List {
		used := item.isPattern() || labels[s.Kind.foldLabel(item.Label)]
		if s.Kind.Numeric {
			used = inRange && (item.First == whole.First || item.Last == whole.Last) || len(l.setOf("", item.First, item.Last, s.toleranceOf(item)).Members) > 0
		}
		if !used && !slices.Contains(unused, item.canonicalText()) {
			unused = append(unused, item.canonicalText())
		}
	}
	return unused
}
