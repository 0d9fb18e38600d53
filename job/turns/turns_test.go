package turns

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// pattern returns the slices of two cycles in which a gang runs, as x and dots.
func pattern(own int, competitors []int, parties int) string {
	var b strings.Builder
	for n := range 2 * int64(parties) {
		if Runs(own, competitors, parties, n) {
			b.WriteByte('x')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// The vectors are worked out by hand from the rule: own time, a competitor's time, promotion.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		own         int
		competitors []int
		parties     int
		want        string
	}{
		{0, nil, 4, "xxxxxxxx"},
		{3, nil, 4, "xxxxxxxx"},
		{0, nil, 1, "xx"},
		{0, []int{1}, 2, "x.x."},
		{1, []int{0}, 2, ".x.x"},
		{0, []int{2}, 4, "xx..x..x"},
		{2, []int{0}, 4, "..xx.xx."},
		{0, []int{1}, 4, "x...x.xx"},
		{1, []int{0}, 4, ".xxx.x.."},
		{1, []int{3}, 4, ".xx.xx.."},
		{3, []int{1}, 4, "x..x..xx"},
		{0, []int{3}, 4, "xxx.x..."},
		{3, []int{0}, 4, "...x.xxx"},
		{0, []int{1, 2}, 4, "x...x..x"},
		{1, []int{0, 2}, 4, ".x...x.."},
		{2, []int{0, 1}, 4, "..xx..x."},
		{0, []int{1, 2, 3}, 4, "x...x..."},
		{3, []int{0, 1, 2}, 4, "...x...x"},
		{1, []int{2, 2}, 3, ".x.xx."},
		{2, []int{1}, 3, "x.x..x"},
	} {
		if got := pattern(c.own, c.competitors, c.parties); got != c.want {
			t.Errorf("party %d of %d beside %v: %s, want %s", c.own, c.parties, c.competitors, got, c.want)
		}
		if got, want := Share(c.own, c.competitors, c.parties), strings.Count(c.want, "x"); got != want {
			t.Errorf("party %d of %d beside %v: a share of %d slices, want %d", c.own, c.parties, c.competitors, got, want)
		}
	}
}

// A sharedCPU is a CPU with the gangs that have claimed it.
type sharedCPU []int

// In random clusters of up to 16 parties, gangs that share a CPU never run together, each gang runs at least once in P
// slices, a gang alone always runs, and two gangs alone with each other have half each.
func TestEachGangGetsItsTurns(t *testing.T) {
	const clusters = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	unused, all := 0, 0
	for cluster := range clusters {
		parties := 1 + random.IntN(8)
		party := make([]int, 1+random.IntN(12)) // by gang
		for g := range party {
			party[g] = random.IntN(parties)
		}
		cpus := make([]sharedCPU, 1+random.IntN(16))
		competitors := make([][]int, len(party))
		for c := range cpus {
			for g := range party {
				free := !slices.ContainsFunc(cpus[c], func(other int) bool { return party[other] == party[g] })
				if free && random.IntN(3) == 0 {
					cpus[c] = append(cpus[c], g)
				}
			}
			for _, g := range cpus[c] {
				for _, other := range cpus[c] {
					if other != g {
						competitors[g] = append(competitors[g], party[other])
					}
				}
			}
		}
		for n := range 2 * int64(parties) {
			for g := range party {
				runs := Runs(party[g], competitors[g], parties, n)
				if !runs && (len(competitors[g]) == 0 || int(n)%parties == party[g]) {
					t.Fatalf("cluster %d, slice %d: gang %d of party %d does not run, beside %v", cluster, n, g, party[g], competitors[g])
				}
				if all++; !runs && !slices.ContainsFunc(cpus, func(c sharedCPU) bool {
					return slices.Contains(c, g) && slices.ContainsFunc(c, func(other int) bool { return Runs(party[other], competitors[other], parties, n) })
				}) {
					unused++
				}
			}
			for c, gangs := range cpus {
				running := 0
				for _, g := range gangs {
					if Runs(party[g], competitors[g], parties, n) {
						running++
					}
				}
				if running > 1 {
					t.Fatalf("cluster %d, slice %d: %d gangs run on CPU %d: %v of parties %v", cluster, n, running, c, gangs, party)
				}
			}
		}
	}
	t.Logf("%.1f %% of the slices of gangs are unused though all their CPUs are", 100*float64(unused)/float64(all))
	for parties := 2; parties <= 16; parties++ {
		for a := range parties {
			for b := range parties {
				if a != b && Share(a, []int{b}, parties) != parties {
					t.Errorf("P = %d: party %d beside %d has %d of %d slices", parties, a, b, Share(a, []int{b}, parties), 2*parties)
				}
			}
		}
	}
}

// Slices are numbered from 1970 on, so that all helpers of a node agree. A clock before 1970 is not set.
func TestSlice(t *testing.T) {
	for _, c := range []struct {
		at    time.Time
		n     int64
		began time.Time
	}{
		{time.Unix(1000, 0), 100, time.Unix(1000, 0)},
		{time.Unix(1009, 999_999_999), 100, time.Unix(1000, 0)},
		{time.Unix(1010, 0), 101, time.Unix(1010, 0)},
		{time.Unix(-5, 0), 0, time.Unix(0, 0)},
	} {
		if n, began := Slice(c.at, 10*time.Second); n != c.n || !began.Equal(c.began) {
			t.Errorf("%v: slice %d since %v, want %d since %v", c.at, n, began, c.n, c.began)
		}
	}
}
