package pmitest

import (
	"context"
	"fmt"
	"sync"

	"remshell/pmiserver/fence"
)

// A FenceCoordinator is that of mpiexec, for servers in the same process.
type FenceCoordinator struct {
	*fence.Coordinator

	// ReportGivenUp tells a node of a fence that another one has given up; nil: none of them does.
	ReportGivenUp func(node int, id fence.ID)

	mu    sync.Mutex // guards what follows
	waits map[fence.ID]*exchange
	late  map[fence.ID]bool
}

// An exchange is one that nodes wait for.
type exchange struct {
	over chan struct{} // closed when all or err is set
	all  [][]byte
	err  error
}

// NewFenceCoordinator returns a hub without groups.
func NewFenceCoordinator() *FenceCoordinator {
	return &FenceCoordinator{Coordinator: fence.NewCoordinator(), waits: make(map[fence.ID]*exchange), late: make(map[fence.ID]bool)}
}

// AddBlocks adds a group of so many ranks on each of some nodes.
func (h *FenceCoordinator) AddBlocks(group string, per int, nodes ...int) {
	var home []int
	for _, node := range nodes {
		for range per {
			home = append(home, node)
		}
	}
	h.AddGroup(group, nodes, home)
}

// Join is that of fence.Coordinator, and lets those go that wait.
func (h *FenceCoordinator) Join(node int, id fence.ID, blob []byte) (*fence.Completed, error) {
	done, err := h.Coordinator.Join(node, id, blob)
	if done != nil {
		h.end(id, done.Blobs, nil)
	}
	return done, err
}

// wait returns an exchange to wait for.
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

// endAll ends those of some members with an error.
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

// Fail ends all fences, those under way and those to come, with an error.
func (h *FenceCoordinator) Fail(err error) {
	h.Coordinator.Fail(err)
	h.endAll(func(fence.Members) bool { return true }, err)
}

// Remove forgets a group that is over, and fails what is left of its fences.
func (h *FenceCoordinator) Remove(group string) {
	h.Coordinator.RemoveGroup(group)
	h.endAll(func(m fence.Members) bool { return m.Group() == group }, fmt.Errorf("group %s is over", group))
}

// Node returns the hub as one node sees it.
func (h *FenceCoordinator) Node(i int) fence.Exchanger { return node{h, i} }

type node struct {
	h *FenceCoordinator
	i int
}

// GiveUp ends a fence, and tells the other nodes.
func (n node) GiveUp(id fence.ID, exchanging bool) {
	tell, err := n.h.GiveUp(n.i, id, exchanging)
	if err != nil || tell == nil {
		return
	}
	n.h.mu.Lock()
	n.h.late[id] = true
	n.h.mu.Unlock()
	n.h.end(id, nil, fence.ErrGivenUp)
	for _, i := range tell {
		if i != n.i && n.h.ReportGivenUp != nil {
			n.h.ReportGivenUp(i, id)
		}
	}
}

// Exchange joins and waits.
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
