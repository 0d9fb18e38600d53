package pmiserver_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/test/pmitest"
)

// newCoordinator returns a hub for group k0 of so many ranks on each of so many nodes.
func newCoordinator(nodes, per int) *pmitest.FenceCoordinator {
	h, list := pmitest.NewFenceCoordinator(), make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	h.AddBlocks("k0", per, list...)
	return h
}

// TestFenceFails: a fence that fails releases nobody, and is told once.
func TestFenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCoordinator(2, 2)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 3, Ranks: []int{0, 1}}, h.Node(0))
		var broken []error
		s.Broken = func(err error) { broken = append(broken, err) }
		var told [2]strings.Builder
		for rank := range told {
			in := "cmd=init pmi_version=1\ncmd=barrier_in\n"
			go s.Serve(t.Context(), rank, &blockingConn{script{in: in, out: &told[rank]}, make(chan struct{})})
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
		h := newCoordinator(2, 1)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0}}, h.Node(0))
		var broken error
		s.Broken = func(err error) { broken = err }
		var told strings.Builder
		go s.Serve(t.Context(), 0, &blockingConn{script{in: "cmd=init pmi_version=1\ncmd=barrier_in\n", out: &told}, make(chan struct{})})
		synctest.Wait()
		h.Join(1, fence.ID{Members: "k0"}, []byte{200})
		synctest.Wait()
		if broken == nil || strings.Contains(told.String(), "barrier_out") {
			t.Errorf("Broken(%v), told %q", broken, told.String())
		}
	})
}

// A blockingConn script does not hang up at its end, until it is closed.
type blockingConn struct {
	script
	closed chan struct{}
}

func (o *blockingConn) Read(b []byte) (int, error) {
	if o.in == "" {
		<-o.closed
	}
	return o.script.Read(b)
}

func (o *blockingConn) Close() error {
	select {
	case <-o.closed:
	default:
		close(o.closed)
	}
	return nil
}
