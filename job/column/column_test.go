package column

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"remshell/job"
)

// Each row of All is whole: its names are its own, its values can be combined in any order, its cells are short plain
// text, and the guide describes what the table shows.
func TestRows(t *testing.T) {
	page, err := os.ReadFile("../../doc/guide/sharing.md")
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.Fields("JOB USER FOR RANKS DEPTH SHAPE SET NODES CPUS MPIEXEC COMMAND")
	for _, c := range All {
		if c.Name == "" || slices.Contains(taken, c.Name) || slices.Contains(taken, c.Title) || c.Max <= 0 || c.Max == math.MaxInt64 {
			t.Errorf("%q %q: names that are empty or not its own, or Max %d", c.Name, c.Title, c.Max)
		}
		taken = append(taken, c.Name)
		gone := Source{Claim: job.Claim{Ranks: make([]job.ClaimedRank, 1)}, Processes: func() []int { return []int{4711} }, Root: fstest.MapFS{}}
		if value := c.Read(gone); value < None || value > c.Max {
			t.Errorf("%s: a process that has ended in between makes it %d", c.Name, value)
		}
		values := []int64{0, 1, c.Max / 2, c.Max}
		for _, x := range values {
			for _, y := range values {
				if one, other := c.combine(x, y), c.combine(y, x); one != other || one < 0 {
					t.Errorf("%s: %d and %d are %d, the other way round %d", c.Name, x, y, one, other)
				}
				if c.combine(x, None) != x || c.combine(None, x) != x {
					t.Errorf("%s: None is combined", c.Name)
				}
			}
		}
		if c.Title == "" {
			continue
		}
		taken = append(taken, c.Title)
		for _, value := range append(values, math.MaxInt64) { // the sum of all nodes can be larger than Max
			if cell := c.Text(value); cell == "" || len(cell) > 20 || strings.ContainsFunc(cell, unicode.IsControl) {
				t.Errorf("%s: the cell of %d is %q", c.Name, value, cell)
			}
		}
		if !strings.Contains(string(page), c.Title+" is ") || !strings.Contains(string(page), "`"+c.Name+"`") {
			t.Errorf("doc/guide/sharing.md does not say what %s is, or not that it is `%s` in the JSON", c.Title, c.Name)
		}
	}
}

// Values that a node reads are within the bounds that mpiexec checks, and a sum that overflows is the largest number.
func TestValuesStayWithinBounds(t *testing.T) {
	defer func(all []*Column) { All = all }(All)
	reads := int64(0)
	sum := &Column{Name: "sum", Max: 10, Read: func(Source) int64 { return reads }, Combine: func(a, b int64) int64 { return a + b }}
	All = []*Column{&State, sum}
	for value, want := range map[int64]int64{math.MinInt64: None, -2: None, None: None, 0: 0, 10: 10, 11: 10, math.MaxInt64: 10} {
		reads = value
		if got := sum.Of(ReadAll(Source{})); got != want {
			t.Errorf("%d is reported as %d, want %d", value, got, want)
		}
	}
	for _, test := range []struct {
		a, b []int64
		want int64
	}{
		{nil, nil, None},
		{nil, []int64{0, 3}, 3},
		{[]int64{0}, []int64{0, 3}, 3},
		{[]int64{0, None}, []int64{0, None}, None},
		{[]int64{0, 2}, []int64{0, 3}, 5},
		{[]int64{0, math.MaxInt64}, []int64{0, 10}, math.MaxInt64},
		{[]int64{0, math.MaxInt64}, []int64{0, math.MaxInt64}, math.MaxInt64},
	} {
		if got := sum.Of(Combine(test.a, test.b)); got != test.want {
			t.Errorf("%v and %v: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestStateOfClaim(t *testing.T) {
	ranks := make([]job.ClaimedRank, 2)
	for _, test := range []struct {
		name   string
		source Source
		want   int64
	}{
		{"ranks run", Source{Claim: job.Claim{Ranks: ranks}, Ranks: RanksRunning, Age: time.Hour}, Running},
		{"ranks are stopped", Source{Claim: job.Claim{Ranks: ranks}, Ranks: RanksStopped}, Suspended},
		{"ranks may not have started yet", Source{Claim: job.Claim{Ranks: ranks}, Age: 9 * time.Second}, Running},
		{"no rank is left", Source{Claim: job.Claim{Ranks: ranks}, Age: 10 * time.Second}, Idle},
		{"ranks may be hidden", Source{Claim: job.Claim{Ranks: ranks}, Age: time.Hour, Hidden: true}, Running},
		{"a standby node", Source{Claim: job.Claim{Ranks: ranks, IdleReason: job.IdleStandby}}, Idle},
		{"a claim of no ranks", Source{Age: time.Hour}, Empty},
	} {
		if got := readState(test.source); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// A job runs if one of its claims does, and is idle only if all are.
func TestStateOfClaims(t *testing.T) {
	for _, test := range []struct{ a, b, want int64 }{
		{Running, Suspended, Running}, {Running, Idle, Running}, {Running, Empty, Running},
		{Suspended, Suspended, Suspended}, {Suspended, Idle, Suspended}, {Suspended, Empty, Suspended},
		{Idle, Idle, Idle}, {Idle, Empty, Empty},
	} {
		if got := State.Of(Combine([]int64{test.a}, []int64{test.b})); got != test.want {
			t.Errorf("%d and %d: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
