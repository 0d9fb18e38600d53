package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/fence"
	"remshell/test/pmitest"
)

// newCoordinator returns a coordinator for group k0, with one rank on each node from 0.
func newCoordinator(nodes int) *pmitest.FenceCoordinator {
	h, list := pmitest.NewFenceCoordinator(), make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	h.AddBlocks("k0", 1, list...)
	return h
}

// first and third are fences of group k0.
var first, third = fence.ID{Members: "k0"}, fence.ID{Members: "k0", Number: 2}

func TestCoordinatorJoin(t *testing.T) {
	h := newCoordinator(3)
	for _, node := range []int{2, 0} {
		if done, err := h.Join(node, first, []byte{byte('a' + node)}); done != nil || err != nil {
			t.Fatalf("node %d: %v %v", node, done, err)
		}
	}
	for why, join := range map[string]struct {
		node int
		id   fence.ID
	}{
		"a node comes twice":              {2, first},
		"a node comes that is not in it":  {3, first},
		"a group comes that is not there": {1, fence.ID{Members: "k1"}},
		"a fence comes of no group":       {1, fence.ID{}},
	} {
		if _, err := h.Join(join.node, join.id, nil); err == nil {
			t.Error(why)
		}
	}
	done, err := h.Join(1, first, nil)
	if err != nil || fmt.Sprintf("%d %s", done.Nodes, done.Blobs) != "[0 1 2] [a  c]" {
		t.Errorf("%v %v, want a,,c in the order of nodes", done, err)
	}
	if done, err := h.Join(0, first, nil); done != nil || err != nil {
		t.Errorf("a second fence of that name: %v %v", done, err)
	}
}

// A fence that exceeds the size of a message ends the job with an error, and does not break nodes. All
// blobs share one slice, whose memory is never touched.
func TestCoordinatorJoinOfTooMuch(t *testing.T) {
	h, much := newCoordinator(3), make([]byte, 400<<20)
	for node := range 2 {
		if _, err := h.Join(node, first, much); err != nil {
			t.Fatalf("node %d: %v", node, err)
		}
	}
	_, err := h.Join(2, first, much)
	if err == nil || !strings.Contains(err.Error(), "have published 1200 MiB") {
		t.Errorf("got error %v", err)
	}
}

// The open fences together are limited. They free memory when they complete or their group ends. All
// blobs share one slice, whose memory is never touched.
func TestCoordinatorJoinOfManyFences(t *testing.T) {
	much := make([]byte, 300<<20)
	id := func(number int) fence.ID {
		return fence.ID{Kind: fence.PMIxFence, Members: "k0", Number: number}
	}
	open := func(h *pmitest.FenceCoordinator, numbers ...int) {
		t.Helper()
		for _, n := range numbers {
			if _, err := h.Join(0, id(n), much); err != nil {
				t.Fatalf("fence %d: %v", n, err)
			}
		}
	}
	for why, makeRoom := range map[string]func(h *pmitest.FenceCoordinator){
		"one is complete":   func(h *pmitest.FenceCoordinator) { h.Join(1, id(0), much[:1]) },
		"the group is over": func(h *pmitest.FenceCoordinator) { h.Remove("k0"); h.AddBlocks("k0", 1, 0, 1) },
	} {
		h := newCoordinator(2)
		open(h, 0, 1, 2)
		makeRoom(h)
		open(h, 3)
		if why == "the group is over" {
			open(h, 4, 5)
		}
		if _, err := h.Join(0, id(9), much); err == nil || !strings.Contains(err.Error(), "exceed 1024 MiB") {
			t.Errorf("%s: a fourth one waits: %v", why, err)
		}
	}
}

// The bookkeeping of a fence counts, even if no node brings any bytes.
func TestCoordinatorJoinOfLongNames(t *testing.T) {
	h := pmitest.NewFenceCoordinator()
	home := make([]int, 1<<17)
	home[len(home)-1] = 1
	h.AddGroup("k0", []int{0, 1}, home)
	var ranks []string
	for rank := 1; rank < len(home); rank += 2 {
		ranks = append(ranks, fmt.Sprint(rank))
	}
	members := fence.Members("k0[" + strings.Join(ranks, ",") + "]")
	h.Join(0, first, make([]byte, 1<<30-1<<24)) // the memory is never touched
	for n := range 20 {
		if _, err := h.Join(0, fence.ID{Kind: fence.PMIxFence, Members: members, Number: n}, nil); err != nil {
			return
		}
	}
	t.Errorf("20 fences with names of %d bytes fit into 16 MiB", len(members))
}

// Most barriers follow no put, and cost no bytes.
func TestCoordinatorJoinOfNothing(t *testing.T) {
	h := newCoordinator(2)
	h.Join(0, first, nil)
	if done, err := h.Join(1, first, []byte{}); done == nil || done.Blobs != nil || err != nil {
		t.Errorf("%v %v, want no blobs", done, err)
	}
}

