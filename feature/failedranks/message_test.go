package failedranks

import (
	"encoding/hex"
	"testing"

	"remshell/wire"
)

// The frame of the message does not change.
func TestFrame(t *testing.T) {
	m := &FailedRanks{Group: "é\n\x00aé\n\x00aé\n\x00aé\n\x00aé\n\x00a", Ranks: []int{327, 256}}
	const want = "611f32c3a90a0061c3a90a0061c3a90a0061c3a90a0061c3a90a0061048e058004"
	if got := hex.EncodeToString(wire.Encode(m)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
