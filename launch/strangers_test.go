package launch

import (
	"fmt"
	"testing"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// A helper that the job does not have, since it was dismissed or its spawn is still being
// planned, is not believed when it speaks as if it had ranks.
func TestNewsOfNodesThatTheJobHasNot(t *testing.T) {
	for _, m := range []wire.Message{
		&wire.Emptied{}, &wire.Drained{Orphans: []job.Orphan{{}}}, &wire.States{}, &wire.Started{}, &wire.Exited{},
		&wire.Fence{}, &wire.Spawn{}, &wire.Name{}, &wire.Trace{}, &wire.PMI{}, &wire.Prepared{},
	} {
		t.Run(fmt.Sprintf("%T", m), func(t *testing.T) {
			defer func() {
				if why := recover(); why != nil {
					t.Error(why)
				}
			}()
			f := &fleet{}
			if news := f.translate(node.Message{From: new(node.Node), M: m}); news != nil {
				t.Errorf("%+v", news)
			}
		})
	}
}
