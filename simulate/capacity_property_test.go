package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// This file checks plans of random clusters against which-hosts.md 9 to 11. It computes capacities itself:
// processes use the first cores, and the reserve is the last ones.

// A capacityState is a state file of a random cluster.
type capacityState struct {
	Nodes   []capacityNode    `json:"nodes"`
	NP      int               `json:"np"`
	UID     int               `json:"uid"`
	Env     map[string]string `json:"env"`
	Options capacityOptions   `json:"options"`
	Config  struct {
		Regions []map[string]any `json:"regions,omitempty"`
	} `json:"config"`
}

type capacityNode struct {
	ID      int                `json:"id"`
	Name    string             `json:"name"`
	CPUs    int                `json:"cpus"`
	NUMA    int                `json:"numa_nodes"`
	Procs   int                `json:"procs"`
	Reserve int                `json:"reserve"`
	Flavors []string           `json:"flavors,omitempty"`
	Free    int64              `json:"mem_available,omitempty"`
	Total   int64              `json:"mem_total,omitempty"`
	Huge    *capacityHugePages `json:"huge_pages,omitempty"`
}

// capacityHugePages is the huge pages of a node.
type capacityHugePages struct {
	Size  int64 `json:"size"`
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
}

type capacityOptions struct {
	TPP        int    `json:"tpp"`
	Shape      int    `json:"shape,omitempty"`
	PerNUMA    int    `json:"per_numa,omitempty"`
	Reserve    int    `json:"reserve_cpus,omitempty"`
	Memory     int    `json:"-"`                      // MB
	Size       string `json:"mem_per_rank,omitempty"` // the same as text, with hs if huge pages are required
	Contiguous string `json:"contiguous,omitempty"`
	Overbook   bool   `json:"overbook"`
	Loop       bool   `json:"loop_nodes_first"`
}

// sometimes returns a random number from 1 to most, once in so many times; else 0.
func sometimes(r *rand.Rand, times, most int) int {
	if r.IntN(times) > 0 {
		return 0
	}
	return 1 + r.IntN(most)
}

func randomCapacityState(r *rand.Rand) *capacityState {
	w := &capacityState{NP: 1 + r.IntN(14), UID: 1000, Env: map[string]string{}, Options: capacityOptions{
		TPP: 1 + r.IntN(6)/4, Shape: sometimes(r, 3, 4), PerNUMA: sometimes(r, 4, 3), Reserve: sometimes(r, 4, 2), Memory: sometimes(r, 4, 3),
		Overbook: r.IntN(4) == 0, Loop: r.IntN(3) == 0}}
	if o := &w.Options; o.Memory > 0 {
		o.Size = fmt.Sprint(o.Memory, []string{"", "h", "hs"}[r.IntN(3)])
	}
	if k := sometimes(r, 2, 2); k > 0 {
		w.Options.Contiguous = []string{"first", "best"}[k-1]
	}
	for i := range 1 + r.IntN(7) {
		n := capacityNode{ID: i, Name: fmt.Sprint("n", i), CPUs: 1 + r.IntN(8), NUMA: 1 + r.IntN(2), Reserve: sometimes(r, 4, 2)}
		n.NUMA = min(n.NUMA, n.CPUs)
		n.Procs = min(sometimes(r, 3, 4), n.CPUs)
		n.Flavors = [][]string{nil, nil, {"os", "su", "ap"}, {"ap", "su"}, {"os"}}[r.IntN(5)]
		if r.IntN(3) == 0 {
			n.Free, n.Total = int64(1+r.IntN(6))<<20, 16<<20
		}
		if r.IntN(2) == 0 {
			n.Huge = &capacityHugePages{Size: int64(1+r.IntN(3)) << 19, Total: 12, Free: int64(r.IntN(12))}
		}
		w.Nodes = append(w.Nodes, n)
	}
	if r.IntN(2) == 0 {
		w.Config.Regions = []map[string]any{{"name": "main", "signature": "ap"}, {"name": "over", "signature": "os su ap", "gate_width": "auto"}}
	}
	return w
}

