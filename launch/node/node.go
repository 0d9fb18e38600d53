/*
Package node is one helper, as mpiexec sees it: the connection to it, and the validator that all
it says has to pass.

	Connector.Connect --> Node -- Send ---> helper
	                        |
	                     Listen <---------- helper   one goroutine for each node
	                        |
	                        +--> Streams   output, credit for input: at once, in their order
	                        '--> Inbox     everything else, as a Message; at the end Disconnected

A Node belongs to nobody: a reservation, another one and the job that runs may hold the same
one. So nothing of it changes but what its validator and its connection guard themselves. What is
found out about it later, and its place in a plan, is known by who asks.
*/
package node

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"remshell/job"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// A Node is one helper.
type Node struct {
	Def   job.NodeDef // as it was when it was connected
	Probe job.Probe   // that its helper found then

	stream    io.ReadWriteCloser
	conn      *wire.Conn
	validator *validator
	heard     atomic.Int64 // when something last came, in nanoseconds after epoch
	predecessor
}

// Name is what the user calls it.
func (n *Node) Name() string { return n.Def.Name }

// programStart is when this program began.
var programStart = time.Now()

// LastHeard is when the helper last said anything, or this program began. Any goroutine may ask.
func (n *Node) LastHeard() time.Time { return programStart.Add(time.Duration(n.heard.Load())) }

// Send says something to the helper. The error is that of wire.Conn.Send.
func (n *Node) Send(m wire.Message) error {
	n.validator.noteSent(m)
	return n.conn.Send(m)
}

// SendFenced sends the answer to a fence, which is encoded once for all.
func (n *Node) SendFenced(id fence.ID, frame wire.Frame) {
	n.validator.noteFenceResultSent(id)
	n.conn.SendFrame(frame)
}

// SendNotice sends an event of another node, which is encoded once for all, and has no answer.
func (n *Node) SendNotice(frame wire.Frame) { n.conn.SendFrame(frame) }

// SendPiece sends a piece of a parcel, so many bytes, which is encoded once for all.
func (n *Node) SendPiece(bytes int, frame wire.Frame) {
	n.validator.noteChunkSent(bytes)
	n.conn.SendFrame(frame)
}

// StopWaitingFor notes that nobody waits for the answer to a question any more.
func (n *Node) StopWaitingFor(question wire.Message) { n.validator.stopWaitingFor(question) }

// ShiftDeadlines notes that we were stopped for a while: what the helper may be late with is no later
// for that.
func (n *Node) ShiftDeadlines(by time.Duration) { n.validator.shiftTimes(by) }

// Backlog is how many bytes were sent and are not written.
func (n *Node) Backlog() int { return n.conn.Backlog() }

// InProcess reports whether the helper is inside of this process.
func (n *Node) InProcess() bool { return n.conn.InProcess() }

// Flush waits until what was sent has been written.
func (n *Node) Flush() { n.conn.Flush() }

// Close ends the connection when what was sent has been written. A helper that is still at
// work takes it as the end of its job.
func (n *Node) Close() { n.conn.Close() }

// Abandon ends the connection at once.
func (n *Node) Abandon() { n.conn.Abandon() }

// The rest is what the stream to a helper knows, which depends on the way there.

// Noise is what a login shell printed before the helper spoke.
func (n *Node) Noise() []byte {
	if s, ok := n.stream.(interface{ Noise() []byte }); ok {
		return s.Noise()
	}
	return nil
}

// Sent is how many bytes of our program were sent there to be the helper; 0: none.
func (n *Node) Sent() int64 {
	if s, ok := n.stream.(interface{ Sent() int64 }); ok {
		return s.Sent()
	}
	return 0
}

// Login is how long the login took; 0: unknown.
func (n *Node) Login() time.Duration {
	if s, ok := n.stream.(interface{ Login() time.Duration }); ok {
		return s.Login()
	}
	return 0
}

// Shell is how long the login shell took from the login until it had run /bin/sh, or from the start if that is not known; 0:
// there is no login shell.
func (n *Node) Shell() time.Duration {
	if s, ok := n.stream.(interface{ Shell() time.Duration }); ok {
		return s.Shell()
	}
	return 0
}

// Silence is how long the link to a node may be dead before its helper ends the job there:
// as long as the link's own keep-alives allow, if it knows. On this machine there is no link,
// and what the helper would look at is that of the user's login.
func (n *Node) Silence(otherwise time.Duration) time.Duration {
	if n.Def.Local {
		return 0
	}
	if s, ok := n.stream.(interface{ Silence() time.Duration }); ok && s.Silence() > 0 {
		return s.Silence()
	}
	return otherwise
}

// LocalIP is our own address on the connection; nil: it is no TCP of ours.
func (n *Node) LocalIP() net.IP {
	if s, ok := n.stream.(interface{ LocalAddr() net.Addr }); ok {
		if tcp, ok := s.LocalAddr().(*net.TCPAddr); ok {
			return tcp.IP
		}
	}
	return nil
}

// withReason adds to an error of the connection what the stream knows of its end.
func (n *Node) withReason(err error) error {
	if s, ok := n.stream.(interface{ Why() string }); ok {
		if reason := s.Why(); reason != "" {
			return errors.New(reason)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errClosed
	}
	return err
}

// errClosed is all that is known of a helper whose output has ended.
var errClosed = errors.New("its helper has closed the connection")
