/*
Package node implements mpiexec's end of the connection to one helper. A validator checks each message of the helper.

	Connector.Connect --> Node -- Send ---> helper
	                        |
	                     Listen <---------- helper   one goroutine for each node
	                        |
	                        +--> StreamHandler   output, credit for input: handled at once, in order
	                        '--> Inbox           everything else, as NodeMessage; at the end Disconnected

Several reservations and the running job may use the same Node. So its exported fields never change, and locks
protect its validator and connection. Callers store other data about a node in types of their own.
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

// Name returns the name that the user gave the node.
func (n *Node) Name() string { return n.Def.Name }

// programStart is when this process started.
var programStart = time.Now()

// LastHeard returns the time at which the helper's last message arrived. If there was none, it returns when mpiexec
// started. Any goroutine may call it.
func (n *Node) LastHeard() time.Time { return programStart.Add(time.Duration(n.lastRecv.Load())) }

// Send sends a message to the helper. It returns the error of wire.Conn.Send.
func (n *Node) Send(m wire.Message) error {
	n.validator.NoteSent(m)
	return n.conn.Send(m)
}

// SendFenced sends the result of a fence. frame contains the result, encoded once for all nodes.
func (n *Node) SendFenced(id fence.ID, frame wire.Frame) {
	n.validator.noteFenceResultSent(id)
	n.conn.SendFrame(frame)
}

// SendFrame sends a message that was encoded once for several nodes. It does not call the functions that were
// added with OnSend, so there must be none for this kind of message.
func (n *Node) SendFrame(frame wire.Frame) { n.conn.SendFrame(frame) }

// SendFrameOf sends a message that was encoded once for several nodes. Like Send, it calls the functions that
// were added with OnSend.
func (n *Node) SendFrameOf(m wire.Message, frame wire.Frame) error {
	n.validator.NoteSent(m)
	return n.conn.SendFrame(frame)
}

// StopWaitingFor records that mpiexec no longer waits for the reply to a request. If the reply arrives, it is
// ignored.
func (n *Node) StopWaitingFor(request wire.Message) { n.validator.stopWaitingFor(request) }

// ShiftDeadlines extends the validator's time limits by the time for which mpiexec was stopped.
func (n *Node) ShiftDeadlines(stopped time.Duration) { n.validator.shiftTimes(stopped) }

// Backlog returns how many bytes were sent but not yet written to the connection.
func (n *Node) Backlog() int { return n.conn.Backlog() }

// InProcess reports whether the helper runs inside this process.
func (n *Node) InProcess() bool { return n.conn.InProcess() }

// Flush waits until all queued messages have been written.
func (n *Node) Flush() { n.conn.Flush() }

// Close closes the connection once all queued messages have been written. A helper that still runs ranks
// then ends them.
func (n *Node) Close() { n.conn.Close() }

// Abandon closes the connection at once. Queued messages are lost.
func (n *Node) Abandon() { n.conn.Abandon() }

// The methods below return facts that only the streams of some transports know.

// Noise returns the text that a login shell printed before the helper's first message.
func (n *Node) Noise() []byte {
	if s, ok := n.stream.(interface{ Noise() []byte }); ok {
		return s.Noise()
	}
	return nil
}

// Sent returns how many bytes of mpiexec's binary were copied to the host, to run there as the helper. It is 0 if
// the host already had the binary.
func (n *Node) Sent() int64 {
	if s, ok := n.stream.(interface{ Sent() int64 }); ok {
		return s.Sent()
	}
	return 0
}

// Login returns how long the SSH login took. It is 0 if that is unknown.
func (n *Node) Login() time.Duration {
	if s, ok := n.stream.(interface{ Login() time.Duration }); ok {
		return s.Login()
	}
	return 0
}

// Shell returns how long the user's login shell took, from the login until it ran /bin/sh. If the time of the
// login is unknown, this includes the login. It is 0 if there is no login shell.
func (n *Node) Shell() time.Duration {
	if s, ok := n.stream.(interface{ Shell() time.Duration }); ok {
		return s.Shell()
	}
	return 0
}

// MaxSilence returns how long the connection to a node may be silent before the node's helper ends the job there. The
// time depends on the keep-alive settings of the connection. If these are unknown, MaxSilence returns fallback. On this
// machine, which needs no connection, it returns 0.
func (n *Node) MaxSilence(fallback time.Duration) time.Duration {
	if n.Def.Local {
		return 0
	}
	if s, ok := n.stream.(interface{ Silence() time.Duration }); ok && s.Silence() > 0 {
		return s.Silence()
	}
	return fallback
}

// LocalIP returns the local IP address of the connection. It is nil if the connection is not a TCP connection of this
// process.
func (n *Node) LocalIP() net.IP {
	if s, ok := n.stream.(interface{ LocalAddr() net.Addr }); ok {
		if tcp, ok := s.LocalAddr().(*net.TCPAddr); ok {
			return tcp.IP
		}
	}
	return nil
}

// withReason returns the error with which the connection ended, if the stream knows that error. Otherwise it
// returns an error that describes err.
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

// errClosed is returned when the helper's output has ended for an unknown reason.
var errClosed = errors.New("mpiexec on the host has closed the connection")