// runsRanks reports whether a node may run ranks.
func (n *capacityNode) runsRanks() bool { return n.Flavors == nil || slices.Contains(n.Flavors, "ap") }

// isBehindGate reports whether a node is in the region with the gate.
func (n *capacityNode) isBehindGate() bool { return len(n.Flavors) == 3 }

// width returns the number of CPUs before the gate.
func (w *capacityState) width() (cpus int) {
	for _, n := range w.Nodes {
		if n.Flavors == nil {
			cpus += max(0, n.CPUs-n.Reserve)
		}
	}
	return cpus
}

// mayUse reports whether the job may use a node by its flavors and region.
func (w *capacityState) mayUse(n *capacityNode) bool {
	if w.Config.Regions == nil || !n.runsRanks() {
		return n.runsRanks()
	}
	return n.Flavors == nil || n.isBehindGate() && w.NP*w.Options.TPP > w.width()
}

// usable returns the CPUs of a node that are neither busy nor reserved.
func (w *capacityState) usable(n *capacityNode) (cpus []int) {
	for cpu := n.Procs; cpu < n.CPUs-max(n.Reserve, w.Options.Reserve); cpu++ {
		cpus = append(cpus, cpu)
	}
	return cpus
}

// capacityOf returns how many ranks fit on a node without sharing CPUs.
func (w *capacityState) capacityOf(n *capacityNode) int {
	free := w.usable(n)
	capacity := len(free) / w.Options.TPP
	if k := w.Options.PerNUMA; k > 0 {
		capacity = 0
		for numa := range n.NUMA {
			mine := 0
			for _, cpu := range free {
				if cpu*n.NUMA/n.CPUs == numa {
					mine++
				}
			}
			capacity += min(k, mine/w.Options.TPP)
		}
	}
	if m := int64(w.Options.Memory) << 20; m > 0 && n.Free > 0 {
		capacity = min(capacity, int(n.Free/m))
	}
	if w.needsHuge() && n.Huge != nil {
		pages := 0 // huge pages for the ranks that fit
		for capacity > 0 {
			if pages = capacity * int(math.Ceil(float64(w.Options.Memory<<20)/float64(n.Huge.Size))); pages <= int(n.Huge.Free) {
				break
			}
			capacity--
		}
	}
	if w.Options.Overbook && n.Procs > 0 || !w.mayUse(n) { // overbooking is exclusive
		return 0
	}
	return capacity
}

func (w *capacityState) needsHuge() bool { return strings.HasSuffix(w.Options.Size, "hs") }

// A capacityTrial is a request with its plan.
type capacityTrial struct {
	*capacityState
	planJSON
	ranks map[string]int // by node
}

var capacityProperties = []struct {
	name  string
	holds func(*capacityTrial) string
}{
	{"gates and flavors", (*capacityTrial).checkRegions},
	{"capacity", (*capacityTrial).checkCapacity},
	{"CPUs", (*capacityTrial).checkReserved},
	{"shape", (*capacityTrial).checkShape},
	{"contiguous", (*capacityTrial).checkContiguous},
	{"refused for a reason", (*capacityTrial).checkRefusal},
}

func (w *capacityTrial) checkRegions() string {
	for i := range w.Nodes {
		if n := &w.Nodes[i]; w.ranks[n.Name] > 0 && !w.mayUse(n) {
			return n.Name + " may not be used"
		}
	}
	return ""
}

func (w *capacityTrial) checkCapacity() string {
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if ranks := w.ranks[n.Name]; !w.Overbooked && ranks > w.capacityOf(n) {
			return fmt.Sprintf("%d ranks on %s, which can take %d", ranks, n.Name, w.capacityOf(n))
		}
		if m := int64(w.Options.Memory) << 20; m > 0 && n.Free > 0 && int64(w.ranks[n.Name])*m > n.Free {
			return n.Name + " has too little memory"
		}
		if w.needsHuge() && n.Huge != nil && int64(w.ranks[n.Name])*int64(w.Options.Memory)<<20 > n.Huge.Free*n.Huge.Size {
			return n.Name + " has too few huge pages"
		}
	}
	return ""
}

