package feature

import (
	"bytes"
	"reflect"
	"testing"

	"remshell/wire"
)

// Each kind of setting has an example, and reaches the helpers.
func TestSettingsReachHelpers(t *testing.T) {
	sent := wire.ExampleSettings()
	if len(sent) == 0 {
		t.Fatal("no feature has a setting: this test looks for them wrongly")
	}
	for _, setting := range sent {
		frame := wire.Encode(&wire.Prepare{Settings: []wire.Setting{setting}})
		m, err := wire.NewConn(stream{bytes.NewReader(frame)}, wire.Helper).Recv()
		if err != nil {
			t.Errorf("%+v: %v", setting, err)
			continue
		}
		if got := m.(*wire.Prepare).Settings; len(got) != 1 || !reflect.DeepEqual(got[0], setting) {
			t.Errorf("%+v came as %+v", setting, got)
		}
	}
}

// A stream is one that only the other end writes to.
type stream struct{ *bytes.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }
