package usage

import (
	"reflect"
	"testing"

	"remshell/limits"
)

// A plain job is not sampled (RM-51). One with a limit is sampled often, one that is recorded in detail.
func TestSamplingFor(t *testing.T) {
	for _, test := range []struct {
		report   string
		recorded bool
		most     limits.Map
		want     *Sampling
	}{
		{"", false, nil, nil},
		{"", false, limits.Map{limits.NoFile: 1, limits.WallTime: 1}, nil},
		{"", false, limits.Map{limits.Mem: 1}, &Sampling{Often: true}},
		{"rank", false, nil, &Sampling{Report: "rank", SmallRanks: true}},
		{"", true, limits.Map{limits.NoFile: 1}, &Sampling{SmallRanks: true}},
		{"", true, limits.Map{limits.RankMem: 1}, &Sampling{Often: true, SmallRanks: true}},
	} {
		if got := samplingFor(test.report, test.recorded, test.most); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q, %v, %v: got %+v, want %+v", test.report, test.recorded, test.most, got, test.want)
		}
	}
}
