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

// A pmiStream is the PMI connection of a rank, as far as its end is concerned.
type pmiStream interface {
	RankExited()                  // the rank has ended
	allAnswered() <-chan struct{} // closed when all it said before is answered
}

// A tcpSession is the pmiStream of a rank that comes in by the port.
type tcpSession struct {
	mu           sync.Mutex    // guards over
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

// RankExited has nothing to do: the kernel ends the connection with the rank.
func (t *tcpSession) RankExited() {}

func (t *tcpSession) allAnswered() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disconnected
}

// A pmiConn is our end of a rank's PMI_FD. Who reads it answers what was read before
// reading on, and closes it in the end. It tells when all that the rank said before
// its own end is answered, which the news of that end must not overtake: it may be
// an abort.
type pmiConn struct {
	rank.PipeReader
	answered       chan struct{} // closed then
	answeredClosed bool          // of answered; belongs to the reader, as buf does
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

// servePMI answers one rank until its connection ends.
func (s *session) servePMI(r *rankProcess, conn *pmiConn) {
	defer conn.Close()
	s.reportPMIEnd(r, r.group.pmi.Serve(context.Background(), r.plan.Rank, conn))
}

// reportPMIEnd tells how a rank's PMI connection has ended, unless it is as it should be.
func (s *session) reportPMIEnd(r *rankProcess, err error) {
	news, word := wire.PMIReport{Rank: r.number}, "CLOSED"
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
	case errors.As(err, &junk):
		news.Event, news.Text, word = wire.PMIMalformed, err.Error(), "DIE"
	default:
		news.Event, news.Text, word = wire.PMIDisconnected, err.Error(), "LOST"
	}
	s.tracePMI(r, "< EOF")
	s.tracePMI(r, "> "+word)
	if err != nil {
		s.sendPMI(r, &news)
	}
}

// sendPMI passes on news of a rank, which come between that it runs and that it has ended: what
// is left of it may go on to speak, but not for it (TRUST-4), and say is false.
func (s *session) sendPMI(r *rankProcess, m wire.Message) bool {
	if !s.awaitStarted(r) {
		return false
	}
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	if !r.exitReported {
		s.conn.Send(m)
	}
	return !r.exitReported
}

// By which protocol a rank talks to us.
const (
	protocolPMI = iota
	protocolPMIx
)

// reportFenceWait tells mpiexec that a rank waits for its whole group by a protocol, of a group here once for each (PMIX-4). A rank that has
// spoken the other protocol, too, is a wrapper, which runs one program after the other: it is not reported.
func (s *session) reportFenceWait(r *rankProcess, by int) {
	if !r.initedBy[protocolPMIx-by].Load() && r.group.fenceWaitReported[by].CompareAndSwap(false, true) {
		s.sendPMI(r, &wire.PMIReport{Rank: r.number, Event: wire.PMIWaits + wire.PMIEvent(by)})
	}
}

// awaitStarted waits until mpiexec knows that a rank runs; false: it never will.
func (s *session) awaitStarted(r *rankProcess) bool {
	select {
	case <-r.announced:
		return true
	case <-s.done:
		return false
	}
}

// tracePMI passes on what a rank and its server say, if that is wanted (--pmi-trace).
func (s *session) tracePMI(r *rankProcess, line string) {
	if r.group.prepare.PMI.Trace {
		s.conn.Send(&wire.PMITrace{Rank: r.number, Line: line})
	}
}
