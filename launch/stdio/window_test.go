package stdio

import "testing"

// The total window of all ranks is limited, and each rank has some.
func TestWindow(t *testing.T) {
	for ranks, want := range map[int]int{1: 256 << 10, 64: 256 << 10, 256: 64 << 10, 1024: 16 << 10, 1 << 20: 4 << 10} {
		if got := WindowSize(ranks); got != want {
			t.Errorf("%d ranks: %d, want %d", ranks, got, want)
		}
	}
}
