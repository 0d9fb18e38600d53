package launch

import (
	"fmt"
	"testing"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

// Messages about ranks are ignored if they come from a helper that is not part of the job, because
// it was dismissed or its spawn is still being planned.
func TestMessagesOfOtherNodesAreIgnored(t *testing.T) {
	all := []wire.Message{
		&wire.HelperSignaled{Signal: 15}, &wire.ProcessesGone{}, &wire.Drained{Orphans: []job.OrphanUsage{{}}}, &wire.Started{}, &wire.Exited{},
		&wire.Fence{}, &wire.RankMapRequest{}, &wire.PMIReport{}, &wire.Prepared{},
	}
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender == wire.Helper {
			all = append(all, k.Example(0))
		}
	}
	for _, m := range all {
		t.Run(fmt.Sprintf("%T", m), func(t *testing.T) {
			defer func() {
				if why := recover(); why != nil {
					t.Error(why)
				}
			}()
			f := &Job{}
			if news := f.translate(node.NodeMessage{From: new(node.Node), Message: m}); news != nil {
				t.Errorf("%+v", news)
			}
		})
	}
}

// A new node that dies after its reservation last checked it is not added to the job. Otherwise its
// ranks would be waited for forever.
func TestANewNodeIsLostBetweenPlaceAndJob(t *testing.T) {
	z := &node.Node{Def: job.NodeDef{Name: "z"}}
	place := &reserve.Reservation{Nodes: []reserve.Node{{Node: z}}}
	f := &Job{search: &nodeSearch{inbox: node.NewInbox(), lostNodes: make(map[*node.Node]bool)}}
	if gone := f.LostSinceReserved(place, f.search.lostNodes); gone != "" {
		t.Errorf("%s is lost before it is", gone)
	}
	f.translate(node.Disconnected{From: z})
	if gone := f.LostSinceReserved(place, f.search.lostNodes); gone != "z" {
		t.Errorf("lost: %q, want z", gone)
	}
	own := &Node{Node: place.Nodes[0], Lost: ErrJobEnding}
	f = &Job{members: map[*node.Node]*Node{z: own}}
	if gone := f.LostSinceReserved(place, nil); gone != "z" {
		t.Errorf("a lost node of the job: %q, want z", gone)
	}
}
