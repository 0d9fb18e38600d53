package launch

import (
	"io"
	"testing"
	"time"

	"remshell/job"
)

type link struct {
	io.ReadWriteCloser
	silence time.Duration
}

func (l link) Silence() time.Duration { return l.silence }

func TestSilenceFollowsTheLink(t *testing.T) {
	f := &fleet{env: Env{Silence: 45 * time.Second}}
	for _, test := range []struct {
		name string
		node node
		want time.Duration
	}{
		{"a link that knows", node{rw: link{silence: 3 * time.Second}}, 3 * time.Second},
		{"a link that does not", node{rw: link{}}, 45 * time.Second},
		{"a link of another kind", node{rw: nil}, 45 * time.Second},
		// SSH_CONNECTION there is that of the login from which mpiexec was called.
		{"this machine", node{rw: link{silence: time.Second}, def: job.NodeDef{Local: true}}, 0},
	} {
		if got := f.silence(&test.node); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
