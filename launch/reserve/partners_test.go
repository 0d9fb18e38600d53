package reserve

import (
	"slices"
	"testing"
)

// Each host is probed by others; with many hosts, by at least 8.
func TestPartners(t *testing.T) {
	for _, n := range []int{2, 3, 32, 33, 64, 1000} {
		probed := make([]int, n)
		for i := range n {
			found := probePartners(i, n)
			if slices.Contains(found, i) || len(found) > 32 {
				t.Fatalf("%d of %d probes %v", i, n, found)
			}
			for _, k := range found {
				probed[k]++
			}
		}
		if least := slices.Min(probed); least < min(n-1, 8) {
			t.Errorf("of %d, one is probed %d times only", n, least)
		}
	}
}
