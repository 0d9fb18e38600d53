//go:build linux

package helper

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"remshell/helper/rank"
	"remshell/pmiserver"
	"remshell/wire"
)

// A pmiStream is the PMI connection of a rank. Code that waits for the end of the connection uses this
// interface.
type pmiStream interface {
	RankExited()                  // the rank has ended
	allAnswered() <-chan struct{} // closed when all requests that the rank sent before its exit are answered
}

// A tcpSession is the pmiStream of a rank that connects by PMI_PORT.
type tcpSession struct {
	mu           sync.Mutex    // guards disconnected
	disconnected chan struct{} // closed while there is no connection
}

func newTCPSession() *tcpSession {
	t := &tcpSession{disconnected: make(chan struct{})}
	close(t.disconnected)
	return t
}

func (t *tcpSession) markConnected() {
	t.mu.Lock()
	t.disconnected = make(chan struct{})
	t.mu.Unlock()
}

func (t *tcpSession) markDisconnected() {
	t.mu.Lock()
	close(t.disconnected)
	t.mu.Unlock()
}

// RankExited does nothing: the kernel closes the connection when the rank exits.
func (t *tcpSession) RankExited() {}

func (t *tcpSession) allAnswered() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disconnected
}

// A pmiConn is the helper's end of a rank's PMI connection (PMI_FD). One goroutine reads requests and answers
// each before it reads the next. answered is closed when all requests that the rank sent before its exit are
// answered. The exit must not be reported earlier, because one of these requests may be an abort.
type pmiConn struct {
	rank.PipeReader
	answered       chan struct{} // see pmiConn
	answeredClosed bool          // answered is closed; owned by the reader, like buf
	buf            []byte
}

func newPMIConn(file *os.File) *pmiConn {
	c := &pmiConn{PipeReader: rank.PipeReader{File: file}, answered: make(chan struct{})}
	c.Buffer = func(int) []byte { return c.buf }
	return c
}

func (c *pmiConn) Read(buf []byte) (int, error) {
	c.buf = buf
	n, err := c.ReadOnce(!c.answeredClosed)
	if err == rank.ErrDrained {
		c.closeAnswered()
		n, err = c.ReadOnce(false)
	}
	if n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (c *pmiConn) allAnswered() <-chan struct{} { return c.answered }

func (c *pmiConn) Write(p []byte) (int, error) { return c.File.Write(p) }

func (c *pmiConn) Close() error {
	c.closeAnswered()
	return c.File.Close()
}

func (c *pmiConn) closeAnswered() {
	if !c.answeredClosed {
		c.answeredClosed = true
		close(c.answered)
	}
}

// servePMI serves the PMI requests of one rank until its connection ends.
func (s *Session) servePMI(r *Rank, conn *pmiConn) {
	defer conn.Close()
	s.reportPMIEnd(r, r.group.pmi.Serve(context.Background(), r.Plan.Rank, conn))
}

// reportPMIEnd adds the end of a rank's PMI connection to the trace of PMI messages. If err is not nil, the
// connection has failed, and reportPMIEnd reports that to mpiexec.
func (s *Session) reportPMIEnd(r *Rank, err error) {
	report, word := wire.PMIReport{Rank: r.Number}, "CLOSED"
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
	case errors.As(err, &junk):
		report.Event, report.Text, word = wire.PMIMalformed, err.Error(), "DIE"
	default:
		report.Event, report.Text, word = wire.PMIDisconnected, err.Error(), "LOST"
	}
	s.tracePMI(r, "< EOF")
	s.tracePMI(r, "> "+word)
	if err != nil {
		s.sendAboutRank(r, &report)
	}
}

// sendAboutRank sends mpiexec a message about a rank, if the rank's start was reported and its exit was not.
// Otherwise it sends nothing and returns false. This ensures that processes that a rank has left behind
// cannot cause messages about the rank (rule TRUST-4).
func (s *Session) sendAboutRank(r *Rank, m wire.Message) bool {
	if !s.AwaitStarted(r) {
		return false
	}
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	if !r.exitReported {
		s.conn.Send(m)
	}
	return !r.exitReported
}

// These are the protocols that a rank may use to communicate with its PMI server.
const (
	protocolPMI = iota
	protocolPMIx
)

// reportFenceWait reports to mpiexec that a rank waits in a fence of its whole group (rule PMIX-4). It
// reports this once for each group and protocol. A rank that has also used the other protocol is not
// reported, because it is a script that runs several programs one after the other.
func (s *Session) reportFenceWait(r *Rank, protocol int) {
	if !r.initedBy[protocolPMIx-protocol].Load() && r.group.fenceWaitReported[protocol].CompareAndSwap(false, true) {
		s.sendAboutRank(r, &wire.PMIReport{Rank: r.Number, Event: wire.PMIWaits + wire.PMIEvent(protocol)})
	}
}

// tracePMI passes a line about a message between a rank and its PMI server to the features that trace such
// messages.
func (s *Session) tracePMI(r *Rank, line string) {
	for _, trace := range s.Hooks.PMILine {
		trace(r, line)
	}
}
