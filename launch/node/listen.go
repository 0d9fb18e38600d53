package node

import (
	"time"

	"github.com/rs/zerolog"

	"remshell/transport"
	"remshell/wire"
)

// A NodeMessage is an event that reports a message from a node.
type NodeMessage struct {
	From    *Node
	Message wire.Message
}

// Disconnected is an event that reports the end of a node's connection.
type Disconnected struct {
	From *Node
	Err  error
}

// A StreamHandler returns a function that handles the messages about the standard streams of a node's ranks.
// That function is called for each message, by the goroutine that reads the connection, and must not block.
// If it returns false, the message is put into the inbox.
type StreamHandler func(n *Node) (handle func(wire.Message) (taken bool))

// A Listener reads the messages of helpers and passes each to a StreamHandler or puts it into the inbox.
type Listener struct {
	Inbox         *Inbox
	StreamHandler StreamHandler // nil if no ranks will run
	Log           zerolog.Logger
}

// Listen reads a helper's messages until the connection ends or AttemptReady arrives. Later messages belong to
// the next attempt (one run of all ranks). It blocks only when it reads from the connection.
func (l Listener) Listen(n *Node) {
	defer func() {
		if why := recover(); why != nil {
			crash := transport.NewPanicError(why)
			logPanic(l.Log, n.Name(), crash)
			l.disconnect(n, crash)
		}
	}()
	if err := n.waitForPredecessor(); err != nil {
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

func (l Listener) dispatch(n *Node, m wire.Message, handle func(wire.Message) bool) {
	switch m := m.(type) {
	case nil:
		l.deliverPostponed(n)
	case *wire.Ping:
	case *wire.Log:
		l.log(n, m)
	default:
		if !handle(m) {
			l.Inbox.Put(NodeMessage{n, m})
		}
	}
}

// recv returns the node's next message. It returns nil for a message that must be ignored.
func (n *Node) recv() (wire.Message, error) {
	m, err := n.conn.Recv()
	if err != nil {
		return nil, err
	}
	n.lastRecv.Store(int64(time.Since(programStart)))
	return n.validator.CheckMessage(m)
}

// disconnect closes the connection to a node at once (rule TRUST-2). The helper then reads end of file and
// ends its ranks. cause is the reason.
func (l Listener) disconnect(n *Node, cause error) {
	l.Inbox.Put(Disconnected{n, cause})
	n.endReading(cause)
	n.conn.Abandon()
}

// deliverPostponed starts a timer for messages that have exceeded their rate limit. After one second it
// delivers each of these messages, unless a newer message has replaced it.
func (l Listener) deliverPostponed(n *Node) {
	if !n.validator.mustStartTimer() {
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
		l.Log.Warn().Str("node", n.Name()).Msgf("%d more lines of the log of mpiexec on this host are not shown", missed)
	}
	line := l.Log.Info()
	if m.Warning {
		line = l.Log.Warn()
	}
	line.Str("node", n.Name()).Msg(m.Text)
}
