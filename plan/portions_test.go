package plan

import (
	"fmt"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// Ranks with equal resources share one RankResources. Ranks that differ in anything do not, however many
// have one key.
func TestPortionsAreCommonIfAllIsTheSame(t *testing.T) {
	base := func() job.RankResources {
		return job.RankResources{Slots: []int{1, 2}, ClaimedCPUs: []int{1, 2}, CPUs: []int{1, 2}, Mems: []int{0}}
	}
	different := []job.RankResources{base()}
	for _, change := range []func(*job.RankResources){
		func(p *job.RankResources) { p.Slots = []int{1, 3} }, func(p *job.RankResources) { p.ClaimedCPUs = []int{1, 3} },
		func(p *job.RankResources) { p.CPUs = nil }, func(p *job.RankResources) { p.CPUs = []int{} },
		func(p *job.RankResources) { p.Mems = nil }, func(p *job.RankResources) { p.MemMode = pin.Interleave },
	} {
		p := base()
		change(&p)
		different = append(different, p)
	}
	for i := range 2 * maxPortionsPerKey {
		p := base()
		p.Mems = []int{i + 1}
		different = append(different, p)
	}
	known := make(portionSet)
	first := make(map[*job.RankResources]int)
	for i, p := range different {
		common := known.intern(p)
		if other, twice := first[common]; twice || fmt.Sprint(*common) != fmt.Sprint(p) {
			t.Errorf("portion %d, %v, is that of %d: %v", i, p, other, *common)
		}
		first[common] = i
	}
	for i, p := range different[:maxPortionsPerKey] {
		if first[known.intern(p)] != i {
			t.Errorf("portion %d is not known again", i)
		}
	}
}
