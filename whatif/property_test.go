package whatif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// This file holds plans of random clusters against the properties of placement.md 9.3,
// one by one, whatever the way by which a plan came about. Nodes are read with the
// referee's eyes (referee_test.go), plans as they are written.

// A result is a plan as a reader of the JSON has it.
type result struct {
	Ranks []struct {
		Rank, ID          int
		Node              string
		Slots, CPUs, Mems []int
	}
	Order         []string
	TPP           int
	Exclusive     bool
	Overbooked    bool
	Rejected      []struct{ Node, Reason string }
	Queued, Error *struct{ Code string }
}

// A trial is a random cluster and request with the plan for it.
type trial struct {
	*rState
	result
	at map[string]*rNode
}

func newTrial(t *testing.T, z size, seed uint64) *trial {
	t.Helper()
	s := z.random(rand.New(rand.NewPCG(seed, 6)))
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{rState: s, at: make(map[string]*rNode)}
	first := written(t, data)
	if again := written(t, data); again != first {
		t.Fatalf("seed %d: equal input, but\n%s\nand\n%s", seed, first, again)
	}
	if err := json.Unmarshal([]byte(first), &tr.result); err != nil {
		t.Fatal(err)
	}
	for i := range s.Nodes {
		tr.at[s.Nodes[i].Name] = &s.Nodes[i]
	}
	return tr
}

// on is the number of ranks of a node.
func (tr *trial) on(name string) (ranks int) {
	for _, r := range tr.Ranks {
		if r.Node == name {
			ranks++
		}
	}
	return ranks
}

// room is that of 5.1.
func (tr *trial) room(n *rNode) int { return min(n.f()/tr.t, tr.limit(n, n.Procs)) }

// A property returns what is wrong, or nothing.
type property struct {
	name  string
	holds func(*trial) string
}

var properties = []property{
	{"all or nothing", (*trial).whole},
	{"no CPU twice, none that is busy", (*trial).own},
	{"no node over its bounds", (*trial).bounded},
	{"the order of the key", (*trial).sorted},
	{"one after the other", (*trial).filled},
	{"in turns", (*trial).rounds},
	{"overbooked evenly", (*trial).even},
	{"dropped once and for all", (*trial).dropped},
}

func TestProperties(t *testing.T) {
	met := map[string]int{}
	cases := uint64(3000)
	if testing.Short() {
		cases = 300
	}
	try := func(z size, seed uint64) {
		tr := newTrial(t, z, seed)
		for _, p := range properties {
			if wrong := p.holds(tr); wrong != "" {
				text, _ := json.Marshal(tr.rState)
				t.Fatalf("seed %d, %d nodes: %s: %s\n%s", seed, z.nodes, p.name, wrong, bytes.TrimSpace(text))
			}
		}
		met[tr.kind()]++
	}
	for seed := range cases {
		try(small, seed)
	}
	for seed := range cases / 10 {
		try(size{30, 48, 1500}, seed)
	}
	for _, kind := range []string{"error", "queued", "alone", "alone, in turns", "overbooked", "overbooked, in turns"} {
		if met[kind] < int(cases/100) {
			t.Errorf("too little variety: %v", met)
		}
	}
}

func (tr *trial) kind() string {
	switch {
	case tr.Error != nil:
		return "error"
	case tr.Queued != nil:
		return "queued"
	}
	kind := "alone"
	if tr.Overbooked {
		kind = "overbooked"
	}
	if tr.has("PSI_LOOP_NODES_FIRST") {
		kind += ", in turns"
	}
	return kind
}

