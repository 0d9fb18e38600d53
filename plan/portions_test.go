package plan

import (
	"fmt"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// Ranks that have the same have one portion; those that differ in anything do not, however many
// there are of one key.
func TestPortionsAreCommonIfAllIsTheSame(t *testing.T) {
	base := func() job.Portion {
		return job.Portion{Slots: []int{1, 2}, Held: []int{1, 2}, CPUs: []int{1, 2}, Mems: []int{0}}
	}
	different := []job.Portion{base()}
	for _, change := range []func(*job.Portion){
		func(p *job.Portion) { p.Slots = []int{1, 3} }, func(p *job.Portion) { p.Held = []int{1, 3} },
		func(p *job.Portion) { p.CPUs = nil }, func(p *job.Portion) { p.CPUs = []int{} },
		func(p *job.Portion) { p.Mems = nil }, func(p *job.Portion) { p.MemMode = pin.Interleave },
	} {
		p := base()
		change(&p)
		different = append(different, p)
	}
	for i := range 2 * alikeMost {
		p := base()
		p.Mems = []int{i + 1}
		different = append(different, p)
	}
	known := make(portions)
	first := make(map[*job.Portion]int)
	for i, p := range different {
		common := known.common(p)
		if other, twice := first[common]; twice || fmt.Sprint(*common) != fmt.Sprint(p) {
			t.Errorf("portion %d, %v, is that of %d: %v", i, p, other, *common)
		}
		first[common] = i
	}
	for i, p := range different[:alikeMost] {
		if first[known.common(p)] != i {
			t.Errorf("portion %d is not known again", i)
		}
	}
}
