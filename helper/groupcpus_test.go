//go:build linux

package helper

import (
	"slices"
	"testing"

	"remshell/job"
)

// Ranks that share CPUs and may use Open MPI run on all CPUs of the group. They are not bound if these are all CPUs.
// Bound to one CPU each, a rank would wait for whatever else runs there.
func TestCommonCPUs(t *testing.T) {
	for name, test := range map[string]struct {
		ranks        [][]int
		usable, want []int
	}{
		"all of the node":    {[][]int{{0}, {1}, {0}, {1}}, []int{0, 1}, nil},
		"a part of the node": {[][]int{{2}, {4}, {2}}, []int{0, 1, 2, 3, 4}, []int{2, 4}},
		"two CPUs each":      {[][]int{{0, 1}, {2, 3}, {0, 1}}, []int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3}},
	} {
		var ranks []job.RankPlan
		for _, cpus := range test.ranks {
			ranks = append(ranks, job.RankPlan{RankResources: &job.RankResources{CPUs: cpus}})
		}
		if got := commonCPUs(ranks, test.usable); !slices.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
