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

// newCoordinator returns a coordinator for group k0, on nodes with per ranks each.
func newCoordinator(nodes, per int) *pmitest.FenceCoordinator {
	h, list := pmitest.NewFenceCoordinator(), make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	h.AddBlocks("k0", per, list...)
	return h
}

// A failed fence releases no rank, and is reported once.
func TestFenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCoordinator(2, 2)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 3, Ranks: []int{0, 1}}, h.Node(0))
		var broken []error
		s.Broken = func(err error) { broken = append(broken, err) }
		var replies [2]strings.Builder
		for rank := range replies {
			in := "cmd=init pmi_version=1\ncmd=barrier_in\n"
			go s.Serve(t.Context(), rank, &blockingConn{script{in: in, out: &replies[rank]}, make(chan struct{})})
		}
		synctest.Wait()
		h.Fail(errors.New("node b is lost"))
		synctest.Wait()
		if len(broken) != 1 || !strings.Contains(broken[0].Error(), "node b is lost") {
			t.Errorf("Broken: %v", broken)
		}
		for rank := range replies {
			if strings.Contains(replies[rank].String(), "barrier_out") {
				t.Errorf("rank %d is released", rank)
			}
		}
	})
}

// Malformed blobs release no rank.
func TestMalformedFenceBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCoordinator(2, 1)
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 2, Ranks: []int{0}}, h.Node(0))
		var broken error
		s.Broken = func(err error) { broken = err }
		var replies strings.Builder
		go s.Serve(t.Context(), 0, &blockingConn{script{in: "cmd=init pmi_version=1\ncmd=barrier_in\n", out: &replies}, make(chan struct{})})
		synctest.Wait()
		h.Join(1, fence.ID{Members: "k0"}, []byte{200})
		synctest.Wait()
		if broken == nil || strings.Contains(replies.String(), "barrier_out") {
			t.Errorf("Broken(%v), replies %q", broken, replies.String())
		}
	})
}

// A blockingConn is a script that does not end after its input, until it is closed.
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
