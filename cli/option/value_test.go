package option

import (
	"testing"
	"time"
)

// Help and the manual write minutes as min: --ckpt-grace 5min.
func TestTimesInMinutes(t *testing.T) {
	for text, want := range map[string]time.Duration{"5min": 5 * time.Minute, "1h5min": 65 * time.Minute, "5m": 5 * time.Minute, "1min30s": 90 * time.Second} {
		if got, err := parseSeconds(text); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"min", "5mins", "5 min"} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
