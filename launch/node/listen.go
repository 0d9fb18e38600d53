package node

import (
	"time"

	"github.com/rs/zerolog"

	"remshell/transport"
	"remshell/wire"
)

// A NodeMessage is a message from a node, for the owner of the inbox.
type NodeMessage struct {
	From    *Node
	Message wire.Message
}

// Disconnected is the event that a node's connection has ended.
type Disconnected struct {
	From *Node
	Err  error
}

// A StreamHandler returns the function that handles the data between a node's ranks and mpiexec. The
// goroutine that reads the node calls take for each message, before it reads the next one. take must not
// block. Messages for which it returns false go to the inbox.
type StreamHandler func(from *Node) (take func(wire.Message) (taken bool))

// A Listener receives the messages of helpers and passes them on.
type Listener struct {
	Inbox         *Inbox
	StreamHandler StreamHandler // nil if no ranks will run
	Log           zerolog.Logger
}

// Listen passes on a helper's messages until its connection or the node's attempt ends (AttemptReady). It
// blocks on nothing but the connection.
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
		if _, ready := m.(*wire.AttemptReady); ready {
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

// recv returns the node's next message. It is nil if the validator drops the message.
func (n *Node) recv() (wire.Message, error) {
	m, err := n.conn.Recv()
	if err != nil {
		return nil, err
	}
	n.lastRecv.Store(int64(time.Since(programStart)))
	return n.validator.CheckMessage(m)
}

// disconnect ends the connection to a node at once (TRUST-2): nothing more is read from it. The helper's
// input ends, so it ends its ranks.
func (l Listener) disconnect(n *Node, why error) {
	l.Inbox.Put(Disconnected{n, why})
	n.endReading(why)
	n.conn.Abandon()
}

// deliverPostponed delivers a message that exceeded its rate limit after one second, if no newer one has
// come by then.
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

// log writes a line of a helper's log into the log of mpiexec.
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
