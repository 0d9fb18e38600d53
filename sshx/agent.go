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

// agentTimeout bounds one answer of the agent where the caller has no deadline;
// it leaves time to touch a hardware key.
const agentTimeout = 30 * time.Second

// A keyAgent is the user's agent, connected to once and shared by all
// connections. Its turn channel holds one token; who has it may use conn.
type keyAgent struct {
	socket string
	token  chan struct{}

	// owned by who has the turn
	conn   *agentConn // nil: not connected
	client agent.ExtendedAgent
	listed bool
	keys   []*agent.Key
}

func newKeyAgent(socket string) *keyAgent {
	a := &keyAgent{socket: socket, token: make(chan struct{}, 1)}
	a.token <- struct{}{}
	return a
}

// withConnection runs f when it is its turn, with the connection open and bounded by ctx.
// A connection on which something went wrong is not used again, since request
// and reply may have lost step.
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

// An agentConn notes that the connection failed, which the library's errors do
// not tell from a refusal. It has no Close, so that the library keeps request
// and reply in step and starts no goroutine that reads without end.
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

// list returns the agent's keys, asked for once per Dialer.
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

// sign has the agent sign with one of its keys.
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