// whole: every rank has its place, or none has.
func (tr *trial) whole() string {
	if tr.Error != nil || tr.Queued != nil {
		if len(tr.Ranks) > 0 || tr.Error != nil && tr.Queued != nil {
			return "some ranks though it failed"
		}
		return ""
	}
	if len(tr.Ranks) != tr.NP {
		return fmt.Sprintf("%d ranks of %d", len(tr.Ranks), tr.NP)
	}
	for i, r := range tr.Ranks {
		if r.Rank != i || tr.at[r.Node] == nil || tr.at[r.Node].ID != r.ID || len(r.Slots) != tr.t {
			return fmt.Sprintf("rank %d: %+v", i, r)
		}
	}
	return ""
}

// own: CPUs that nobody else has, and that the node allows. Overbooked ranks share seats,
// but a CPU is still of one seat only.
func (tr *trial) own() string {
	type cpu struct {
		node   string
		number int
	}
	seat := make(map[cpu]string)
	for _, r := range tr.Ranks {
		n := tr.at[r.Node]
		busy := n.busy()
		mine := fmt.Sprint(r.Slots)
		if !tr.Overbooked {
			mine = fmt.Sprint("rank ", r.Rank)
		}
		for _, number := range r.CPUs {
			if other, taken := seat[cpu{r.Node, number}]; taken && other != mine {
				return fmt.Sprintf("CPU %d of %s is of %s and of %s", number, r.Node, other, mine)
			}
			seat[cpu{r.Node, number}] = mine
			i := slices.IndexFunc(n.units(), func(u rUnit) bool { return slices.Contains(u.cpus, number) })
			if i < 0 || busy[n.units()[i].number] || slices.Contains(n.Busy, number) {
				return fmt.Sprintf("CPU %d of %s is not to be had", number, r.Node)
			}
		}
	}
	return ""
}

// bounded: processes within maxproc, ranks within ppn, and, unless overbooked, CPUs
// within what is free.
func (tr *trial) bounded() string {
	for name, n := range tr.at {
		ranks := tr.on(name)
		switch {
		case ranks == 0:
		case n.Max != nil && n.Procs+ranks > *n.Max, tr.ppn > 0 && ranks > tr.ppn:
			return fmt.Sprintf("%d ranks on %s", ranks, name)
		case !tr.Overbooked && ranks*tr.t > n.f(), n.Overbook == "no" && ranks*tr.t > len(n.units()):
			return fmt.Sprintf("%d ranks of %d CPUs on %s", ranks, tr.t, name)
		}
	}
	return ""
}

// sorted: no entry comes before one that the key puts before it (4.2); without a key, the
// order of the list.
func (tr *trial) sorted() string {
	if tr.sort == "NONE" {
		var list []string
		for _, id := range tr.list {
			if name := tr.node(id).Name; slices.Contains(tr.Order, name) {
				list = append(list, name)
			}
		}
		if !slices.Equal(list, tr.Order) {
			return fmt.Sprintf("%v of the list %v", tr.Order, list)
		}
		return ""
	}
	for i := 1; i < len(tr.Order); i++ {
		if tr.less(tr.at[tr.Order[i]], tr.at[tr.Order[i-1]]) < 0 {
			return fmt.Sprintf("%s comes after %s", tr.Order[i], tr.Order[i-1])
		}
	}
	return ""
}

// filled: every node before the last used one is filled to its room, and ranks of a node
// follow one another.
func (tr *trial) filled() string {
	if tr.has("PSI_LOOP_NODES_FIRST") || len(tr.Ranks) == 0 {
		return ""
	}
	var used []string
	for i, r := range tr.Ranks {
		if i == 0 || tr.Ranks[i-1].Node != r.Node {
			used = append(used, r.Node)
		}
	}
	once := slices.Compact(slices.Clone(tr.Order))
	if tr.sort == "NONE" {
		once = nil
		for _, name := range tr.Order {
			if !slices.Contains(once, name) {
				once = append(once, name)
			}
		}
	}
	once = slices.DeleteFunc(once, func(name string) bool { return tr.on(name) == 0 })
	if !slices.Equal(used, once) {
		return fmt.Sprintf("nodes were used in the order %v, not %v", used, once)
	}
	for _, name := range used[:len(used)-1] {
		if room := tr.room(tr.at[name]); !tr.Overbooked && tr.on(name) != room {
			return fmt.Sprintf("%d ranks on %s, which has room for %d", tr.on(name), name, room)
		}
	}
	return ""
}