func (w *capacityTrial) checkReserved() string {
	taken := make(map[string]bool)
	numa := make(map[string]int)
	for _, r := range w.Ranks {
		n := &w.Nodes[r.ID]
		for _, cpu := range r.CPUs {
			key := fmt.Sprint(n.Name, " ", cpu)
			if !slices.Contains(w.usable(n), cpu) || taken[key] && !w.Overbooked {
				return "CPU " + key + " is not its own"
			}
			taken[key] = true
		}
		if k := w.Options.PerNUMA; k > 0 && len(r.CPUs) > 0 {
			low, high := r.CPUs[0]*n.NUMA/n.CPUs, r.CPUs[len(r.CPUs)-1]*n.NUMA/n.CPUs
			key := fmt.Sprint(n.Name, " ", low)
			if numa[key]++; low != high || numa[key] > k {
				return fmt.Sprintf("rank %d in NUMA nodes %d to %d, where %d are", r.Rank, low, high, numa[key])
			}
		}
	}
	return ""
}

func (w *capacityTrial) checkShape() string {
	rest := 0
	for name, ranks := range w.ranks {
		switch {
		case w.Options.Shape == 0 || ranks == w.Options.Shape:
		case ranks == w.NP%w.Options.Shape && rest == 0:
			rest++
		default:
			return fmt.Sprintf("%d ranks on %s", ranks, name)
		}
	}
	return ""
}

func (w *capacityTrial) checkContiguous() string {
	if w.Options.Contiguous == "" || len(w.Ranks) == 0 {
		return ""
	}
	used, gap := false, false
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch {
		case !w.mayUse(n):
		case w.ranks[n.Name] == 0:
			gap = used
		case gap || w.Overbooked:
			return n.Name + " is not contiguous, or shared"
		default:
			used = true
		}
	}
	return ""
}

// checkRefusal checks that a refused job would not have fit.
func (w *capacityTrial) checkRefusal() string {
	if w.Error == nil {
		return ""
	}
	all, stretch := 0, 0
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if !w.mayUse(n) {
			continue
		}
		capacity := w.capacityOf(n)
		all += capacity
		if stretch += capacity; capacity == 0 {
			stretch = 0
		}
		if w.Error.Code == "no-contiguous" && w.Options.Shape == 0 && stretch >= w.NP {
			return "there are contiguous nodes up to " + n.Name
		}
	}
	if w.Error.Code == "not-enough-cpus" && w.Options.Shape == 0 && all >= w.NP {
		return fmt.Sprintf("%d ranks fit", all)
	}
	if w.Error.Code == "no-contiguous" && all < w.NP {
		return "no rank fits"
	}
	return ""
}

func TestCapacityProperties(t *testing.T) {
	met := make(map[string]int)
	for seed := range uint64(6000) {
		w := &capacityTrial{capacityState: randomCapacityState(rand.New(rand.NewPCG(seed, 9))), ranks: make(map[string]int)}
		data, err := json.Marshal(w.capacityState)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(writtenOutcome(t, data)), &w.planJSON); err != nil {
			t.Fatal(err)
		}
		for _, r := range w.Ranks {
			w.ranks[r.Node]++
		}
		for _, p := range capacityProperties {
			if wrong := p.holds(w); wrong != "" {
				t.Fatalf("seed %d: %s: %s\n%s\n%s", seed, p.name, wrong, data, writtenOutcome(t, data))
			}
		}
		kind := "placed"
		if w.Error != nil {
			kind = w.Error.Code
		} else if w.Overbooked {
			kind = "overbooked"
		}
		met[kind]++
	}
	for _, kind := range []string{"placed", "overbooked", "not-enough-cpus", "no-contiguous", "limit-reached", "no-candidates"} {
		if met[kind] < 60 {
			t.Errorf("too little variety: %v", met)
		}
	}
}
