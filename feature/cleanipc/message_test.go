package cleanipc

import (
	"encoding/hex"
	"testing"

	"remshell/job"
	"remshell/wire"
)

// The frame of a report does not change.
func TestFrame(t *testing.T) {
	m := &IPCCleaned{Leftovers: []job.Leftover{{Kind: "sysvshm", ID: "32769", Bytes: 4096, Rank: 64, Err: "e"}}, Semaphores: 2}
	const want = "6416020e7379737673686d0a333237363980408001026504"
	if got := hex.EncodeToString(wire.Encode(m)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
