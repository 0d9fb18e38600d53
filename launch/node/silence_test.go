package node

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
	for _, test := range []struct {
		name string
		node *Node
		want time.Duration
	}{
		{"a link that knows", &Node{stream: link{silence: 3 * time.Second}}, 3 * time.Second},
		{"a link that does not", &Node{stream: link{}}, 45 * time.Second},
		{"a link of another kind", &Node{}, 45 * time.Second},
		// SSH_CONNECTION is there, but of the login in which mpiexec was called.
		{"this machine", &Node{stream: link{silence: time.Second}, Def: job.NodeDef{Local: true}}, 0},
	} {
		if got := test.node.MaxSilence(45 * time.Second); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
