package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// This file checks plans of random clusters against the properties of placement.md 9.3, one by one. Nodes
// are interpreted by the referee (referee_test.go), plans are read as JSON.

// A planJSON is a plan as a reader of the JSON sees it.
type planJSON struct {
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

// A trial is a random cluster and request, with its plan.
type trial struct {
	*refState
	planJSON
	at map[string]*refNode
}

func newTrial(t *testing.T, z sizeBounds, seed uint64) *trial {
	t.Helper()
	s := z.random(rand.New(rand.NewPCG(seed, 6)))
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{refState: s, at: make(map[string]*refNode)}
	first := writtenOutcome(t, data)
	if again := writtenOutcome(t, data); again != first {
		t.Fatalf("seed %d: equal input, but\n%s\nand\n%s", seed, first, again)
	}
	if err := json.Unmarshal([]byte(first), &tr.planJSON); err != nil {
		t.Fatal(err)
	}
	for i := range s.Nodes {
		tr.at[s.Nodes[i].Name] = &s.Nodes[i]
	}
	return tr
}

// ranksOn returns the number of ranks on a node.
func (tr *trial) ranksOn(name string) (ranks int) {
	for _, r := range tr.Ranks {
		if r.Node == name {
			ranks++
		}
	}
	return ranks
}

// capacityOf returns the capacity of 5.1.
func (tr *trial) capacityOf(n *refNode) int {
	return min(n.freeSlots()/tr.threads, tr.limit(n, n.Procs))
}

// A property returns what is wrong with a trial, or "".
type property struct {
	name  string
	holds func(*trial) string
}

var properties = []property{
	{"all or nothing", (*trial).checkAllPlaced},
	{"no CPU twice, none that is busy", (*trial).checkOwnCPUs},
	{"no node over its bounds", (*trial).checkBounds},
	{"the order of the key", (*trial).checkOrder},
	{"one after the other", (*trial).checkFilled},
	{"in turns", (*trial).checkRounds},
	{"overbooked evenly", (*trial).checkEvenShares},
	{"dropped once and for all", (*trial).checkRejected},
}

func TestProperties(t *testing.T) {
	met := map[string]int{}
	cases := uint64(3000)
	if testing.Short() {
		cases = 300
	}
	try := func(z sizeBounds, seed uint64) {
		tr := newTrial(t, z, seed)
		for _, p := range properties {
			if wrong := p.holds(tr); wrong != "" {
				text, _ := json.Marshal(tr.refState)
				t.Fatalf("seed %d, %d nodes: %s: %s\n%s", seed, z.nodes, p.name, wrong, bytes.TrimSpace(text))
			}
		}
		met[tr.outcomeKind()]++
	}
	for seed := range cases {
		try(small, seed)
	}
	for seed := range cases / 10 {
		try(sizeBounds{30, 48, 1500}, seed)
	}
	for _, kind := range []string{"error", "queued", "alone", "alone, in turns", "overbooked", "overbooked, in turns"} {
		if met[kind] < int(cases/100) {
			t.Errorf("too little variety: %v", met)
		}
	}
}

func (tr *trial) outcomeKind() string {
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

// checkAllPlaced: every rank is placed, or none is.
func (tr *trial) checkAllPlaced() string {
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
		if r.Rank != i || tr.at[r.Node] == nil || tr.at[r.Node].ID != r.ID || len(r.Slots) != tr.threads {
			return fmt.Sprintf("rank %d: %+v", i, r)
		}
	}
	return ""
}

// checkOwnCPUs: ranks use allowed CPUs that no other job uses. Overbooked ranks may have equal
// assignments, but no CPU is in two different ones.
func (tr *trial) checkOwnCPUs() string {
	type cpu struct {
		node   string
		number int
	}
	owner := make(map[cpu]string)
	for _, r := range tr.Ranks {
		n := tr.at[r.Node]
		busy := n.busy()
		mine := fmt.Sprint(r.Slots)
		if !tr.Overbooked {
			mine = fmt.Sprint("rank ", r.Rank)
		}
		for _, number := range r.CPUs {
			if other, taken := owner[cpu{r.Node, number}]; taken && other != mine {
				return fmt.Sprintf("CPU %d of %s is of %s and of %s", number, r.Node, other, mine)
			}
			owner[cpu{r.Node, number}] = mine
			i := slices.IndexFunc(n.units(), func(u refUnit) bool { return slices.Contains(u.cpus, number) })
			if i < 0 || busy[n.units()[i].number] || slices.Contains(n.Busy, number) {
				return fmt.Sprintf("CPU %d of %s may not be used", number, r.Node)
			}
		}
	}
	return ""
}

// checkBounds: processes are within maxproc, ranks within ppn, and, unless overbooked, CPUs within the
// free ones.
func (tr *trial) checkBounds() string {
	for name, n := range tr.at {
		ranks := tr.ranksOn(name)
		switch {
		case ranks == 0:
		case n.MaxProcs != nil && n.Procs+ranks > *n.MaxProcs, tr.ppn > 0 && ranks > tr.ppn:
			return fmt.Sprintf("%d ranks on %s", ranks, name)
		case !tr.Overbooked && ranks*tr.threads > n.freeSlots(), n.Overbook == "no" && ranks*tr.threads > len(n.units()):
			return fmt.Sprintf("%d ranks of %d CPUs on %s", ranks, tr.threads, name)
		}
	}
	return ""
}

// checkOrder: no host entry comes before one that the key puts before it (4.2). Without a key the order is
// that of the list.
func (tr *trial) checkOrder() string {
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

// checkFilled: every node before the last used one is filled to its capacity, and ranks of a node are
// consecutive.
func (tr *trial) checkFilled() string {
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
	once = slices.DeleteFunc(once, func(name string) bool { return tr.ranksOn(name) == 0 })
	if !slices.Equal(used, once) {
		return fmt.Sprintf("nodes were used in the order %v, not %v", used, once)
	}
	for _, name := range used[:len(used)-1] {
		if capacity := tr.capacityOf(tr.at[name]); !tr.Overbooked && tr.ranksOn(name) != capacity {
			return fmt.Sprintf("%d ranks on %s, which can take %d", tr.ranksOn(name), name, capacity)
		}
	}
	return ""
}

// checkRounds: round t of any host entry comes before round t+1 of any other, and a skipped entry is full.
func (tr *trial) checkRounds() string {
	if !tr.has("PSI_LOOP_NODES_FIRST") || len(tr.Ranks) == 0 {
		return ""
	}
	most := func(n *refNode) int {
		if tr.Overbooked {
			return tr.overbookBound(n, n.Procs)
		}
		return tr.capacityOf(n)
	}
	placed := make(map[string]int)
	for rank := 0; rank < len(tr.Ranks); {
		before := rank
		for _, name := range tr.Order {
			if rank == len(tr.Ranks) || placed[name] >= most(tr.at[name]) {
				continue
			}
			if tr.Ranks[rank].Node != name {
				return fmt.Sprintf("rank %d is on %s; %s was next", rank, tr.Ranks[rank].Node, name)
			}
			placed[name]++
			rank++
		}
		if rank == before {
			return fmt.Sprintf("rank %d is on %s, and every node is full", rank, tr.Ranks[rank].Node)
		}
	}
	return ""
}

// checkEvenShares: overbooked shares differ by less than one from the exact ones, unless a bound limits
// them. The numbers of ranks on the CPUs of a node differ by at most one.
func (tr *trial) checkEvenShares() string {
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
	for name, assignments := range loads {
		n := tr.at[name]
		least, most := math.MaxInt, 0
		for _, load := range assignments {
			least, most = min(least, load), max(most, load)
		}
		if len(assignments) < min(tr.ranksOn(name), len(n.units())/tr.threads) || most-least > 1 {
			return fmt.Sprintf("%d assignments of %s have %d to %d ranks", len(assignments), name, least, most)
		}
	}
	if tr.has("PSI_LOOP_NODES_FIRST") {
		return ""
	}
	return tr.exactShares()
}

// exactShares checks the shares of the nodes that are not at their bound against the exact ones.
func (tr *trial) exactShares() string {
	need, capacity := 0, 0
	var open []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(tr.Order))) {
		if n := tr.at[name]; tr.ranksOn(name) < tr.overbookBound(n, n.Procs) {
			open = append(open, name)
			need += tr.ranksOn(name)
			capacity += len(n.units()) / tr.threads
		}
	}
	for _, name := range open {
		share := float64(need) * float64(len(tr.at[name].units())/tr.threads) / float64(capacity)
		if math.Abs(float64(tr.ranksOn(name))-share) >= 1+1e-9 {
			return fmt.Sprintf("%d ranks on %s; its share is %.3f", tr.ranksOn(name), name, share)
		}
	}
	return ""
}

// checkRejected: a rejected node has the first reason that applies, is listed once, and is never used.
func (tr *trial) checkRejected() string {
	rejected := make(map[string]bool)
	for _, r := range tr.Rejected {
		switch {
		case rejected[r.Node]:
			return r.Node + " is listed twice"
		case slices.Contains(tr.Order, r.Node) || tr.ranksOn(r.Node) > 0:
			return r.Node + " is used"
		case tr.dropReason(tr.at[r.Node], tr.has("PSI_EXCLUSIVE") || tr.has("PSI_OVERBOOK")) != r.Reason:
			return r.Node + " was not dropped for " + r.Reason
		}
		rejected[r.Node] = true
	}
	for _, id := range tr.list {
		name := tr.node(id).Name
		if len(tr.Ranks) > 0 && !rejected[name] && !slices.Contains(tr.Order, name) {
			return name + " is lost"
		}
	}
	return ""
}
