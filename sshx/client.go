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

// A Client is an SSH connection that is logged in. It has one goroutine, which ends when the connection ends.
type Client struct {
	target    Target
	conn      ssh.Conn
	transport *sshConn
	jump      *jumpHost // nil if there is none

	done chan struct{} // closed when the connection has ended

	mu  sync.Mutex // guards err
	err error      // why the connection ended; set before done is closed
}

// errClosed is returned after Close has been called on the client.
var errClosed = errors.New("sshx: the connection was closed")

func newClient(d *Dialer, t Target, conn ssh.Conn, w *sshConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request, jump *jumpHost) *Client {
	c := &Client{target: t, conn: conn, transport: w, jump: jump, done: make(chan struct{})}
	d.Log.Debug().Str("host", t.Alias).Str("server", string(conn.ServerVersion())).Msg("logged in")
	go c.serve(chans, reqs)
	return c
}

// Target returns the target of the connection.
func (c *Client) Target() Target { return c.target }

// LocalAddr returns the local address of the connection. It is meaningful only if the connection is direct, without
// jump host or proxy command.
func (c *Client) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// Done returns a channel that is closed when the connection has ended for any reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, or nil while the connection is open.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// setError records why the connection has ended. Only the first call has an effect.
func (c *Client) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Close closes the connection with all its sessions, and waits until the client's goroutine has ended.
func (c *Client) Close() error {
	c.setError(errClosed)
	err := c.conn.Close()
	<-c.done
	return err
}

// serve runs until the connection ends. It refuses the server's requests, and checks that the server still replies.
func (c *Client) serve(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	defer close(c.done)
	defer c.jump.release()
	interval := c.target.AliveInterval
	timer, due := time.NewTimer(interval), time.Now().Add(interval)
	defer timer.Stop()
	pending := make(chan struct{}, 1) // at most one keep-alive at a time: TCP retransmits it
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
				ch.Reject(ssh.Prohibited, "this client does not let the server open channels")
			}
		case <-timer.C:
			now := time.Now() // timer.C may hold the planned time, not the current one
			if now.Sub(due) > interval {
				c.transport.resetSilence() // this process was stopped
			}
			next := c.checkAlive(pending)
			timer.Reset(next)
			due = now.Add(next)
		}
	}
	err := c.conn.Wait()
	c.setError(c.lost("the connection broke").withCause(err))
	c.transport.Close()
}

// checkAlive sends a keep-alive if the server has been silent for AliveInterval. If the server stays silent for
// AliveCountMax further intervals, checkAlive closes the connection (OpenSSH clientloop.c, server_alive_check). It
// returns the time until the next check. pending holds a value while a keep-alive has no reply.
func (c *Client) checkAlive(pending chan struct{}) (next time.Duration) {
	interval, quiet := c.target.AliveInterval, c.transport.silentFor()
	switch n := int(quiet / interval); {
	case n > c.target.AliveCountMax:
		c.setError(c.lost("the host has sent no data for %s", formatDuration(quiet)))
		// conn.Close would wait for a blocked write.
		c.transport.Close()
	case n > 0:
		c.sendKeepAlive(pending)
	}
	return interval - quiet%interval
}

// sendKeepAlive sends a keep-alive. Any reply, even a refusal, shows that the server is alive.
func (c *Client) sendKeepAlive(pending chan struct{}) {
	select {
	case pending <- struct{}{}:
	default:
		return // the last keep-alive has no reply yet
	}
	go func() { // ends with the reply or the connection
		c.conn.SendRequest("keepalive@openssh.com", true, nil)
		<-pending
	}()
}

func (c *Client) lost(format string, args ...any) *DialError {
	return newDialError(c.target, "connection", KindLost, format, args...).withDetails("%s", c.target.addr())
}

// Start runs a command with the user's login shell. ctx limits only the time to start the command. To end a
// running command, close its session or the client.
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
			return nil, newDialError(c.target, "session", KindSession, "the server refuses to open a session: %s", open.Message).
				withCause(err).withHint("MaxSessions in sshd_config on the host may be too low")
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
		withHint("the account may be limited to sftp or by a forced command")
}

// connectionError returns the error for a step that failed with err because the connection broke. If Err knows why the
// connection ended, it returns that error.
func (c *Client) connectionError(err error) error {
	if e := c.Err(); e != nil {
		return e
	}
	return newDialError(c.target, "session", KindLost, "the connection broke").withCause(fmt.Errorf("start: %w", err))
}