// Groups on some of the nodes have their own fences. Blobs come in the order of AddGroup's nodes.
func TestCoordinatorGroups(t *testing.T) {
	h := newCoordinator(2)
	h.AddBlocks("k1", 1, 7, 1)
	h.Join(0, first, []byte("a"))
	h.Join(1, fence.ID{Members: "k1"}, []byte("b"))
	if done, err := h.Join(7, fence.ID{Members: "k1"}, []byte("c")); err != nil || fmt.Sprintf("%d %s", done.Nodes, done.Blobs) != "[7 1] [c b]" {
		t.Errorf("%v %v", done, err)
	}
	if err := h.RankLeft("k1", 1, 0); err != nil {
		t.Errorf("one group waits, and one of another leaves: %v", err)
	}
	h.Remove("k0")
	if _, err := h.Join(0, third, nil); err == nil {
		t.Error("a group comes that is over")
	}
	if err := h.RankLeft("k0", 0, 0); err != nil {
		t.Errorf("a rank leaves a group that is over: %v", err)
	}
}

func TestCoordinatorLeave(t *testing.T) {
	var stuck *fence.StuckError

	h := newCoordinator(2)
	if err := h.RankLeft("k0", 1, 7); err != nil {
		t.Errorf("nobody waits: %v", err)
	}
	if _, err := h.Join(0, first, nil); !errors.As(err, &stuck) || stuck.Gone[0] != (fence.Rank{Group: "k0", Number: 7}) {
		t.Errorf("one waits for who has left: %v", err)
	}

	h = newCoordinator(2)
	h.Join(0, first, nil)
	if err := h.RankLeft("k0", 0, 3); err != nil {
		t.Errorf("who has arrived may leave: %v", err)
	}
	if err := h.RankLeft("k0", 1, 7); !errors.As(err, &stuck) {
		t.Errorf("one leaves for whom others wait: %v", err)
	}
}

func TestCoordinatorFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCoordinator(3)
		over := errors.New("the job is over")
		got := make(chan error)
		for node := range 2 {
			go func() {
				_, err := h.Node(node).Exchange(context.Background(), first, nil)
				got <- err
			}()
		}
		synctest.Wait()
		h.Fail(over)
		h.Fail(errors.New("later"))
		for range 2 {
			if err := <-got; err != over {
				t.Errorf("Fence = %v, want %v", err, over)
			}
		}
		if _, err := h.Node(2).Exchange(context.Background(), first, nil); err != over {
			t.Errorf("a later Fence = %v, want %v", err, over)
		}
	})
}

// No node waits for a group that has ended.
func TestCoordinatorRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCoordinator(2)
		got := make(chan error)
		go func() {
			_, err := h.Node(0).Exchange(context.Background(), first, nil)
			got <- err
		}()
		synctest.Wait()
		h.Remove("k0")
		if err := <-got; err == nil {
			t.Error("a fence of a group that is over succeeds")
		}
	})
}

// Fences of ranks on some of the nodes, also of several groups. Each group has two ranks on a node.
func TestCoordinatorSomeRanks(t *testing.T) {
	h := pmitest.NewFenceCoordinator()
	h.AddGroup("k0", []int{0, 1, 2, 3}, []int{0, 1, 2, 3, 0, 1, 2, 3})
	h.AddGroup("k1", []int{9, 2}, []int{2, 9, 2, 9})
	for text, want := range map[string][]int{
		"k0/0":             {0, 1, 2, 3},
		"k0[0,4]/0":        {0},
		"k0[1-2,7]/0":      {1, 2, 3},
		"k0[6-7],k1/0":     {2, 3, 9},
		"k0[0],k1[1]/0":    {0, 9},
		"k0[3],k1[0-1]/44": {3, 9, 2},
		"k0,k1[1]/0":       {0, 1, 2, 3, 9},
	} {
		id, err := fence.ParseID(text)
		if err != nil {
			t.Fatal(text, err)
		}
		var all *fence.Completed
		for _, node := range []int{9, 3, 1, 0, 2} {
			done, err := h.Join(node, id, []byte{byte(node)})
			if joins := slices.Contains(want, node); joins == (err != nil) {
				t.Errorf("%s: node %d: %v", text, node, err)
			}
			if done != nil {
				all = done
			}
		}
		if all == nil || !slices.Equal(all.Nodes, want) {
			t.Errorf("%s: %v, want nodes %v", text, all, want)
			continue
		}
		for i, node := range all.Nodes {
			if !slices.Equal(all.Blobs[i], []byte{byte(node)}) {
				t.Errorf("%s: node %d brought %v", text, node, all.Blobs[i])
			}
		}
	}
	for text, want := range map[string]string{
		"k0[0-8]/0":  "fence k0[0-8]/0: the fence names rank 8, which group k0 does not have",
		"k0[0],k2/0": "fence k0[0],k2/0: the fence names a group of ranks that does not exist",
	} {
		id, err := fence.ParseID(text)
		if err == nil {
			_, err = h.Join(0, id, nil)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A rank that is not a member may leave.
func TestCoordinatorLeaveOfSomeRanks(t *testing.T) {
	h := pmitest.NewFenceCoordinator()
	h.AddGroup("k0", []int{0, 1}, []int{0, 1, 1})
	h.Join(0, fence.ID{Members: "k0[0-1]"}, nil)
	if err := h.RankLeft("k0", 1, 2); err != nil {
		t.Errorf("rank 2 leaves, for which nobody waits: %v", err)
	}
	var stuck *fence.StuckError
	if err := h.RankLeft("k0", 1, 1); !errors.As(err, &stuck) || !slices.Equal(stuck.Gone, []fence.Rank{{Group: "k0", Number: 1}}) || !slices.Equal(stuck.Waiting, []fence.Rank{{Group: "k0"}}) {
		t.Errorf("rank 1 leaves, for which others wait: %v", err)
	}
}
