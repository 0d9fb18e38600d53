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
	OwnerEnded()                 // the rank has ended
	lastAnswer() <-chan struct{} // closed when all it said before is answered
}

// A tcpSession is the pmiStream of a rank that comes in by the port.
type tcpSession struct {
	mu   sync.Mutex    // guards over
	over chan struct{} // closed while there is no connection
}

func newTCPSession() *tcpSession {
	t := &tcpSession{over: make(chan struct{})}
	close(t.over)
	return t
}

func (t *tcpSession) begin() {
	t.mu.Lock()
	t.over = make(chan struct{})
	t.mu.Unlock()
}

func (t *tcpSession) end() {
	t.mu.Lock()
	close(t.over)
	t.mu.Unlock()
}

// OwnerEnded has nothing to do: the kernel ends the connection with the rank.
func (t *tcpSession) OwnerEnded() {}

func (t *tcpSession) lastAnswer() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// A pmiConn is our end of a rank's PMI_FD. Who reads it answers what was read before
// reading on, and closes it in the end. It tells when all that the rank said before
// its own end is answered, which the news of that end must not overtake: it may be
// an abort.
type pmiConn struct {
	rank.Reader
	answered chan struct{} // closed then
	told     bool          // of answered; belongs to the reader, as buf does
	buf      []byte
}

func newPMIConn(file *os.File) *pmiConn {
	c := &pmiConn{Reader: rank.Reader{File: file}, answered: make(chan struct{})}
	c.Room = func(int) []byte { return c.buf }
	return c
}

func (c *pmiConn) Read(buf []byte) (int, error) {
	c.buf = buf
	n, err := c.ReadOnce(!c.told)
	if err == rank.ErrIdle {
		c.tell()
		n, err = c.ReadOnce(false)
	}
	if n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (c *pmiConn) lastAnswer() <-chan struct{} { return c.answered }

func (c *pmiConn) Write(p []byte) (int, error) { return c.File.Write(p) }

func (c *pmiConn) Close() error {
	c.tell()
	return c.File.Close()
}

func (c *pmiConn) tell() {
	if !c.told {
		c.told = true
		close(c.answered)
	}
}

// servePMI answers one rank until its connection ends.
func (s *session) servePMI(r *process, conn *pmiConn) {
	defer conn.Close()
	s.hungUp(r, r.group.pmi.Serve(context.Background(), r.plan.Rank, conn))
}

// hungUp tells how a rank's PMI connection has ended, unless it is as it should be.
func (s *session) hungUp(r *process, err error) {
	news, word := wire.PMI{Rank: r.number}, "CLOSED"
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
	case errors.As(err, &junk):
		news.Event, news.Text, word = wire.PMIJunk, err.Error(), "DIE"
	default:
		news.Event, news.Text, word = wire.PMILost, err.Error(), "LOST"
	}
	s.trace(r, "< EOF")
	s.trace(r, "> "+word)
	if err != nil {
		s.say(r, &news)
	}
}

// say passes on news of a rank, which come between that it runs and that it has ended: what
// is left of it may go on to speak, but not for it (TRUST-4), and say is false.
func (s *session) say(r *process, m wire.Message) bool {
	if !s.awaitBirth(r) {
		return false
	}
	r.talk.Lock()
	defer r.talk.Unlock()
	if !r.ended {
		s.conn.Send(m)
	}
	return !r.ended
}

// By which protocol a rank talks to us.
const (
	byPMI = iota
	byPMIx
)

// waits tells mpiexec that a rank waits for its whole group by a protocol, of a group here once for each (PMIX-4). A rank that has
// spoken the other protocol, too, is a wrapper, which runs one program after the other: it is not reported.
func (s *session) waits(r *process, by int) {
	if !r.spoken[byPMIx-by].Load() && r.group.waits[by].CompareAndSwap(false, true) {
		s.say(r, &wire.PMI{Rank: r.number, Event: wire.PMIWaits + wire.PMIEvent(by)})
	}
}

// awaitBirth waits until mpiexec knows that a rank runs; false: it never will.
func (s *session) awaitBirth(r *process) bool {
	select {
	case <-r.born:
		return true
	case <-s.done:
		return false
	}
}

// trace passes on what a rank and its server say, if that is wanted (--pmi-trace).
func (s *session) trace(r *process, line string) {
	if r.group.prepare.PMI.Trace {
		s.conn.Send(&wire.Trace{Rank: r.number, Line: line})
	}
}
