package fence_test

import (
	"slices"
	"testing"
)

// A fence that one node gives up is over for all; it is kept until each of them knows, and no longer.
func TestHubGiveUp(t *testing.T) {
	h := newCoordinator(3)
	giveUp := func(node int, joined bool) []int {
		t.Helper()
		tell, err := h.GiveUp(node, first, joined)
		if err != nil {
			t.Fatal(err)
		}
		return tell
	}
	if _, err := h.Join(0, first, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if tell := giveUp(1, false); !slices.Equal(tell, []int{0, 1, 2}) {
		t.Errorf("told are %d", tell)
	}
	if tell := giveUp(0, true); tell != nil { // it has not heard yet
		t.Errorf("told again are %d", tell)
	}
	if _, err := h.GiveUp(1, first, false); err == nil {
		t.Error("a node gives it up twice")
	}
	if err := h.RankLeft("k0", 2, 2); err != nil { // nobody waits for it
		t.Error(err)
	}
	if done, err := h.Join(2, first, []byte("c")); done != nil || err != nil { // which has crossed the news
		t.Errorf("%v, %v", done, err)
	}
	if tell := giveUp(2, true); tell != nil { // as this has: it is forgotten
		t.Errorf("told of what is over are %d", tell)
	}
	if open, held := h.OpenAndHeld(); open != 0 || held != 0 {
		t.Errorf("%d fences and %d bytes are kept", open, held)
	}
	h.Remove("k0")
	if _, err := h.GiveUp(0, first, false); err == nil {
		t.Error("a fence of no group is given up")
	}
}