// rounds: visit t of any entry comes before visit t+1 of any other, and who is passed
// over is full.
func (tr *trial) rounds() string {
	if !tr.has("PSI_LOOP_NODES_FIRST") || len(tr.Ranks) == 0 {
		return ""
	}
	most := func(n *rNode) int {
		if tr.Overbooked {
			return tr.m(n, n.Procs)
		}
		return tr.room(n)
	}
	placed := make(map[string]int)
	for rank := 0; rank < len(tr.Ranks); {
		before := rank
		for _, name := range tr.Order {
			if rank == len(tr.Ranks) || placed[name] >= most(tr.at[name]) {
				continue
			}
			if tr.Ranks[rank].Node != name {
				return fmt.Sprintf("rank %d is on %s; it was the turn of %s", rank, tr.Ranks[rank].Node, name)
			}
			placed[name]++
			rank++
		}
		if rank == before {
			return fmt.Sprintf("rank %d is on %s, and nobody has room", rank, tr.Ranks[rank].Node)
		}
	}
	return ""
}

// even: overbooked shares differ by less than one from the exact ones, where no bound
// is in the way, and the seats of a node from one another by one rank at most.
func (tr *trial) even() string {
	if !tr.Overbooked {
		return ""
	}
	loads := make(map[string]map[string]int)
	for _, r := range tr.Ranks {
		if loads[r.Node] == nil {
			loads[r.Node] = make(map[string]int)
		}
		loads[r.Node][fmt.Sprint(r.Slots)]++
	}
	for name, seats := range loads {
		n := tr.at[name]
		least, most := math.MaxInt, 0
		for _, load := range seats {
			least, most = min(least, load), max(most, load)
		}
		if len(seats) < min(tr.on(name), len(n.units())/tr.t) || most-least > 1 {
			return fmt.Sprintf("%d seats of %s have %d to %d ranks", len(seats), name, least, most)
		}
	}
	if tr.has("PSI_LOOP_NODES_FIRST") {
		return ""
	}
	return tr.fair()
}

// fair is the exact share among the nodes that are not at their bound.
func (tr *trial) fair() string {
	need, seats := 0, 0
	var open []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(tr.Order))) {
		if n := tr.at[name]; tr.on(name) < tr.m(n, n.Procs) {
			open = append(open, name)
			need += tr.on(name)
			seats += len(n.units()) / tr.t
		}
	}
	for _, name := range open {
		share := float64(need) * float64(len(tr.at[name].units())/tr.t) / float64(seats)
		if math.Abs(float64(tr.on(name))-share) >= 1+1e-9 {
			return fmt.Sprintf("%d ranks on %s; its share is %.3f", tr.on(name), name, share)
		}
	}
	return ""
}

// dropped: a node that was rejected was so for the first reason that holds, is told once
// and used never.
func (tr *trial) dropped() string {
	told := make(map[string]bool)
	for _, r := range tr.Rejected {
		switch {
		case told[r.Node]:
			return r.Node + " is told twice"
		case slices.Contains(tr.Order, r.Node) || tr.on(r.Node) > 0:
			return r.Node + " is used"
		case tr.why(tr.at[r.Node], tr.has("PSI_EXCLUSIVE") || tr.has("PSI_OVERBOOK")) != r.Reason:
			return r.Node + " was not dropped for " + r.Reason
		}
		told[r.Node] = true
	}
	for _, id := range tr.list {
		name := tr.node(id).Name
		if len(tr.Ranks) > 0 && !told[name] && !slices.Contains(tr.Order, name) {
			return name + " is lost"
		}
	}
	return ""
}
