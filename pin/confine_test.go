package pin

import (
	"fmt"
	"strings"
	"testing"
)

// twoNUMANodes has eight cores of two threads on two NUMA nodes.
func twoNUMANodes() Topology {
	var t Topology
	for core := range 8 {
		t.Cores = append(t.Cores, Core{CPUs: []int{core, core + 8}, CoreLocation: CoreLocation{NUMA: core / 4}})
	}
	return t
}

// In each allowed NUMA node, ascending, the free slots are divided into groups of the width, up to the
// limit (which-hosts.md 9.2).
func TestConfinement(t *testing.T) {
	tests := []struct {
		name  string
		width int
		busy  BusyUnits
		Confinement
		want string
	}{
		{"no confinement", 3, nil, Confinement{}, "012 345"},
		{"inside", 3, nil, Confinement{StrictMemory: true}, "012 456"},
		{"two in each", 1, nil, Confinement{PerNUMA: 2}, "0 1 4 5"},
		{"the lowest", 1, nil, Confinement{FirstNodes: 1, PerNUMA: 3}, "0 1 2"},
		{"a list", 2, nil, Confinement{NUMANodes: []int{1}}, "45 67"},
		{"a list of none", 1, nil, Confinement{NUMANodes: []int{7}}, ""},
		{"busy ones count where they are", 2, BusyUnits{0: true, 1: true, 2: true}, Confinement{StrictMemory: true}, "45 67"},
		{"wider than any", 5, nil, Confinement{StrictMemory: true}, ""},
	}
	for _, test := range tests {
		node := twoNUMANodes()
		slots := node.ListUnits(false)
		pool := NewNUMAPool(node, slots, FreeSlots(slots, test.busy))
		pool.SetConfinement(test.Confinement)
		capacity := pool.Capacity(test.width, 1)
		if got := takeAllSlots(pool, test.width); got != test.want || capacity != len(strings.Fields(test.want)) {
			t.Errorf("%s: %q and capacity %d; want %q", test.name, got, capacity, test.want)
		}
	}
}

// takeAllSlots takes all free slots, and formats the slots of each rank as one word.
func takeAllSlots(p *Pool, width int) string {
	var ranks []string
	for take, ok := p.TakeSlots(width, 1); ok; take, ok = p.TakeSlots(width, 1) {
		ranks = append(ranks, strings.Trim(strings.ReplaceAll(fmt.Sprint(take.Slots), " ", ""), "[]"))
	}
	return strings.Join(ranks, " ")
}

// Each app has its own limits, on the slots that earlier apps have left.
func TestConfinementOfApps(t *testing.T) {
	node := twoNUMANodes()
	slots := node.ListUnits(false)
	pool := NewNUMAPool(node, slots, FreeSlots(slots, nil))
	pool.SetConfinement(Confinement{PerNUMA: 1})
	if got := takeAllSlots(pool, 1); got != "0 4" {
		t.Errorf("one in each: %s", got)
	}
	pool.SetConfinement(Confinement{})
	if take, ok := pool.TakeSlots(4, 1); !ok || fmt.Sprint(take.Slots) != "[1 2 3 5]" {
		t.Errorf("who is not kept has the lowest: %v", take.Slots)
	}
	pool.SetConfinement(Confinement{PerNUMA: 1})
	if got := takeAllSlots(pool, 1); got != "6" {
		t.Errorf("what is left: %s", got)
	}
}

// A core in an unknown NUMA node counts in NUMA node 0.
func TestUnknownCoresAreInTheFirst(t *testing.T) {
	node := Topology{Cores: []Core{{CPUs: []int{0}, CoreLocation: UnknownLocation}, {CPUs: []int{1}, CoreLocation: UnknownLocation}}}
	slots := node.ListUnits(false)
	pool := NewNUMAPool(node, slots, FreeSlots(slots, nil))
	pool.SetConfinement(Confinement{NUMANodes: []int{0}})
	if got := takeAllSlots(pool, 2); got != "01" {
		t.Errorf("%q", got)
	}
}

// The first threads of each core, core by core (which-hosts.md 9.4).
func TestThreads(t *testing.T) {
	for k, want := range map[int]string{1: "0 5 2", 2: "0 4 5 2 6", 3: "0 4 5 2 6", -1: "0 4 5 2 6"} {
		units := ThreadUnits(fourCores.ListUnits(false), k)
		if got := numbers(units); got != want || fourCores.CountUnitsPerCore(k) != len(units) {
			t.Errorf("%d threads: %s, %d; want %s", k, got, fourCores.CountUnitsPerCore(k), want)
		}
	}
	back := ThreadUnits(OrderByMap(fourCores.ListUnits(false), []int{2, 1, 0}), 2)
	if got := numbers(back); got != "2 6 5 0 4" {
		t.Errorf("in the order of a map: %s", got)
	}
}
