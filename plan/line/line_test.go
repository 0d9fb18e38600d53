package line

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// drawnCapacities parses a drawn line: a digit is the capacity of a node, a dot a node without capacity.
func drawnCapacities(drawn string) []int {
	var list []int
	for _, r := range strings.ReplaceAll(drawn, ".", "0") {
		list = append(list, int(r-'0'))
	}
	return list
}

func TestFind(t *testing.T) {
	tests := []struct {
		line  string
		need  Requirement
		mode  Mode
		want  string // first and last position, and the number of unused nodes
		about string
	}{
		{"4.444.44", Requirement{Ranks: 8}, First, "2-3 1", "the first that holds it"},
		{"4.444.44", Requirement{Ranks: 8}, Best, "6-7 0", "nothing left over"},
		{"4.444.44", Requirement{Ranks: 12}, First, "2-4 0", "all of a run"},
		{"4.444.44", Requirement{Ranks: 13}, First, "none", "enough capacity, but not contiguous"},
		{"244.4", Requirement{Ranks: 8}, First, "1-2 1", "the shortest stretch of a run"},
		{"244.4", Requirement{Ranks: 10}, First, "0-2 0", "a longer one where it must be"},
		{"1112.9", Requirement{Ranks: 3}, First, "2-3 2", "of a run the shortest, not the first"},
		{"1112.9", Requirement{Ranks: 3}, Best, "5-5 0", "the fewest nodes"},
		{"22.22", Requirement{Ranks: 2}, Best, "0-0 1", "of equal ones the first"},
		{"244.4", Requirement{Ranks: 8, Shape: 4}, First, "1-2 0", "a node with less capacity than the shape ends a run"},
		{"4424", Requirement{Ranks: 10, Shape: 4}, First, "0-2 0", "the rest behind the run"},
		{"4414", Requirement{Ranks: 10, Shape: 4}, First, "none", "which has too little"},
		{"44.4", Requirement{Ranks: 8, Shape: 4}, Best, "0-1 0", "exactly"},
		{"2.22", Requirement{Ranks: 4, Shape: 2}, First, "2-3 0", "no remainder: no node behind a run that is too short"},
		{"2.22", Requirement{Ranks: 4, Shape: 2}, Best, "2-3 0", "the same with the best run"},
		{"2122", Requirement{Ranks: 4, Shape: 2}, First, "2-3 0", "nor one with too little capacity"},
		{"442", Requirement{Ranks: 3, Shape: 4}, First, "0-0 1", "fewer ranks than the shape"},
		{"344", Requirement{Ranks: 3, Shape: 4}, First, "0-0 2", "they make a run of more nodes"},
		{"4.44.4", Requirement{}, First, "2-3 0", "no number of ranks: the run with the largest capacity"},
		{"2.94.4", Requirement{Shape: 3}, First, "2-3 0", "the same in a shape"},
		{"...", Requirement{}, First, "none", "no run"},
		{"", Requirement{Ranks: 1}, Best, "none", "no line"},
	}
	for _, test := range tests {
		w, ok := FindWindow(drawnCapacities(test.line), test.need, test.mode)
		got := fmt.Sprintf("%d-%d %d", w.From, w.To-1, w.UnusedNodes)
		if !ok {
			got = "none"
		}
		if got != test.want {
			t.Errorf("%s: %s of %s: %s; want %s", test.about, test.mode, test.line, got, test.want)
		}
	}
}

// HoldsJob is called if capacity alone does not decide.
func TestHolds(t *testing.T) {
	three := func(from, to int) bool { return to-from >= 3 }
	if w, ok := FindWindow(drawnCapacities("44.4444"), Requirement{Ranks: 2, HoldsJob: three}, First); !ok || w.From != 3 || w.To != 6 {
		t.Errorf("%v, %v", w, ok)
	}
	if _, ok := FindWindow(drawnCapacities("44.44"), Requirement{Ranks: 2, HoldsJob: three}, First); ok {
		t.Error("no run has three nodes")
	}
}

func TestLongest(t *testing.T) {
	if w, capacity := LargestRun(drawnCapacities("4.444.44"), Requirement{Ranks: 16}); w.From != 2 || w.To != 5 || capacity != 12 {
		t.Errorf("%v, capacity %d", w, capacity)
	}
	if _, capacity := LargestRun(drawnCapacities("5.33"), Requirement{Ranks: 16, Shape: 3}); capacity != 6 {
		t.Errorf("in a shape of 3: capacity %d", capacity)
	}
}

// Compared with all stretches: a window can run the job, no shorter one of its run can, and if none is
// found there is none.
func TestAgainstAllStretches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		line := make([]int, random.IntN(9))
		for i := range line {
			line[i] = random.IntN(4)
		}
		need := Requirement{Ranks: 1 + random.IntN(9)}
		for _, mode := range []Mode{First, Best} {
			w, ok := FindWindow(line, need, mode)
			want, any := exhaustive(line, need.Ranks, mode)
			if ok != any || ok && (w.From != want.From || w.To != want.To) {
				t.Fatalf("%s of %v for %d ranks: %v, %v; want %v, %v", mode, line, need.Ranks, w, ok, want, any)
			}
		}
	}
}

// exhaustive tries every stretch.
func exhaustive(line []int, ranks int, mode Mode) (best Window, any bool) {
	for from := range line {
		for to := from + 1; to <= len(line); to++ {
			sum, whole := 0, true
			for _, r := range line[from:to] {
				sum += r
				whole = whole && r > 0
			}
			if !whole || sum < ranks {
				continue
			}
			low, high := from, to
			for low > 0 && line[low-1] > 0 {
				low--
			}
			for high < len(line) && line[high] > 0 {
				high++
			}
			w := Window{From: from, To: to, UnusedNodes: high - low - (to - from)}
			sameRun := any && low <= best.From && best.To <= high
			switch shorter := to-from < best.To-best.From; {
			case !any, sameRun && shorter, mode == Best && !sameRun && w.precedes(best):
				best, any = w, true
			}
		}
	}
	return best, any
}

func BenchmarkFind(b *testing.B) {
	line := make([]int, 10000)
	for i := range line {
		line[i] = 64 * (i % 2)
	}
	for b.Loop() {
		if _, ok := FindWindow(line, Requirement{Ranks: 3000}, Best); ok {
			b.Fatal("no run holds it")
		}
	}
}
