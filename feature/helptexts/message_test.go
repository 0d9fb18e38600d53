package helptexts

import (
	"encoding/hex"
	"testing"

	"remshell/wire"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"5f0b020e02660c6d70692d6162": &ShowHelp{ID: 1, Rank: 7, File: "f", Topic: "mpi-ab"},
		"60020402":                   &ShowHelpReply{ID: 2, AlreadyShown: true},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%q: got %s, want %s", m, got, want)
		}
	}
}
