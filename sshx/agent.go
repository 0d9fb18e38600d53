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

// agentTimeout is how long to wait for a reply of the agent if the caller has no deadline. It leaves time
// to touch a hardware key.
const agentTimeout = 30 * time.Second

// A keyAgent is a connection to the user's ssh-agent, shared by all SSH connections. The channel token
// has one value. The goroutine that has received it may use the connection.
type keyAgent struct {
	socket string
	token  chan struct{}

	// Used only by the goroutine that has taken the token.
	conn   *agentConn // nil if not connected
	client agent.ExtendedAgent
	listed bool
	keys   []*agent.Key
}

func newKeyAgent(socket string) *keyAgent {
	a := &keyAgent{socket: socket, token: make(chan struct{}, 1)}
	a.token <- struct{}{}
	return a
}

// withConnection calls f with an open connection that no other goroutine uses and that ctx limits. After
// an error it closes the connection, because a late reply could be taken for the next one.
func (a *keyAgent) withConnection(ctx context.Context, f func() error) error {
	select {
	case <-a.token:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { a.token <- struct{}{} }()
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

// An agentConn records that the connection has failed, because the library returns the same errors for a
// failed connection and for a refusal. It has no Close method, so the library sends requests one at a time
// and starts no goroutine that reads for ever.
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

// list returns the agent's keys. It asks the agent once for each Dialer.
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
	<-a.token
	a.disconnect()
	a.token <- struct{}{}
}

// sign asks the agent to sign data with one of its keys.
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
