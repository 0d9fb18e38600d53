package launch

import (
	"slices"
	"testing"
)

// All hosts of a job are knocked at, and each of many from several sides.
func TestPartners(t *testing.T) {
	for _, n := range []int{2, 3, 32, 33, 64, 1000} {
		knocked := make([]int, n)
		for i := range n {
			found := partners(i, n)
			if slices.Contains(found, i) || len(found) > 32 {
				t.Fatalf("%d of %d knocks at %v", i, n, found)
			}
			for _, k := range found {
				knocked[k]++
			}
		}
		if least := slices.Min(knocked); least < min(n-1, 8) {
			t.Errorf("of %d, one is knocked at %d times only", n, least)
		}
	}
}
