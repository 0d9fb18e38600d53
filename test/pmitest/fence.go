package pmitest

import (
	"context"
	"fmt"
	"sync"

	"remshell/pmiserver/fence"
)

// A FenceCoordinator is a fence.Coordinator for servers in the same process. Node returns a node's
// Exchanger.
type FenceCoordinator struct {
	*fence.Coordinator

	// ReportGivenUp is called for each node of a fence that another node has given up. If nil, no node
	// may give up a fence.
	ReportGivenUp func(node int, id fence.ID)

	mu    sync.Mutex // guards the fields below
	waits map[fence.ID]*exchange
	late  map[fence.ID]bool
}

// An exchange is the result of a fence that nodes wait for.
type exchange struct {
	over chan struct{} // closed when all or err is set
	all  [][]byte
	err  error
}

// NewFenceCoordinator returns a coordinator without groups.
func NewFenceCoordinator() *FenceCoordinator {
	return &FenceCoordinator{Coordinator: fence.NewCoordinator(), waits: make(map[fence.ID]*exchange), late: make(map[fence.ID]bool)}
}

// AddBlocks adds a group with per ranks on each of the nodes, in this order.
func (h *FenceCoordinator) AddBlocks(group string, per int, nodes ...int) {
	var nodeOf []int
	for _, node := range nodes {
		for range per {
			nodeOf = append(nodeOf, node)
		}
	}
	h.AddGroup(group, nodes, nodeOf)
}

// Join calls fence.Coordinator.Join. If the fence completes, it ends the waiting Exchange calls.
func (h *FenceCoordinator) Join(node int, id fence.ID, blob []byte) (*fence.Completed, error) {
	done, err := h.Coordinator.Join(node, id, blob)
	if done != nil {
		h.end(id, done.Blobs, nil)
	}
	return done, err
}

// wait returns the exchange of a fence, whose end Exchange waits for.
func (h *FenceCoordinator) wait(id fence.ID) *exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits[id] == nil {
		h.waits[id] = &exchange{over: make(chan struct{})}
	}
	return h.waits[id]
}

func (h *FenceCoordinator) end(id fence.ID, all [][]byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waits[id]; w != nil {
		w.all, w.err = all, err
		delete(h.waits, id)
		close(w.over)
	}
}

// endAll ends, with an error, the exchanges for whose members which returns true.
func (h *FenceCoordinator) endAll(which func(fence.Members) bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.waits {
		if which(id.Members) {
			w.err = err
			delete(h.waits, id)
			close(w.over)
		}
	}
}

// Fail makes all fences fail with err, those in progress and all later ones.
func (h *FenceCoordinator) Fail(err error) {
	h.Coordinator.Fail(err)
	h.endAll(func(fence.Members) bool { return true }, err)
}

// Remove removes a group that has ended, and fails its open fences.
func (h *FenceCoordinator) Remove(group string) {
	h.Coordinator.RemoveGroup(group)
	h.endAll(func(m fence.Members) bool { return m.Group() == group }, fmt.Errorf("group %s is over", group))
}

// Node returns the Exchanger through which node i uses the coordinator.
func (h *FenceCoordinator) Node(i int) fence.Exchanger { return node{h, i} }

type node struct {
	h *FenceCoordinator
	i int
}

// GiveUp ends a fence, and notifies the other nodes.
func (n node) GiveUp(id fence.ID, exchanging bool) {
	notify, err := n.h.GiveUp(n.i, id, exchanging)
	if err != nil || notify == nil {
		return
	}
	n.h.mu.Lock()
	n.h.late[id] = true
	n.h.mu.Unlock()
	n.h.end(id, nil, fence.ErrGivenUp)
	for _, i := range notify {
		if i != n.i && n.h.ReportGivenUp != nil {
			n.h.ReportGivenUp(i, id)
		}
	}
}

// Exchange joins the fence and waits for its result.
func (n node) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	w := n.h.wait(id)
	if _, err := n.h.Join(n.i, id, mine); err != nil {
		return nil, err
	}
	n.h.mu.Lock()
	late := n.h.late[id]
	n.h.mu.Unlock()
	if late {
		return nil, fence.ErrGivenUp
	}
	select {
	case <-w.over:
		return w.all, w.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
