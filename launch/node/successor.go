package node

import (
	"sync"

	"remshell/wire"
)

/*
A job that is started again keeps the helpers of nodes that live (survive.md SV-2). To each attempt
such a helper is another Node, of whom nothing that was said before is known:

	Node of attempt 0 --Renew--> Node of attempt 1
	  Listen hears what is           Listen waits until
	  still under way, until         that is over
	  Renewed          '--------------^

So what is late of an attempt that is over can do nothing to the next, whoever still has its Nodes.
*/
type predecessor struct {
	ready chan error // says that the one before has heard Renewed, or why it will not; nil: there was none

	mu     sync.Mutex // guards the rest
	next   *Node      // nil: there is none yet
	ended  bool       // nothing more is heard
	endErr error      // why, if not by Renewed
}

// Successor ends the conversation of an attempt whose helper has said Drained, and returns the Node that
// the helper is to the next attempt. n says nothing more, and no longer closes the connection.
func (n *Node) Successor() *Node {
	next := &Node{Def: n.Def, Probe: n.Probe, stream: n.stream, validator: n.validator.forNextAttempt(), predecessor: predecessor{ready: make(chan error, 1)}}
	next.heard.Store(n.heard.Load())
	n.Send(&wire.NextAttempt{})
	next.conn = n.conn.Successor()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next = next
	if n.ended {
		next.ready <- n.endErr
	}
	return next
}

// endReading notes that nothing more is heard of a node: its connection has ended, or, with nil, the
// conversation of the next attempt begins.
func (n *Node) endReading(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	n.ended, n.endErr = true, why
	if n.next != nil {
		n.next.ready <- why
	}
}

// waitForTurn waits until the node may be listened to.
func (n *Node) waitForTurn() error {
	if n.ready == nil {
		return nil
	}
	return <-n.ready
}
