package reserve

import (
	"context"
	"errors"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// Planning is abandoned when its context ends, however long it takes (TRUST-8).
func TestAPlanIsLeftWithItsContext(t *testing.T) {
	core := pin.Core{CPUs: []int{0}, CoreLocation: pin.CoreLocation{L2: -1, L3: -1}}
	req := job.Request{Apps: []job.App{{N: 1 << 17, Argv: []string{"true"}}}, Placement: job.Placement{Overbook: true}}
	var snap job.Snapshot
	for id := range 100 {
		def := job.NodeDef{ID: id, Name: string(rune('a' + id)), Local: id == 0}
		probe := job.Probe{}
		probe.Topology.Cores = []pin.Core{core}
		req.Nodes, snap.Nodes = append(req.Nodes, def), append(snap.Nodes, job.Node{NodeDef: def, Probe: probe})
	}
	why := errors.New("the user has cancelled")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(why)
	if _, err := makePlan(ctx, req, snap); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if _, err := makePlan(t.Context(), req, snap); errors.Is(err, why) {
		t.Errorf("another start: %v", err)
	}
}
