package pmitest

import (
	"context"
	"fmt"
	"sync"

	"remshell/pmiserver/fence"
)

// A Hub is that of mpiexec, for servers in the same process.
type Hub struct {
	*fence.Hub

	// Late tells a node of a fence that another one has given up; nil: none of them does.
	Late func(node int, id fence.ID)

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

// NewHub returns a hub without groups.
func NewHub() *Hub {
	return &Hub{Hub: fence.NewHub(), waits: make(map[fence.ID]*exchange), late: make(map[fence.ID]bool)}
}

// Blocks adds a group of so many ranks on each of some nodes.
func (h *Hub) Blocks(group string, per int, nodes ...int) {
	var home []int
	for _, node := range nodes {
		for range per {
			home = append(home, node)
		}
	}
	h.Add(group, nodes, home)
}

// Join is that of fence.Hub, and lets those go that wait.
func (h *Hub) Join(node int, id fence.ID, blob []byte) (*fence.Exchange, error) {
	done, err := h.Hub.Join(node, id, blob)
	if done != nil {
		h.end(id, done.Blobs, nil)
	}
	return done, err
}

// wait returns an exchange to wait for.
func (h *Hub) wait(id fence.ID) *exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits[id] == nil {
		h.waits[id] = &exchange{over: make(chan struct{})}
	}
	return h.waits[id]
}

func (h *Hub) end(id fence.ID, all [][]byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waits[id]; w != nil {
		w.all, w.err = all, err
		delete(h.waits, id)
		close(w.over)
	}
}

// endAll ends those of some members with an error.
func (h *Hub) endAll(which func(fence.Members) bool, err error) {
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
func (h *Hub) Fail(err error) {
	h.Hub.Fail(err)
	h.endAll(func(fence.Members) bool { return true }, err)
}

// Remove forgets a group that is over, and fails what is left of its fences.
func (h *Hub) Remove(group string) {
	h.Hub.Remove(group)
	h.endAll(func(m fence.Members) bool { return m.Group() == group }, fmt.Errorf("group %s is over", group))
}

// Node returns the hub as one node sees it.
func (h *Hub) Node(i int) fence.Exchanger { return node{h, i} }

type node struct {
	h *Hub
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
	n.h.end(id, nil, fence.ErrLate)
	for _, i := range tell {
		if i != n.i && n.h.Late != nil {
			n.h.Late(i, id)
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
		return nil, fence.ErrLate
	}
	select {
	case <-w.over:
		return w.all, w.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
