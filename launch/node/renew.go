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
type succession struct {
	turn chan error // says that the one before has heard Renewed, or why it will not; nil: there was none

	heir sync.Mutex // guards the rest
	next *Node      // nil: there is none yet
	done bool       // nothing more is heard
	end  error      // why, if not by Renewed
}

// Renew ends the conversation of an attempt whose helper has said Drained, and returns the Node that
// the helper is to the next attempt. n says nothing more, and no longer closes the connection.
func (n *Node) Renew() *Node {
	next := &Node{Def: n.Def, Probe: n.Probe, stream: n.stream, validator: n.validator.renew(), succession: succession{turn: make(chan error, 1)}}
	next.heard.Store(n.heard.Load())
	n.Send(&wire.Renew{})
	next.conn = n.conn.Renew()
	n.heir.Lock()
	defer n.heir.Unlock()
	n.next = next
	if n.done {
		next.turn <- n.end
	}
	return next
}

// ended notes that nothing more is heard of a node: its connection has ended, or, with nil, the
// conversation of the next attempt begins.
func (n *Node) ended(why error) {
	n.heir.Lock()
	defer n.heir.Unlock()
	if n.done {
		return
	}
	n.done, n.end = true, why
	if n.next != nil {
		n.next.turn <- why
	}
}

// await waits until the node may be listened to.
func (n *Node) await() error {
	if n.turn == nil {
		return nil
	}
	return <-n.turn
}
