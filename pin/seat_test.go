package pin

import (
	"fmt"
	"strings"
	"testing"
)

// four is four cores of two threads, the fourth outside of the cpuset, the second with
// one thread outside; cores 0 and 1 lie in memory node 0.
var four = Topology{Cores: []Core{
	{CPUs: []int{0, 4}}, {CPUs: []int{5}, Shut: []int{1}},
	{CPUs: []int{2, 6}, Place: Place{NUMA: 1}}, {Shut: []int{3, 7}, Place: Place{NUMA: 1}},
}}

func numbers(units []Unit) string {
	var words []string
	for _, u := range units {
		words = append(words, fmt.Sprint(u.Number))
	}
	return strings.Join(words, " ")
}

func TestUnits(t *testing.T) {
	if got := numbers(four.List(false)); got != "0 1 2" || four.Units() != 3 || four.Count(false) != 3 {
		t.Errorf("cores: %s, %d", got, four.Units())
	}
	if got := numbers(four.List(true)); got != "0 2 4 5 6" || four.Count(true) != 5 {
		t.Errorf("threads: %s, %d", got, four.Count(true))
	}
	if !four.Has(3, false) || four.Has(4, false) || four.Has(-1, false) || !four.Has(7, true) || four.Has(8, true) {
		t.Error("Has: a core outside of the cpuset is there all the same, and no other")
	}
}

// Slot order is the map, each unit once, then the rest (7.2).
func TestSlots(t *testing.T) {
	for _, test := range []struct {
		cpuMap []int
		want   string
	}{
		{nil, "0 1 2"}, {[]int{2}, "2 0 1"}, {[]int{2, 2, 0}, "2 0 1"}, {[]int{3, 1}, "1 0 2"}, {[]int{9, 2, 1, 0}, "2 1 0"},
	} {
		if got := numbers(Slots(four.List(false), test.cpuMap)); got != test.want {
			t.Errorf("Slots(%v): %s; want %s", test.cpuMap, got, test.want)
		}
	}
}

// A core is busy when any of its threads is; processes nobody knows the CPUs of take
// free units in slot order.
func TestTaken(t *testing.T) {
	for _, test := range []struct {
		cpus  []int
		procs int
		want  string // free slots, in the order of map 2,1,0
	}{
		{nil, 0, "[0 1 2]"}, {[]int{4}, 0, "[0 1]"}, {[]int{4}, 1, "[0 1]"}, {[]int{4}, 2, "[1]"},
		{nil, 1, "[1 2]"}, {nil, 9, "[]"}, {[]int{3, 1}, 0, "[0 1 2]"},
	} {
		slots := Slots(four.List(false), []int{2, 1, 0})
		if got := fmt.Sprint(Free(slots, Taken(slots, test.cpus, test.procs))); got != test.want {
			t.Errorf("CPUs %v, %d processes: free %s; want %s", test.cpus, test.procs, got, test.want)
		}
	}
}

func TestNewSeat(t *testing.T) {
	slots := Slots(four.List(false), []int{2, 1, 0})
	for _, test := range []struct {
		mine []int
		want string
	}{
		{[]int{0}, "{[0] [2 6] [1] false}"}, {[]int{1, 2}, "{[1 2] [0 4 5] [0] false}"}, {[]int{0, 1, 2}, "{[0 1 2] [0 2 4 5 6] [0 1] false}"},
	} {
		if got := fmt.Sprint(NewSeat(slots, test.mine)); got != test.want {
			t.Errorf("slots %v: %s; want %s", test.mine, got, test.want)
		}
	}
	blind := []Unit{{0, []int{0}, 0}, {1, []int{1}, -1}}
	if seat := NewSeat(blind, []int{0, 1}); seat.Mems != nil {
		t.Errorf("memory %v although one core's is unknown", seat.Mems)
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

// Whether the sets that were written down give two ranks of a node the same CPU: they are used again when there are more ranks.
// A rank that is not bound shares nothing.
func TestCrowds(t *testing.T) {
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
		if got := b.Crowds(test.ranks); got != test.want {
			t.Errorf("%s for %d ranks: %v, want %v", test.sets, test.ranks, got, test.want)
		}
	}
}
