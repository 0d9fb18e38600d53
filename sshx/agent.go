package sshx

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentTimeout is the maximum time to wait for a reply of ssh-agent if the caller has no deadline. It is long enough
// for the user to touch a hardware key.
const agentTimeout = 30 * time.Second

// A keyAgent is a connection to the user's ssh-agent, which all SSH connections share. Only the goroutine that
// has received the single value of the channel lock may use the connection.
type keyAgent struct {
	socket string
	lock   chan struct{}

	// Used only by the goroutine that has taken the lock.
	conn   *agentConn // nil if not connected
	client agent.ExtendedAgent
	listed bool
	keys   []*agent.Key
}

func newKeyAgent(socket string) *keyAgent {
	a := &keyAgent{socket: socket, lock: make(chan struct{}, 1)}
	a.lock <- struct{}{}
	return a
}

// withConnection opens the connection to the agent if necessary, and calls f. No other goroutine uses the connection
// during the call. ctx limits the call. After an error, withConnection closes the connection, because a late reply
// could be mistaken for the reply to the next request.
func (a *keyAgent) withConnection(ctx context.Context, f func() error) error {
	select {
	case <-a.lock:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { a.lock <- struct{}{} }()
	if a.conn == nil {
		conn, err := net.DialTimeout("unix", a.socket, agentTimeout)
		if err != nil {
			return err
		}
		a.conn = &agentConn{conn: conn}
		a.client = agent.NewClient(a.conn)
	}
	w := a.conn
	w.conn.SetDeadline(time.Now().Add(agentTimeout))
	stop := context.AfterFunc(ctx, func() { w.conn.SetDeadline(time.Now()) })
	err := f()
	if !stop() || w.err != nil {
		a.disconnect()
	}
	return err
}

func (a *keyAgent) disconnect() {
	if a.conn != nil {
		a.conn.conn.Close()
		a.conn = nil
	}
}

// An agentConn is a connection to the agent that records when it has failed. x/crypto/ssh returns the same
// errors for a failed connection as for a refused request. An agentConn has no Close method, so that
// x/crypto/ssh starts no goroutine that reads forever.
type agentConn struct {
	conn net.Conn
	err  error
}

func (w *agentConn) Read(p []byte) (int, error) {
	n, err := w.conn.Read(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

func (w *agentConn) Write(p []byte) (int, error) {
	n, err := w.conn.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// list returns the agent's keys. A Dialer asks its agent only once.
func (a *keyAgent) list(ctx context.Context) (keys []*agent.Key, err error) {
	err = a.withConnection(ctx, func() error {
		if !a.listed {
			if a.keys, err = a.client.List(); err != nil {
				return err
			}
			a.listed = true
		}
		keys = a.keys
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return keys, nil
}

func (a *keyAgent) close() {
	<-a.lock
	a.disconnect()
	a.lock <- struct{}{}
}

// sign asks the agent to sign data with a key of the agent.
func (a *keyAgent) sign(ctx context.Context, key ssh.PublicKey, data []byte, algorithm string) (sig *ssh.Signature, err error) {
	flags := agent.SignatureFlags(0)
	switch algorithm {
	case ssh.KeyAlgoRSASHA256:
		flags = agent.SignatureFlagRsaSha256
	case ssh.KeyAlgoRSASHA512:
		flags = agent.SignatureFlagRsaSha512
	}
	err = a.withConnection(ctx, func() error {
		sig, err = a.client.SignWithFlags(key, data, flags)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return sig, nil
}
