package pin

import (
	"slices"
	"testing"
)

func TestText(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "0": {0}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5-7": {1, 3, 5, 6, 7}, "1500": {1500},
	} {
		got := Text(numbers)
		back, err := ParseCPUs(got)
		if got != want || err != nil || !slices.Equal(back, numbers) {
			t.Errorf("Text(%v) = %q, back %v, %v; want %q", numbers, got, back, err, want)
		}
	}
}
