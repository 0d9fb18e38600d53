package launch

import (
	"fmt"
	"testing"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

// A helper that the job does not have, since it was dismissed or its spawn is still being
// planned, is not believed when it speaks as if it had ranks.
func TestNewsOfNodesThatTheJobHasNot(t *testing.T) {
	for _, m := range []wire.Message{
		&wire.Caught{Signal: 15}, &wire.Exceeded{}, &wire.Emptied{}, &wire.Cleaned{}, &wire.Drained{Orphans: []job.Orphan{{}}}, &wire.States{}, &wire.Started{}, &wire.Exited{},
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

// A new node that dies after its reservation has looked for the last time, and before the job
// has taken it in, is not taken in: its ranks would be waited for for ever.
func TestANewNodeIsLostBetweenPlaceAndJob(t *testing.T) {
	z := &node.Node{Def: job.NodeDef{Name: "z"}}
	place := &reserve.Reservation{Nodes: []reserve.Node{{Node: z}}}
	f := &fleet{seeking: &seeking{inbox: node.NewInbox(), gone: make(map[*node.Node]bool)}}
	if gone := f.lostSince(place, f.seeking.gone); gone != "" {
		t.Errorf("%s is lost before it is", gone)
	}
	f.translate(node.Disconnected{From: z})
	if gone := f.lostSince(place, f.seeking.gone); gone != "z" {
		t.Errorf("lost: %q, want z", gone)
	}
	own := &member{Node: place.Nodes[0], lost: errEnding}
	f = &fleet{members: map[*node.Node]*member{z: own}}
	if gone := f.lostSince(place, nil); gone != "z" {
		t.Errorf("a lost node of the job: %q, want z", gone)
	}
}
