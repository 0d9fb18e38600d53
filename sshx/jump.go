package sshx

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// A jumpHost is a jump host that several connections go through. It is connected to
// once, for the first who needs it, and closed after the last.
type jumpHost struct {
	d      *Dialer
	key    string
	target Target
	cancel context.CancelFunc
	ready  chan struct{} // closed when client or err is set
	client *Client
	err    error

	users int // guarded by d.mu
}

// jumpHost returns the last jump host of t, ready to be used; nil if t needs none.
// The caller must release it, or hand it to a Client that does.
func (d *Dialer) jumpHost(ctx context.Context, t Target) (*jumpHost, *DialError) {
	if len(t.Via) == 0 {
		return nil, nil
	}
	h := d.shareJumpHost(t.lastJump())
	jumped := t.Tracer.begin("jump")
	select {
	case <-h.ready:
		jumped(h.err)
	case <-ctx.Done():
		h.release()
		late := d.timeout(ctx, t, "jump", "")
		jumped(late)
		return nil, late
	}
	if h.err == nil {
		return h, nil
	}
	defer h.release()
	var inner *DialError
	if !errors.As(h.err, &inner) {
		return nil, newDialError(t, "jump", KindOther, "%v", h.err).withCause(h.err)
	}
	e := newDialError(t, "jump", inner.Kind, "%s: %s", inner.Host, inner.Reason()).withCause(inner)
	e.Details, e.remedy = inner.Details, inner.Hint()
	return nil, e
}

// shareJumpHost finds the hop to a jump host, or begins to connect to it.
func (d *Dialer) shareJumpHost(t Target) *jumpHost {
	key := t.shareKey()
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.jumpHosts[key]; h != nil && !h.isGone() {
		h.users++
		return h
	}
	if d.jumpHosts == nil {
		d.jumpHosts = map[string]*jumpHost{}
	}
	// The first who comes must not take the connection along when it gives up.
	ctx, cancel := context.WithCancel(context.Background())
	h := &jumpHost{d: d, key: key, target: t, cancel: cancel, ready: make(chan struct{}), users: 1}
	d.jumpHosts[key] = h
	go func() {
		h.client, h.err = d.Dial(ctx, t)
		close(h.ready)
	}()
	return h
}

// isGone says that a hop is of no use to newcomers.
func (h *jumpHost) isGone() bool {
	select {
	case <-h.ready:
		return h.err != nil || h.client.Err() != nil
	default:
		return false
	}
}

// release may be called on a nil hop.
func (h *jumpHost) release() {
	if h == nil {
		return
	}
	h.d.mu.Lock()
	h.users--
	last := h.users == 0
	if last && h.d.jumpHosts[h.key] == h {
		delete(h.d.jumpHosts, h.key)
	}
	h.d.mu.Unlock()
	if last {
		h.cancel()
		go func() { // ends soon: the dial, too, has been cancelled
			<-h.ready
			if h.err == nil {
				h.client.Close()
			}
		}()
	}
}

// open asks the jump host for a connection to t (RFC 4254 section 7.2).
func (h *jumpHost) open(ctx context.Context, d *Dialer, t Target) (net.Conn, *DialError) {
	request := struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{t.HostName, uint32(t.Port), "127.0.0.1", 0}
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	result := make(chan opened, 1)
	go func() {
		ch, reqs, err := h.client.conn.OpenChannel("direct-tcpip", ssh.Marshal(&request))
		result <- opened{ch, reqs, err}
	}()
	var o opened
	select {
	case o = <-result:
	case <-ctx.Done():
		go func() { // a late answer; at the latest it comes when the hop is closed
			if o := <-result; o.err == nil {
				go ssh.DiscardRequests(o.reqs)
				o.ch.Close()
			}
		}()
		return nil, d.timeout(ctx, t, "connect", h.target.Alias+" has not reached it").withDetails("%s", t.addr())
	}
	if o.err != nil {
		return nil, h.explainError(t, o.err)
	}
	go ssh.DiscardRequests(o.reqs)
	return channelConn(o.ch), nil
}

func (h *jumpHost) explainError(t Target, err error) *DialError {
	var open *ssh.OpenChannelError
	switch {
	case !errors.As(err, &open):
		return newDialError(t, "jump", KindLost, "the connection to %s broke", h.target.Alias).withCause(err)
	case open.Reason == ssh.Prohibited:
		return newDialError(t, "connect", KindNoRoute, "%s forwards no connections: %s", h.target.Alias, open.Message).withCause(err).
			withHint("set AllowTcpForwarding yes in its sshd_config")
	}
	return newDialError(t, "connect", KindNoRoute, "%s cannot reach it: %s", h.target.Alias, open.Message).withDetails("%s", t.addr()).withCause(err)
}

// pipeBuffer is how much of a forwarded connection is copied at once, in each direction.
const pipeBuffer = 16 << 10

// channelConn makes a forwarded channel a net.Conn. Closing it ends reads and writes at once, also where the jump host takes nothing
// any more and answers nothing; what copies then waits on for the end of the connection to the jump host. A channel alone
// ends when the other side has agreed.
func channelConn(ch ssh.Channel) net.Conn {
	near, far := net.Pipe()
	go func() {
		io.CopyBuffer(far, ch, make([]byte, pipeBuffer))
		far.Close()
	}()
	go func() {
		io.CopyBuffer(ch, far, make([]byte, pipeBuffer))
		ch.Close()
	}()
	return near
}
