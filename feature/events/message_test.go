package events

import (
	"encoding/hex"
	"testing"

	"remshell/wire"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"5d120214c3a90a0061c3a90a0061020400044dc7": &Notify{ID: 1, Group: "é\n\x00aé\n\x00a", Rank: 1, Code: 2, Infos: []byte("M\xc7")},
		"5e0104": &Notified{ID: 2},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%q: got %s, want %s", m, got, want)
		}
	}
}
