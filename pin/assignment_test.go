package pin

import (
	"fmt"
	"strings"
	"testing"
)

// fourCores has four cores of two threads. The fourth core and one thread of the second are outside the
// cpuset. Cores 0 and 1 are in NUMA node 0.
var fourCores = Topology{Cores: []Core{
	{CPUs: []int{0, 4}}, {CPUs: []int{5}, Unusable: []int{1}},
	{CPUs: []int{2, 6}, CoreLocation: CoreLocation{NUMA: 1}}, {Unusable: []int{3, 7}, CoreLocation: CoreLocation{NUMA: 1}},
}}

func numbers(units []Unit) string {
	var words []string
	for _, u := range units {
		words = append(words, fmt.Sprint(u.Number))
	}
	return strings.Join(words, " ")
}

func TestUnits(t *testing.T) {
	if got := numbers(fourCores.ListUnits(false)); got != "0 1 2" || fourCores.CountUsableCores() != 3 || fourCores.CountUnits(false) != 3 {
		t.Errorf("cores: %s, %d", got, fourCores.CountUsableCores())
	}
	if got := numbers(fourCores.ListUnits(true)); got != "0 2 4 5 6" || fourCores.CountUnits(true) != 5 {
		t.Errorf("threads: %s, %d", got, fourCores.CountUnits(true))
	}
	if !fourCores.HasUnit(3, false) || fourCores.HasUnit(4, false) || fourCores.HasUnit(-1, false) || !fourCores.HasUnit(7, true) || fourCores.HasUnit(8, true) {
		t.Error("Has: a core outside of the cpuset is there all the same, and no other")
	}
}

// Slot order is that of the map, each unit once, then the rest (7.2).
func TestSlots(t *testing.T) {
	for _, test := range []struct {
		cpuMap []int
		want   string
	}{
		{nil, "0 1 2"}, {[]int{2}, "2 0 1"}, {[]int{2, 2, 0}, "2 0 1"}, {[]int{3, 1}, "1 0 2"}, {[]int{9, 2, 1, 0}, "2 1 0"},
	} {
		if got := numbers(OrderByMap(fourCores.ListUnits(false), test.cpuMap)); got != test.want {
			t.Errorf("Slots(%v): %s; want %s", test.cpuMap, got, test.want)
		}
	}
}

// A core is busy if one of its threads is. Processes on unknown CPUs occupy free units in slot order.
func TestFindBusyUnits(t *testing.T) {
	for _, test := range []struct {
		cpus  []int
		procs int
		want  string // free slots, in the order of map 2,1,0
	}{
		{nil, 0, "[0 1 2]"}, {[]int{4}, 0, "[0 1]"}, {[]int{4}, 1, "[0 1]"}, {[]int{4}, 2, "[1]"},
		{nil, 1, "[1 2]"}, {nil, 9, "[]"}, {[]int{3, 1}, 0, "[0 1 2]"},
	} {
		slots := OrderByMap(fourCores.ListUnits(false), []int{2, 1, 0})
		if got := fmt.Sprint(FreeSlots(slots, FindBusyUnits(slots, test.cpus, test.procs))); got != test.want {
			t.Errorf("CPUs %v, %d processes: free %s; want %s", test.cpus, test.procs, got, test.want)
		}
	}
}

func TestNewAssignment(t *testing.T) {
	slots := OrderByMap(fourCores.ListUnits(false), []int{2, 1, 0})
	for _, test := range []struct {
		mine []int
		want string
	}{
		{[]int{0}, "{[0] [2 6] [1] false}"}, {[]int{1, 2}, "{[1 2] [0 4 5] [0] false}"}, {[]int{0, 1, 2}, "{[0 1 2] [0 2 4 5 6] [0 1] false}"},
	} {
		if got := fmt.Sprint(NewAssignment(slots, test.mine)); got != test.want {
			t.Errorf("slots %v: %s; want %s", test.mine, got, test.want)
		}
	}
	blind := []Unit{{0, []int{0}, 0}, {1, []int{1}, -1}}
	if assigned := NewAssignment(blind, []int{0, 1}); assigned.Mems != nil {
		t.Errorf("memory %v although one core's is unknown", assigned.Mems)
	}
}

func FuzzParseCPUs(f *testing.F) {
	f.Add("0-3,8")
	f.Add("")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUs(list)
		for _, cpu := range cpus {
			if err != nil || cpu < 0 || cpu > maxCPU {
				t.Errorf("ParseCPUs(%q) = %v, %v", list, cpus, err)
			}
		}
	})
}

// PutsRanksOnSameCPU reports whether written sets give two ranks of a node the same CPU. The sets repeat
// if there are more ranks. An unbound rank shares nothing.
func TestPutsRanksOnSameCPU(t *testing.T) {
	for _, test := range []struct {
		sets  string
		ranks int
		want  bool
	}{
		{"user:0,1", 2, false}, {"user:0,1", 3, true}, {"user:0-1,1", 2, true}, {"user:0-1,1", 1, false},
		{"user:2,none", 2, false}, {"user:2,none", 3, true}, {"user:none", 9, false}, {"core", 9, false},
	} {
		var b Binding
		if err := b.UnmarshalText([]byte(test.sets)); err != nil {
			t.Fatal(err)
		}
		if got := b.PutsRanksOnSameCPU(test.ranks); got != test.want {
			t.Errorf("%s for %d ranks: %v, want %v", test.sets, test.ranks, got, test.want)
		}
	}
}
