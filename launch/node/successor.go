package node

import (
	"sync"

	"remshell/wire"
)

/*
A predecessor is the Node through which the previous attempt used the same helper. A restarted job keeps the helpers of
nodes that still work (survive.md SV-2). Each attempt has its own Node for such a helper, with a new validator:

	Node of attempt 0 --NextAttempt--> Node of attempt 1
	  Listen receives late           Listen waits until
	  messages, until                that is over
	  AttemptReady      '-------------^

So late messages of an attempt cannot affect the next one, even if a goroutine still has the old Node.
*/
type predecessor struct {
	ready chan error // receives nil once the Node before has received AttemptReady, or the error that prevents it; nil for a first attempt

	mu     sync.Mutex // guards the rest
	next   *Node      // nil if there is none yet
	ended  bool       // nothing more is read
	endErr error      // why; nil after AttemptReady
}

// Successor returns the Node through which the next attempt (one run of all ranks) uses the same helper. The helper
// must have sent Drained. From now on n sends nothing, and closing n does not close the connection.
func (n *Node) Successor() *Node {
	next := &Node{Def: n.Def, Probe: n.Probe, stream: n.stream, validator: n.validator.forNextAttempt(), predecessor: predecessor{ready: make(chan error, 1)}}
	next.lastRecv.Store(n.lastRecv.Load())
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

// endReading records that nothing more is read for this Node. cause is the error that ended the connection. It is nil
// if the next attempt's Node continues reading.
func (n *Node) endReading(cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	n.ended, n.endErr = true, cause
	if n.next != nil {
		n.next.ready <- cause
	}
}

// waitForPredecessor waits until all messages for the previous attempt's Node have been read.
func (n *Node) waitForPredecessor() error {
	if n.ready == nil {
		return nil
	}
	return <-n.ready
}
