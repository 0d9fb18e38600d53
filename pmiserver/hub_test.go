package pmiserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
)

func TestHubJoin(t *testing.T) {
	h := pmiserver.NewHub(3)
	for _, node := range []int{2, 0} {
		if all, complete, err := h.Join(node, "f", []byte{byte('a' + node)}); all != nil || complete || err != nil {
			t.Fatalf("node %d: %q %v %v", node, all, complete, err)
		}
	}
	if _, _, err := h.Join(2, "f", nil); err == nil {
		t.Error("a node comes twice")
	}
	if _, _, err := h.Join(3, "f", nil); err == nil {
		t.Error("a node comes that does not exist")
	}
	all, complete, err := h.Join(1, "f", nil)
	if got := string(all[0]) + "," + string(all[1]) + "," + string(all[2]); got != "a,,c" || !complete || err != nil {
		t.Errorf("%s %v %v, want a,,c in the order of nodes", got, complete, err)
	}
	if _, complete, err := h.Join(0, "f", nil); complete || err != nil {
		t.Errorf("a second fence of that name: %v %v", complete, err)
	}
}

// TestHubJoinOfNothing: most barriers follow no put, and cost no bytes.
func TestHubJoinOfNothing(t *testing.T) {
	h := pmiserver.NewHub(2)
	h.Join(0, "f", nil)
	if all, complete, err := h.Join(1, "f", []byte{}); all != nil || !complete || err != nil {
		t.Errorf("%q %v %v, want no blobs", all, complete, err)
	}
}

func TestHubLeave(t *testing.T) {
	var stuck *pmiserver.StuckError

	h := pmiserver.NewHub(2)
	if err := h.Leave(1, 7); err != nil {
		t.Errorf("nobody waits: %v", err)
	}
	if _, _, err := h.Join(0, "f", nil); !errors.As(err, &stuck) || stuck.Gone[0] != 7 {
		t.Errorf("one waits for who has left: %v", err)
	}

	h = pmiserver.NewHub(2)
	h.Join(0, "f", nil)
	if err := h.Leave(0, 3); err != nil {
		t.Errorf("who has arrived may leave: %v", err)
	}
	if err := h.Leave(1, 7); !errors.As(err, &stuck) {
		t.Errorf("one leaves for whom others wait: %v", err)
	}
}

func TestHubFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pmiserver.NewHub(3)
		over := errors.New("the job is over")
		got := make(chan error)
		for node := range 2 {
			go func() {
				_, err := h.Node(node).Fence(context.Background(), "f", nil)
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
		if _, err := h.Node(2).Fence(context.Background(), "f", nil); err != over {
			t.Errorf("a later Fence = %v, want %v", err, over)
		}
	})
}

// TestFenceFails: a fence that fails releases nobody, and is told once.
func TestFenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pmiserver.NewHub(2)
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
		h := pmiserver.NewHub(2)
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
