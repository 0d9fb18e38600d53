//go:build linux

package rank

import (
	"math"
	"testing"
)

func TestClipToHard(t *testing.T) {
	for _, test := range []struct {
		soft       int64
		hard, want uint64
	}{{10, 20, 10}, {30, 20, 20}, {-1, 20, 20}, {-1, math.MaxUint64, math.MaxUint64}, {0, 20, 0}} {
		if got := clipToHard(test.soft, test.hard); got != test.want {
			t.Errorf("%d below %d: %d, want %d", test.soft, test.hard, got, test.want)
		}
	}
}
