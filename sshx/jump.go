package sshx

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// A jumpHost is a connection to a jump host that several targets share. It is opened for the first of these targets,
// and closed when none of them uses it any more.
type jumpHost struct {
	d      *Dialer
	key    string
	target Target
	cancel context.CancelFunc
	ready  chan struct{} // closed when client or err is set
	client *Client
	err    error

	users int // guarded by Dialer.mu
}

// jumpHost waits until the connection to the last jump host of t is ready, and returns the connection. It returns
// nil if t has no jump host. The caller must call release, or pass the jumpHost to a Client, which then calls
// release.
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

// shareJumpHost returns the shared connection to a jump host. If there is no such connection, it starts connecting.
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
	// The connection must survive if the first target gives up.
	ctx, cancel := context.WithCancel(context.Background())
	h := &jumpHost{d: d, key: key, target: t, cancel: cancel, ready: make(chan struct{}), users: 1}
	d.jumpHosts[key] = h
	go func() {
		h.client, h.err = d.Dial(ctx, t)
		close(h.ready)
	}()
	return h
}

// isGone reports whether the connection can no longer be used for new targets.
func (h *jumpHost) isGone() bool {
	select {
	case <-h.ready:
		return h.err != nil || h.client.Err() != nil
	default:
		return false
	}
}

// release ends the caller's use of the jump host. After the last use, the connection is closed. h may be nil.
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
		go func() { // ends soon: the dial was cancelled too
			<-h.ready
			if h.err == nil {
				h.client.Close()
			}
		}()
	}
}

// open opens a TCP connection to t through the jump host (RFC 4254 section 7.2).
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
		go func() { // the reply comes late, at the latest when the jump host's connection is closed
			if o := <-result; o.err == nil {
				go ssh.DiscardRequests(o.reqs)
				o.ch.Close()
			}
		}()
		return nil, d.timeout(ctx, t, "connect", h.target.Alias+" could not connect to it").withDetails("%s", t.addr())
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
			withHint("set AllowTcpForwarding yes in sshd_config on the jump host")
	}
	return newDialError(t, "connect", KindNoRoute, "%s cannot reach it: %s", h.target.Alias, open.Message).withDetails("%s", t.addr()).withCause(err)
}

// pipeBuffer is the size in bytes of the copy buffer for each direction of a forwarded connection.
const pipeBuffer = 16 << 10

// channelConn returns a net.Conn for a forwarded channel. Closing the net.Conn ends reads and writes at once, even if
// the jump host no longer reads or replies. With the plain channel, they would end only when the other side has
// confirmed the close. The goroutines that copy data may continue until the connection to the jump host ends.
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
