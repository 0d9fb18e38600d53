package sshx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// A Client is a connection that is logged in. One goroutine serves it and ends
// with it.
type Client struct {
	target    Target
	conn      ssh.Conn
	transport *sshConn
	jump      *jumpHost // nil: none

	done chan struct{} // closed when the connection has ended

	mu  sync.Mutex // guards err
	err error      // why it ended; set before done is closed
}

// errClosed is the error of a client that was closed by its user.
var errClosed = errors.New("sshx: the connection was closed")

func newClient(d *Dialer, t Target, conn ssh.Conn, w *sshConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request, way *jumpHost) *Client {
	c := &Client{target: t, conn: conn, transport: w, jump: way, done: make(chan struct{})}
	d.Log.Debug().Str("host", t.Alias).Str("server", string(conn.ServerVersion())).Msg("logged in")
	go c.serve(chans, reqs)
	return c
}

// Target is what the client is connected to.
func (c *Client) Target() Target { return c.target }

// LocalAddr is our end of the connection; what it says is of use only for a direct
// one.
func (c *Client) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// Done is closed when the connection has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// setError notes the reason; the first one counts.
func (c *Client) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Close ends the connection and all its sessions, and waits until its
// goroutine has ended.
func (c *Client) Close() error {
	c.setError(errClosed)
	err := c.conn.Close()
	<-c.done
	return err
}

// serve answers what the server asks on its own account and watches over the
// connection until it has ended.
func (c *Client) serve(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	defer close(c.done)
	defer c.jump.release()
	interval := c.target.AliveInterval
	timer, due := time.NewTimer(interval), time.Now().Add(interval)
	defer timer.Stop()
	asked := make(chan struct{}, 1) // one question at a time: TCP repeats it
	for reqs != nil || chans != nil {
		select {
		case r, ok := <-reqs:
			if !ok {
				reqs = nil
			} else if r.WantReply {
				r.Reply(false, nil)
			}
		case ch, ok := <-chans:
			if !ok {
				chans = nil
			} else {
				ch.Reject(ssh.Prohibited, "no channels from the server")
			}
		case <-timer.C:
			now := time.Now() // what the channel brings is when it should have been
			if now.Sub(due) > interval {
				c.transport.resetSilence() // it is we who were stopped
			}
			next := c.checkAlive(asked)
			timer.Reset(next)
			due = now.Add(next)
		}
	}
	err := c.conn.Wait()
	c.setError(c.lost("the connection broke").withCause(err))
	c.transport.Close()
}

// checkAlive looks after a silent peer: after AliveInterval it is asked for a sign
// of life, and it is lost if AliveCountMax such intervals more bring none
// (OpenSSH clientloop.c, server_alive_check). It says when to look again.
func (c *Client) checkAlive(asked chan struct{}) (next time.Duration) {
	interval, quiet := c.target.AliveInterval, c.transport.silentFor()
	switch n := int(quiet / interval); {
	case n > c.target.AliveCountMax:
		c.setError(c.lost("no sign of life for %s", formatDuration(quiet.Round(time.Second))))
		// Not conn.Close: it would wait for a write that is stuck.
		c.transport.Close()
	case n > 0:
		c.sendKeepAlive(asked)
	}
	return interval - quiet%interval
}

// sendKeepAlive sends a keep-alive. Any answer is heard by the wire, also a refusal.
func (c *Client) sendKeepAlive(asked chan struct{}) {
	select {
	case asked <- struct{}{}:
	default:
		return // the last question is still open
	}
	go func() { // ends with the answer or the connection
		c.conn.SendRequest("keepalive@openssh.com", true, nil)
		<-asked
	}()
}

func (c *Client) lost(format string, args ...any) *DialError {
	return newDialError(c.target, "connection", KindLost, format, args...).withDetails("%s", c.target.addr())
}

// Start runs a command with the user's login shell. The context bounds the
// start only; closing the session or the client ends it later.
func (c *Client) Start(ctx context.Context, command string) (*Session, error) {
	type started struct {
		s   *Session
		err error
	}
	result := make(chan started, 1)
	go func() {
		s, err := c.start(command)
		result <- started{s, err}
	}()
	select {
	case r := <-result:
		return r.s, r.err
	case <-ctx.Done():
		go func() {
			if r := <-result; r.err == nil {
				r.s.Close()
			}
		}()
		return nil, newDialError(c.target, "session", KindCanceled, "canceled").withCause(context.Cause(ctx))
	}
}

func (c *Client) start(command string) (*Session, error) {
	ch, reqs, err := c.conn.OpenChannel("session", nil)
	if err != nil {
		var open *ssh.OpenChannelError
		if errors.As(err, &open) {
			return nil, newDialError(c.target, "session", KindSession, "the server opens no session: %s", open.Message).
				withCause(err).withHint("MaxSessions in its sshd_config may be too low")
		}
		return nil, c.connectionError(err)
	}
	s := newSession(c, ch, reqs)
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && ok {
		return s, nil
	}
	s.Close()
	if err != nil {
		return nil, c.connectionError(err)
	}
	return nil, newDialError(c.target, "session", KindSession, "the server runs no command").
		withHint("is it limited to sftp, or by a forced command?")
}

// connectionError is the error of a step that failed because the connection did.
func (c *Client) connectionError(err error) error {
	if e := c.Err(); e != nil {
		return e
	}
	return newDialError(c.target, "session", KindLost, "the connection broke").withCause(fmt.Errorf("start: %w", err))
}
