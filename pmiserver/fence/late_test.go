package fence_test

import (
	"slices"
	"testing"
)

// A fence that one node gives up ends for all. It is kept until each node knows, and no longer.
func TestCoordinatorGiveUp(t *testing.T) {
	h := newCoordinator(3)
	giveUp := func(node int, joined bool) []int {
		t.Helper()
		notify, err := h.GiveUp(node, first, joined)
		if err != nil {
			t.Fatal(err)
		}
		return notify
	}
	if _, err := h.Join(0, first, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if notify := giveUp(1, false); !slices.Equal(notify, []int{0, 1, 2}) {
		t.Errorf("notified are %d", notify)
	}
	if notify := giveUp(0, true); notify != nil { // this node does not know yet
		t.Errorf("notified again are %d", notify)
	}
	if _, err := h.GiveUp(1, first, false); err == nil {
		t.Error("a node gives it up twice")
	}
	if err := h.RankLeft("k0", 2, 2); err != nil { // no node waits for this rank
		t.Error(err)
	}
	if done, err := h.Join(2, first, []byte("c")); done != nil || err != nil { // sent before the notification arrived
		t.Errorf("%v, %v", done, err)
	}
	if notify := giveUp(2, true); notify != nil { // likewise; the fence is forgotten
		t.Errorf("notified of a forgotten fence are %d", notify)
	}
	if open, held := h.OpenAndHeld(); open != 0 || held != 0 {
		t.Errorf("%d fences and %d bytes are kept", open, held)
	}
	h.Remove("k0")
	if _, err := h.GiveUp(0, first, false); err == nil {
		t.Error("a fence of no group is given up")
	}
}
