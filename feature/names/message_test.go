package names

import (
	"encoding/hex"
	"testing"
	"time"

	"remshell/wire"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"241c040214c3a90a0061c3a90a006114c3a90a0061c3a90a00610466b902": &NameRequest{ID: 2, Op: Publish, Service: "é\n\x00aé\n\x00a", Port: "é\n\x00aé\n\x00a", Value: []byte("f\xb9"), FirstReadOnly: true},
		"250f04000ac3a90a006104c3a9041e1400":                           &NameReply{ID: 2, Port: "é\n\x00a", Err: "é", Value: []byte("\x1e\x14")},
		"2d0406737663":                                                 &NamePublished{Service: "svc"},
		"7813040264026a80a8d6b907020402730270027602":                   &LedgerName{ID: 2, Ledger: "d", Job: "j", Silence: time.Second, AnyUser: true, Op: Lookup, Service: "s", Port: "p", Value: []byte("v"), FirstReadOnly: true},
		"790b0402027002650276020275":                                   &LedgerNameReply{ID: 2, OK: true, Port: "p", Err: "e", Value: []byte("v"), FirstReadOnly: true, User: "u"},
		"7a0402640206":                                                 &AwaitNames{Ledger: "d", AnyUser: true, Seen: 3},
		"7b0108":                                                       &NamesChanged{Number: 4},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%q: got %s, want %s", m, got, want)
		}
	}
}
