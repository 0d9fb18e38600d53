/*
Package node is mpiexec's side of the connection to one helper. A validator checks every message
that the helper sends.

	Connector.Connect --> Node -- Send ---> helper
	                        |
	                     Listen <---------- helper   one goroutine for each node
	                        |
	                        +--> Streams   output, credit for input: handled at once, in order
	                        '--> Inbox     everything else, as a Message; at the end Disconnected

Several reservations and the running job may hold the same Node. Its exported fields therefore never
change, and its validator and connection guard their own state. Callers keep later findings about a
node, and its place in a plan, in types of their own.
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

// A Node is mpiexec's connection to one helper.
type Node struct {
	Def   job.NodeDef // the definition when the node was connected
	Probe job.Probe   // result of the helper's probe at that time

	stream    io.ReadWriteCloser
	conn      *wire.Conn
	validator *Validator
	lastRecv  atomic.Int64 // time of the last received message, in nanoseconds after programStart
	predecessor
}

// Name returns the name by which the user calls the node.
func (n *Node) Name() string { return n.Def.Name }

// programStart is the time at which this program began.
var programStart = time.Now()

// LastHeard returns the time of the helper's last message, or this program's start if there was none. Any
// goroutine may call it.
func (n *Node) LastHeard() time.Time { return programStart.Add(time.Duration(n.lastRecv.Load())) }

// Send sends a message to the helper. It returns the error of wire.Conn.Send.
func (n *Node) Send(m wire.Message) error {
	n.validator.NoteSent(m)
	return n.conn.Send(m)
}

// SendFenced sends the result of a fence. The frame is encoded once for all nodes.
func (n *Node) SendFenced(id fence.ID, frame wire.Frame) {
	n.validator.noteFenceResultSent(id)
	n.conn.SendFrame(frame)
}

// SendFrame sends a message that was encoded once for several nodes. It must have no rule of OnSend: none is called.
func (n *Node) SendFrame(frame wire.Frame) { n.conn.SendFrame(frame) }

// SendFrameOf is Send for a message whose frame was encoded once for several nodes. The rules of OnSend are called.
func (n *Node) SendFrameOf(m wire.Message, frame wire.Frame) error {
	n.validator.NoteSent(m)
	return n.conn.SendFrame(frame)
}

// StopWaitingFor notes that nobody waits any more for the reply to this request.
func (n *Node) StopWaitingFor(request wire.Message) { n.validator.stopWaitingFor(request) }

// ShiftDeadlines moves the validator's time limits by the time for which mpiexec was stopped.
func (n *Node) ShiftDeadlines(by time.Duration) { n.validator.shiftTimes(by) }

// Backlog returns how many bytes are queued for sending and not yet written.
func (n *Node) Backlog() int { return n.conn.Backlog() }

// InProcess reports whether the helper runs inside this process.
func (n *Node) InProcess() bool { return n.conn.InProcess() }

// Flush waits until all queued messages have been written.
func (n *Node) Flush() { n.conn.Flush() }

// Close ends the connection once all queued messages have been written. A helper that is still running
// ranks then ends the job.
func (n *Node) Close() { n.conn.Close() }

// Abandon ends the connection at once. Queued messages are lost.
func (n *Node) Abandon() { n.conn.Abandon() }

// The methods below return facts that only some streams know; it depends on the transport.

// Noise returns the text that a login shell printed before the helper's first message.
func (n *Node) Noise() []byte {
	if s, ok := n.stream.(interface{ Noise() []byte }); ok {
		return s.Noise()
	}
	return nil
}

// Sent returns how many bytes of our binary were sent to the host to run as its helper. It is 0 if none
// were sent.
func (n *Node) Sent() int64 {
	if s, ok := n.stream.(interface{ Sent() int64 }); ok {
		return s.Sent()
	}
	return 0
}

// Login returns how long the login took; 0 means unknown.
func (n *Node) Login() time.Duration {
	if s, ok := n.stream.(interface{ Login() time.Duration }); ok {
		return s.Login()
	}
	return 0
}

// Shell returns the time that the login shell took from the login until it ran /bin/sh. If the time of the
// login is unknown, it counts from the start. It is 0 if there is no login shell.
func (n *Node) Shell() time.Duration {
	if s, ok := n.stream.(interface{ Shell() time.Duration }); ok {
		return s.Shell()
	}
	return 0
}

// MaxSilence returns how long the link to a node may be dead before its helper ends the job there. That is the
// time that the link's own keep-alives allow, if known, or else fallback. It is 0 on this machine:
// there is no link, and the helper would check the link of the user's login instead.
func (n *Node) MaxSilence(fallback time.Duration) time.Duration {
	if n.Def.Local {
		return 0
	}
	if s, ok := n.stream.(interface{ Silence() time.Duration }); ok && s.Silence() > 0 {
		return s.Silence()
	}
	return fallback
}

// LocalIP returns our own address on the connection. It is nil if the connection is not a TCP connection of
// this process.
func (n *Node) LocalIP() net.IP {
	if s, ok := n.stream.(interface{ LocalAddr() net.Addr }); ok {
		if tcp, ok := s.LocalAddr().(*net.TCPAddr); ok {
			return tcp.IP
		}
	}
	return nil
}

// withReason returns the stream's own reason for its end if it has one, or else an error that describes
// err.
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

// errClosed is the error if the helper's output has ended and no reason is known.
var errClosed = errors.New("its helper has closed the connection")
