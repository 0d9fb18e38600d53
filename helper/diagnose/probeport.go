//go:build linux

package diagnose

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"remshell/job"
	"remshell/wire"
)

/*
A probePort is the port that --doctor opens on each node. The other nodes test whether they can connect to it, as
the ranks of an MPI program do. The kernel chooses the port.

	caller                          port
	  | token ----------------------->    a wrong token gets no reply
	  | <----------------------- token    small packets arrive, both ways
	  | 64 KiB ---------------------->    full packets arrive as well
	  | <------------------------ token   (they would not if an MTU on the path were wrong)
*/
type probePort struct {
	listener net.Listener
	tasks    sync.WaitGroup
	mu       sync.Mutex // guards the fields below
	open     map[net.Conn]bool
	closed   bool
}

const (
	stepTimeout = 3 * time.Second // for each step of a probe
	largeSize   = 64 << 10        // bytes, more than any network sends in one packet
	maxProbes   = 16              // the most probes that one node makes at a time
)

// listen opens the probe port.
func (e *Examiner) listen(m *wire.OpenProbePort) {
	if m.Address == "" { // do not listen on all interfaces
		e.send(&wire.ProbePortOpened{Err: "no address is known at which other hosts can connect to this host"})
		return
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(m.Address, "0"))
	if err != nil {
		e.send(&wire.ProbePortOpened{Err: netErrText(err)})
		return
	}
	if e.port != nil {
		e.port.close()
	}
	e.port = &probePort{listener: ln, open: make(map[net.Conn]bool)}
	e.port.tasks.Go(func() { e.port.serve([]byte(m.Token)) })
	e.send(&wire.ProbePortOpened{Port: ln.Addr().(*net.TCPAddr).Port})
}

// serve serves connections to the probe port until the port is closed.
func (p *probePort) serve(token []byte) {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.open[c] = true
		if p.closed {
			c.Close()
		}
		p.mu.Unlock()
		p.tasks.Go(func() {
			answerProbe(c, token)
			c.Close()
			p.mu.Lock()
			delete(p.open, c)
			p.mu.Unlock()
		})
	}
}

// answerProbe serves one connection to the probe port.
func answerProbe(c net.Conn, token []byte) {
	received := make([]byte, len(token))
	c.SetDeadline(time.Now().Add(3 * stepTimeout))
	if _, err := io.ReadFull(c, received); err != nil || subtle.ConstantTimeCompare(received, token) != 1 {
		return
	}
	if _, err := c.Write(token); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, c, largeSize); err != nil {
		return
	}
	c.Write(token)
}

// close closes the port and all its connections.
func (p *probePort) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

// probePeers tests connections to the probe ports of peers, at most maxProbes at a time. It returns the
// results in the order of peers.
func probePeers(ctx context.Context, peers []wire.ProbePort) []job.PeerProbe {
	results := make([]job.PeerProbe, len(peers))
	slots := make(chan struct{}, maxProbes)
	var running sync.WaitGroup
	for i, d := range peers {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			results[i] = probePeer(ctx, d)
		})
	}
	running.Wait()
	return results
}

// probePeer tests the connection to one other node: it connects to the node's probe port and exchanges data.
func probePeer(ctx context.Context, d wire.ProbePort) job.PeerProbe {
	result := func(stage string, err error) job.PeerProbe {
		return job.PeerProbe{Peer: d.Node, Stage: stage, Err: netErrText(err)}
	}
	dialer := net.Dialer{Timeout: stepTimeout}
	c, err := dialer.DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return result("connect", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	echo := make([]byte, len(d.Token))
	exchange := func(data []byte) error {
		c.SetDeadline(time.Now().Add(stepTimeout))
		if _, err := c.Write(data); err != nil {
			return err
		}
		_, err := io.ReadFull(c, echo)
		if err == nil && string(echo) != d.Token {
			err = errors.New("a program other than mpiexec answered on the port")
		}
		return err
	}
	if err := exchange([]byte(d.Token)); err != nil {
		return result("small", err)
	}
	if err := exchange(make([]byte, largeSize)); err != nil {
		return result("large", err)
	}
	return job.PeerProbe{Peer: d.Node}
}

// netErrText returns the operating system's text for a network error, without addresses and ports, so that errors with
// the same cause have the same text.
func netErrText(err error) string {
	var no syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &no):
		return no.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in " + strconv.Itoa(int(stepTimeout/time.Second)) + " s"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the other end closed the connection"
	}
	return err.Error()
}
