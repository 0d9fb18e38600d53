package sshx

import (
	"context"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
)

// All requests of a server on its own account are refused, and no key is learnt from it (TRUST-22).
func TestServerAsks(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	key := sshtest.NewKey()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer ln.Close()
	target := p.target(ln.Addr().String())
	known := target.knownName() + " " + key.PublicKey().Type() + " " + keyText(key.PublicKey()) + "\n"
	p.write(".ssh/known_hosts", known)
	server := make(chan *ssh.ServerConn, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
		config.AddHostKey(key)
		conn, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			t.Error(err)
			c.Close()
			return
		}
		go ssh.DiscardRequests(requests)
		go func() {
			for ch := range channels {
				ch.Reject(ssh.Prohibited, "")
			}
		}()
		server <- conn
	}()
	client, err := p.d.Dial(context.Background(), target)
	check(t, err)
	defer client.Close()
	conn := <-server
	for _, kind := range []string{"auth-agent@openssh.com", "x11", "forwarded-tcpip", "direct-tcpip", "session", "forwarded-streamlocal@openssh.com", "tun@openssh.com", "no-such"} {
		if _, _, err := conn.OpenChannel(kind, nil); err == nil {
			t.Errorf("a channel %s was opened", kind)
		}
	}
	others := ssh.Marshal(struct{ Key string }{string(sshtest.NewKey().PublicKey().Marshal())})
	for _, kind := range []string{"tcpip-forward", "hostkeys-00@openssh.com", "hostkeys-prove-00@openssh.com", "no-such"} {
		if ok, _, err := conn.SendRequest(kind, true, others); ok || err != nil {
			t.Errorf("request %s: %v, %v", kind, ok, err)
		}
	}
	if now := p.read(".ssh/known_hosts"); now != known {
		t.Errorf("known_hosts has become %q", now)
	}
}
