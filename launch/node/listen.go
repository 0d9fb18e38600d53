package node

import (
	"time"

	"github.com/rs/zerolog"

	"remshell/transport"
	"remshell/wire"
)

// A NodeMessage is what a node says and somebody has to judge.
type NodeMessage struct {
	From    *Node
	Message wire.Message
}

// Disconnected is the end of a node's connection.
type Disconnected struct {
	From *Node
	Err  error
}

// StreamHandler take what flows between the ranks of a node and us. Take is called by the goroutine
// that reads the node, before anything that comes behind the message, and must not wait; what
// it does not take goes to the inbox.
type StreamHandler func(from *Node) (take func(wire.Message) (taken bool))

// A Listener is where all that helpers say goes.
type Listener struct {
	Inbox         *Inbox
	StreamHandler StreamHandler // nil: no ranks will run
	Log           zerolog.Logger
}

// Listen sorts what a helper says until its connection ends, or the conversation that the node is
// of (Renew). It never waits for anybody but the connection.
func (l Listener) Listen(n *Node) {
	defer func() {
		if why := recover(); why != nil {
			crash := transport.NewPanicError(why)
			logPanic(l.Log, n.Name(), crash)
			l.disconnect(n, crash)
		}
	}()
	if err := n.waitForTurn(); err != nil {
		l.disconnect(n, err)
		return
	}
	take := func(wire.Message) bool { return false }
	if l.StreamHandler != nil {
		take = l.StreamHandler(n)
	}
	for {
		m, err := n.recv()
		switch {
		case IsViolation(err):
			l.disconnect(n, err)
			return
		case err != nil:
			why := n.withReason(err)
			l.Inbox.Put(Disconnected{n, why})
			n.endReading(why)
			return
		}
		if _, renewed := m.(*wire.AttemptReady); renewed {
			n.endReading(nil)
			return
		}
		l.dispatch(n, m, take)
	}
}

func (l Listener) dispatch(n *Node, m wire.Message, take func(wire.Message) bool) {
	switch m := m.(type) {
	case nil:
		l.deliverPostponed(n)
	case *wire.Ping:
	case *wire.Log:
		l.log(n, m)
	default:
		if !take(m) {
			l.Inbox.Put(NodeMessage{n, m})
		}
	}
}

// recv is the next message of a node that its validator lets through; nil if it does not.
func (n *Node) recv() (wire.Message, error) {
	m, err := n.conn.Recv()
	if err != nil {
		return nil, err
	}
	n.heard.Store(int64(time.Since(programStart)))
	return n.validator.checkMessage(m)
}

// disconnect ends the connection to a node at once (TRUST-2): nothing more of what it says is read,
// and its helper ends its ranks, since its input ends.
func (l Listener) disconnect(n *Node, why error) {
	l.Inbox.Put(Disconnected{n, why})
	n.endReading(why)
	n.conn.Abandon()
}

// deliverPostponed hears in a second what a node says too often, if nothing newer has come by then.
func (l Listener) deliverPostponed(n *Node) {
	if !n.validator.keepForLater() {
		return
	}
	time.AfterFunc(time.Second, func() {
		for _, m := range n.validator.takePostponed() {
			l.Inbox.Put(NodeMessage{n, m})
		}
	})
}

// log writes a line of a helper's log into ours.
func (l Listener) log(n *Node, m *wire.Log) {
	if missed := n.validator.takeDroppedLogs(); missed > 0 {
		l.Log.Warn().Str("node", n.Name()).Msgf("%d more lines of the helper's log are not shown", missed)
	}
	line := l.Log.Info()
	if m.Warning {
		line = l.Log.Warn()
	}
	line.Str("node", n.Name()).Msg(m.Text)
}
