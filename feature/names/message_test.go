package names

import (
	"encoding/hex"
	"testing"

	"remshell/wire"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"241c040214c3a90a0061c3a90a006114c3a90a0061c3a90a00610466b902": &NameRequest{ID: 2, Op: Publish, Service: "é\n\x00aé\n\x00a", Port: "é\n\x00aé\n\x00a", Value: []byte("f\xb9"), FirstReadOnly: true},
		"250f04000ac3a90a006104c3a9041e1400":                           &NameReply{ID: 2, Port: "é\n\x00a", Err: "é", Value: []byte("\x1e\x14")},
		"2d0406737663":                                                 &NamePublished{Service: "svc"},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%q: got %s, want %s", m, got, want)
		}
	}
}
