package fetches

import (
	"encoding/hex"
	"testing"

	"remshell/wire"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"5b0c04046b30020ac3a90a006104":           &Fetch{ID: 2, Group: "k0", Rank: 1, Key: "é\n\x00a", Timeout: 2},
		"5c1104020663764114c3a90a0061c3a90a0061": &Fetched{ID: 2, Found: true, Data: []byte("cvA"), Err: "é\n\x00aé\n\x00a"},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%q: got %s, want %s", m, got, want)
		}
	}
}
