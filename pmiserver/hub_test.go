package pmiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
)

// newHub returns a hub for group k0 on nodes from 0.
func newHub(nodes int) *pmiserver.Hub {
	h := pmiserver.NewHub()
	list := make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	h.Add("k0", list)
	return h
}

func TestHubJoin(t *testing.T) {
	h := newHub(3)
	for _, node := range []int{2, 0} {
		if done, err := h.Join(node, "k0/f", []byte{byte('a' + node)}); done != nil || err != nil {
			t.Fatalf("node %d: %v %v", node, done, err)
		}
	}
	for why, join := range map[string]struct {
		node int
		id   string
	}{
		"a node comes twice":              {2, "k0/f"},
		"a node comes that is not in it":  {3, "k0/f"},
		"a group comes that is not there": {1, "k1/f"},
		"a fence comes of no group":       {1, "f"},
	} {
		if _, err := h.Join(join.node, join.id, nil); err == nil {
			t.Error(why)
		}
	}
	done, err := h.Join(1, "k0/f", nil)
	if err != nil || fmt.Sprintf("%d %s", done.Nodes, done.Blobs) != "[0 1 2] [a  c]" {
		t.Errorf("%v %v, want a,,c in the order of nodes", done, err)
	}
	if done, err := h.Join(0, "k0/f", nil); done != nil || err != nil {
		t.Errorf("a second fence of that name: %v %v", done, err)
	}
}

// A fence that would fit into no message ends the job with a word, not its nodes. The bytes
// are those of one slice that nobody touches.
func TestHubJoinOfTooMuch(t *testing.T) {
	h, much := newHub(3), make([]byte, 400<<20)
	for node := range 2 {
		if _, err := h.Join(node, "k0/f", much); err != nil {
			t.Fatalf("node %d: %v", node, err)
		}
	}
	_, err := h.Join(2, "k0/f", much)
	if err == nil || !strings.Contains(err.Error(), "have put 1200 MiB") {
		t.Errorf("got error %v", err)
	}
}

// TestHubJoinOfNothing: most barriers follow no put, and cost no bytes.
func TestHubJoinOfNothing(t *testing.T) {
	h := newHub(2)
	h.Join(0, "k0/f", nil)
	if done, err := h.Join(1, "k0/f", []byte{}); done == nil || done.Blobs != nil || err != nil {
		t.Errorf("%v %v, want no blobs", done, err)
	}
}

// TestHubGroups: groups on some of the nodes meet by themselves, in the order in
// which their nodes were given.
func TestHubGroups(t *testing.T) {
	h := newHub(2)
	h.Add("k1", []int{7, 1})
	h.Join(0, "k0/0", []byte("a"))
	h.Join(1, "k1/0", []byte("b"))
	if done, err := h.Join(7, "k1/0", []byte("c")); err != nil || fmt.Sprintf("%d %s", done.Nodes, done.Blobs) != "[7 1] [c b]" {
		t.Errorf("%v %v", done, err)
	}
	if err := h.Leave("k1", 1, 0); err != nil {
		t.Errorf("one group waits, and one of another leaves: %v", err)
	}
	h.Remove("k0")
	if _, err := h.Join(0, "k0/2", nil); err == nil {
		t.Error("a group comes that is over")
	}
	if err := h.Leave("k0", 0, 0); err != nil {
		t.Errorf("a rank leaves a group that is over: %v", err)
	}
}

func TestHubLeave(t *testing.T) {
	var stuck *pmiserver.StuckError

	h := newHub(2)
	if err := h.Leave("k0", 1, 7); err != nil {
		t.Errorf("nobody waits: %v", err)
	}
	if _, err := h.Join(0, "k0/f", nil); !errors.As(err, &stuck) || stuck.Gone[0] != 7 {
		t.Errorf("one waits for who has left: %v", err)
	}

	h = newHub(2)
	h.Join(0, "k0/f", nil)
	if err := h.Leave("k0", 0, 3); err != nil {
		t.Errorf("who has arrived may leave: %v", err)
	}
	if err := h.Leave("k0", 1, 7); !errors.As(err, &stuck) {
		t.Errorf("one leaves for whom others wait: %v", err)
	}
}

func TestHubFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(3)
		over := errors.New("the job is over")
		got := make(chan error)
		for node := range 2 {
			go func() {
				_, err := h.Node(node).Fence(context.Background(), "k0/f", nil)
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
		if _, err := h.Node(2).Fence(context.Background(), "k0/f", nil); err != over {
			t.Errorf("a later Fence = %v, want %v", err, over)
		}
	})
}

// TestHubRemove: nobody waits for a group that is over.
func TestHubRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(2)
		got := make(chan error)
		go func() {
			_, err := h.Node(0).Fence(context.Background(), "k0/f", nil)
			got <- err
		}()
		synctest.Wait()
		h.Remove("k0")
		if err := <-got; err == nil {
			t.Error("a fence of a group that is over succeeds")
		}
	})
}

// TestFenceFails: a fence that fails releases nobody, and is told once.
func TestFenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(2)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 3, Ranks: []int{0, 1}}, h.Node(0))
		var broken []error
		s.Broken = func(err error) { broken = append(broken, err) }
		var told [2]strings.Builder
		for rank := range told {
			in := "cmd=init pmi_version=1\ncmd=barrier_in\n"
			go s.Serve(t.Context(), rank, &open{script{in: in, out: &told[rank]}, make(chan struct{})})
		}
		synctest.Wait()
		h.Fail(errors.New("node b is lost"))
		synctest.Wait()
		if len(broken) != 1 || !strings.Contains(broken[0].Error(), "node b is lost") {
			t.Errorf("Broken: %v", broken)
		}
		for rank := range told {
			if strings.Contains(told[rank].String(), "barrier_out") {
				t.Errorf("rank %d is released", rank)
			}
		}
	})
}

// TestFenceBringsJunk: what cannot be read releases nobody.
func TestFenceBringsJunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(2)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0}}, h.Node(0))
		var broken error
		s.Broken = func(err error) { broken = err }
		var told strings.Builder
		go s.Serve(t.Context(), 0, &open{script{in: "cmd=init pmi_version=1\ncmd=barrier_in\n", out: &told}, make(chan struct{})})
		synctest.Wait()
		h.Join(1, "k0/0", []byte{200})
		synctest.Wait()
		if broken == nil || strings.Contains(told.String(), "barrier_out") {
			t.Errorf("Broken(%v), told %q", broken, told.String())
		}
	})
}

// An open script does not hang up at its end, until it is closed.
type open struct {
	script
	closed chan struct{}
}

func (o *open) Read(b []byte) (int, error) {
	if o.in == "" {
		<-o.closed
	}
	return o.script.Read(b)
}

func (o *open) Close() error {
	select {
	case <-o.closed:
	default:
		close(o.closed)
	}
	return nil
}
