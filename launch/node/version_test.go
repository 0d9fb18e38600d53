package node

import (
	"io"
	"testing"

	"remshell/wire"
)

// A built is a stream that knows which binary was started at its end.
type built struct {
	io.ReadWriteCloser
	build string
}

func (b built) Build() string { return b.build }

func TestSameVersion(t *testing.T) {
	for _, c := range []struct {
		name                 string
		sent                 string // binary that package transport started; empty: unknown
		build, release       string // as the helper reports
		envBuild, envRelease string
		ok                   bool
	}{
		{"this very program", "", "a", "1.0", "a", "1.0", true},
		{"another", "", "b", "1.0", "a", "1.0", false},
		{"no build is required", "", "b", "1.0", "", "", true},
		{"sent, and it replies", "a", "a", "1.0", "a", "1.0", true},
		{"for another machine", "b", "b", "1.0", "a", "1.0", true},
		{"for another machine, of another release", "b", "b", "0.9", "a", "1.0", false},
		{"not what was sent", "b", "c", "1.0", "a", "1.0", false},
	} {
		n := &Node{stream: built{build: c.sent}}
		hello := &wire.Hello{Version: wire.Version, Build: c.build, Release: c.release}
		if err := n.sameVersion(hello, &Connector{Build: c.envBuild, Release: c.envRelease}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	old := &wire.Hello{Version: wire.Version + 1, Build: "a"}
	if (&Node{}).sameVersion(old, &Connector{Build: "a"}) == nil {
		t.Error("another protocol version: no error")
	}
}
