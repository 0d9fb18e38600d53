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
	Room     int   // ranks of the job that share no CPU
	Size     int   // S: its CPUs, busy or not
	Speed    Number
	Affinity int // -1, 0 or 1
}

// A Set is nodes that share a label, or whose numbers lie in a range.
type Set struct {
	Name    string
	Members []int // indices into the nodes; of numbers by ascending number, else by index
	Room    int   // of all of them
}

// Build makes the sets of a request, in the order of their indices. Of sets of equal members the
// first stays, and no set is of GLOBAL nodes alone.
func Build(s Setting, nodes []Node) []Set {
	if s.Kind.Numeric {
		return ranges(s, nodes)
	}
	return labelled(s, nodes)
}

// Numbers are the nodes whose number is known, by ascending number.
type numbers struct {
	nodes   []int
	values  []Number // of them, each once, ascending
	ends    []int    // by value: behind its last node
	through []int    // by place in the line: the room up to there; one more than nodes
}

func newNumbers(nodes []Node) numbers {
	byValue := make(map[Number][]int)
	for i := range nodes {
		if v := nodes[i].Value.Number; v > 0 {
			byValue[v] = append(byValue[v], i)
		}
	}
	l := numbers{values: slices.Sorted(maps.Keys(byValue)), through: []int{0}}
	for _, v := range l.values {
		for _, i := range byValue[v] {
			l.nodes = append(l.nodes, i)
			l.through = append(l.through, l.through[len(l.through)-1]+nodes[i].Room)
		}
		l.ends = append(l.ends, len(l.nodes))
	}
	return l
}

// set is the nodes whose number is at least first, and at most last with the tolerance.
func (l *numbers) set(name string, first, last Number, t Tolerance) Set {
	low, _ := slices.BinarySearch(l.values, first)
	high, _ := slices.BinarySearchFunc(l.values, last, func(v, last Number) int {
		if within(v, last, t) {
			return -1
		}
		return 1
	})
	from, to := l.behind(low), max(l.behind(low), l.behind(high))
	return Set{Name: name, Members: l.nodes[from:to:to], Room: l.through[to] - l.through[from]}
}

// behind is where the nodes of the first values end.
func (l *numbers) behind(values int) int {
	if values == 0 {
		return 0
	}
	return l.ends[values-1]
}

// ranges are the sets of an attribute of numbers.
func ranges(s Setting, nodes []Node) []Set {
	l := newNumbers(nodes)
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
			add(l.set(v.String(), v, v, s.Tolerance))
		}
	case s.Policy == AnyOf:
		whole := s.List[0]
		for _, item := range s.List {
			whole.First, whole.Last = min(whole.First, item.First), max(whole.Last, item.Last)
		}
		add(l.set(whole.text(), whole.First, whole.Last, s.Tolerance))
	default:
		for _, item := range s.List {
			add(l.set(item.text(), item.First, item.Last, s.tolerates(item)))
		}
	}
	return sets
}

// tolerates is the tolerance of an item: a written range has its bounds.
func (s *Setting) tolerates(item Item) Tolerance {
	if item.First != item.Last {
		return 0
	}
	return s.Tolerance
}

// fold is a label as it is compared.
func (k Kind) fold(label string) string {
	if k.AnyCase {
		return strings.ToLower(label)
	}
	return label
}

// labelled are the sets of an attribute of labels.
func labelled(s Setting, nodes []Node) []Set {
	members := make(map[string][]int) // by folded label
	spelt := make(map[string]string)  // as the first node has it
	var global []int
	for i := range nodes {
		if s.Attribute == Feature && nodes[i].Global {
			global = append(global, i)
			continue
		}
		for _, label := range nodes[i].Value.Labels {
			key := s.Kind.fold(label)
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
	for _, name := range s.names(spelt) {
		of := members[s.Kind.fold(name)]
		if len(of) == 0 {
			continue
		}
		set := Set{Name: name, Members: of}
		if len(global) > 0 {
			set.Members = slices.Sorted(slices.Values(slices.Concat(of, global)))
		}
		for _, i := range set.Members {
			set.Room += nodes[i].Room
		}
		key := [3]int{len(set.Members), set.Members[0], set.Members[len(set.Members)-1]}
		if !slices.ContainsFunc(alike[key], func(other int) bool { return slices.Equal(sets[other].Members, set.Members) }) {
			alike[key] = append(alike[key], len(sets))
			sets = append(sets, set)
		}
	}
	return sets
}

// names are the labels of the sets in their order: those of the list, patterns giving way to what
// they match, or all that nodes have in natural order.
func (s *Setting) names(spelt map[string]string) []string {
	if s.List == nil {
		return slices.SortedFunc(maps.Values(spelt), hostlist.Compare)
	}
	var names []string
	listed := make(map[string]bool)
	add := func(name string) {
		if key := s.Kind.fold(name); !listed[key] {
			listed[key] = true
			names = append(names, name)
		}
	}
	for _, item := range s.List {
		if !item.pattern() {
			add(item.Label)
			continue
		}
		pattern := s.Kind.fold(item.Label)
		for _, label := range slices.SortedFunc(maps.Values(spelt), hostlist.Compare) {
			if matches(pattern, s.Kind.fold(label)) {
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

// Unused lists the values of the list that none of the nodes has, in their order. Patterns are not
// among them, nor do GLOBAL nodes have any.
func Unused(s Setting, nodes []Node) []string {
	if s.List == nil {
		return nil
	}
	labels := make(map[string]bool)
	for i := range nodes {
		if s.Attribute == Feature && nodes[i].Global {
			continue
		}
		for _, label := range nodes[i].Value.Labels {
			labels[s.Kind.fold(label)] = true
		}
	}
	var l numbers
	if s.Kind.Numeric {
		l = newNumbers(nodes)
	}
	var unused []string
	for _, item := range s.List {
		there := item.pattern() || labels[s.Kind.fold(item.Label)]
		if s.Kind.Numeric {
			there = len(l.set("", item.First, item.Last, s.tolerates(item)).Members) > 0
		}
		if !there && !slices.Contains(unused, item.text()) {
			unused = append(unused, item.text())
		}
	}
	return unused
}
