package sshx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"remshell/test/sshtest"
)

func TestJumpHostIsSharedAndClosed(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	outer, inner := p.server(sshtest.Options{Forward: true}), p.server(sshtest.Options{Forward: true})
	last := p.server(sshtest.Options{})
	hop1, hop2 := p.target(outer.Addr()), p.target(inner.Addr())
	hop1.Alias, hop2.Alias = "outer", "inner"
	var clients []*Client
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			target := p.target(last.Addr())
			target.Alias = fmt.Sprintf("n%d", i)
			target.Via = []Target{hop1, hop2}
			c, err := p.d.Dial(context.Background(), target)
			if err != nil {
				t.Error(err)
				return
			}
			if got := output(t, c, "echo hello"); got != "hello\n" {
				t.Errorf("%q", got)
			}
			mu.Lock()
			clients = append(clients, c)
			mu.Unlock()
		})
	}
	wg.Wait()
	if a, b := outer.Stats(), inner.Stats(); a.Accepted != 1 || b.Accepted != 1 || b.Forwarded != 20 {
		t.Errorf("outer %+v, inner %+v", a, b)
	}
	if n := last.Stats().Peak; n > defaultPerServer {
		t.Errorf("%d at once through one jump host", n)
	}
	for _, c := range clients {
		c.Close()
	}
	eventually(t, "jump hosts are left with the last connection", func() bool {
		p.d.mu.Lock()
		defer p.d.mu.Unlock()
		return len(p.d.jumpHosts) == 0
	})
}

func TestJumpHostBreaks(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	gate, last := p.server(sshtest.Options{Forward: true}), p.server(sshtest.Options{})
	target := p.target(last.Addr())
	hop := p.target(gate.Addr())
	hop.Alias = "gate"
	target.Via = []Target{hop}
	c := p.dial(target)
	gate.CloseConnections()
	<-c.Done()
	var e *DialError
	if err := c.Err(); !errors.As(err, &e) || e.Kind != KindLost {
		t.Errorf("Err: %v", err)
	}
	p.dial(target) // a new connection to the jump host
	if n := gate.Stats().Accepted; n != 2 {
		t.Errorf("%d connections to the jump host, want 2", n)
	}
}

// A freezing conn stops passing data in both directions, until it is closed.
type freezing struct {
	net.Conn
	freeze, closed chan struct{}
	once           sync.Once
}

func (c *freezing) wait(n int, err error) (int, error) {
	select {
	case <-c.freeze:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *freezing) Read(p []byte) (int, error) { return c.wait(c.Conn.Read(p)) }

func (c *freezing) Write(p []byte) (int, error) {
	if n, err := c.wait(0, nil); err != nil {
		return n, err
	}
	return c.Conn.Write(p)
}

func (c *freezing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// If a jump host no longer replies, a client behind it can be closed at once, and pending reads and
// writes return an error. Other targets behind that jump host do not wait for it.
func TestJumpHostThatFreezes(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	freeze := make(chan struct{})
	p.d.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &freezing{Conn: c, freeze: freeze, closed: make(chan struct{})}, err
	}
	gate, last := p.server(sshtest.Options{Forward: true}), p.server(sshtest.Options{})
	hop := p.target(gate.Addr())
	hop.AliveInterval = time.Hour
	target := p.target(last.Addr())
	target.Via = []Target{hop}
	c, other := p.dial(target), p.dial(target)
	defer func() {
		other.Close()
		gate.CloseConnections()
	}()
	s, err := c.Start(t.Context(), "cat >/dev/null")
	check(t, err)
	ended := make(chan error, 3)
	go func() {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		for i := 0; ; i++ {
			if _, err = s.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return
			}
			if i == 10 {
				close(freeze)
			}
		}
	}()
	<-freeze
	go func() {
		c.Close()
		ended <- c.Err()
	}()
	for range 3 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("no error after the end")
			}
		case <-time.After(time.Minute):
			t.Fatal("somebody waits for ever")
		}
	}
}

func TestJumpFailures(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	last := p.server(sshtest.Options{})
	tests := []struct {
		name string
		gate sshtest.Options
		kind Kind
		part string
	}{
		{"no forwarding", sshtest.Options{}, KindNoRoute, "n1: connect: gate forwards no connections"},
		{"login refused", sshtest.Options{RefuseAll: true}, KindLogin, "n1: jump: gate: login: login refused for user alice"},
		{"silent", sshtest.Options{SilentFrom: sshtest.BeforeVersion}, KindNoRoute, "n1: jump: gate: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &testHome{t: t, home: p.home, key: p.key, d: &Dialer{}}
			target := p.target(last.Addr())
			gate := p.server(tt.gate)
			hop := p.target(gate.Addr())
			hop.Alias, hop.ConnectTimeout = "gate", 200*time.Millisecond
			target.Via = []Target{hop}
			p.want(p.refusal(target), tt.kind, tt.part, "")
		})
	}
	t.Run("behind it all is silent", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, key: p.key, d: &Dialer{}}
		target := p.target(p.server(sshtest.Options{SilentFrom: sshtest.BeforeVersion}).Addr())
		target.ConnectTimeout = 100 * time.Millisecond
		target.Via = []Target{p.target(p.server(sshtest.Options{Forward: true}).Addr())}
		p.want(p.refusal(target), KindNoRoute, "in 100 ms", "")
	})
}

// A dead host behind a jump host does not stop the other targets that wait for permits.
func TestOneDeadHostBehindJumpHost(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	p.d.Pacer = &Pacer{PerServer: 1}
	gate, last := p.server(sshtest.Options{Forward: true}), p.server(sshtest.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			target := p.target(last.Addr())
			target.Via = []Target{p.target(gate.Addr())}
			if i%4 == 0 {
				target.Port = 1
			}
			c, err := p.d.Dial(context.Background(), target)
			if (err != nil) != (target.Port == 1) {
				t.Errorf("port %d: %v", target.Port, err)
			}
			if c != nil {
				c.Close()
			}
		})
	}
	wg.Wait()
}

func TestProxyCommand(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.server(sshtest.Options{})
	target := p.target(s.Addr())
	// This test program is the proxy: see TestMain.
	t.Setenv("SSHX_TEST_PROXY", "1")
	self, err := os.Executable()
	check(t, err)
	target.ProxyCommand = self + " %h:%p"
	c := p.dial(target)
	if got := output(t, c, "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	c.Close()
	for _, tt := range []struct {
		name, command string
		kind          Kind
		part          string
	}{
		{"says why", "sh -c 'echo cannot open the door >&2; exit 1'", KindNoRoute, "n1: connect: ProxyCommand failed: cannot open the door"},
		{"not found", "/nonexistent/proxy", KindNoRoute, "ProxyCommand failed: "},
		{"killed", "sh -c 'kill -9 $$'", KindNoRoute, "ProxyCommand failed: signal: killed"},
		{"ends in silence", "true", KindClosed, "the server closed the connection before the login"},
		{"never speaks, and does not end", "sh -c 'trap \"\" TERM; exec sleep 1000'", KindNoRoute, "sent nothing in 300 ms"},
		{"bad token", "nc %Z", KindConfig, "unknown token %Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noLeak(t) // of the command's process too: its pipes would stay open
			p := &testHome{t: t, home: p.home, d: &Dialer{Retries: 1}}
			target := target
			if strings.Contains(tt.command, "sleep") {
				target.ConnectTimeout = 300 * time.Millisecond
			}
			target.ProxyCommand = tt.command
			p.want(p.refusal(target), tt.kind, tt.part, "")
		})
	}
}

func TestProxyCommandIsInASessionOfItsOwn(t *testing.T) {
	noLeak(t)
	p, err := startProxy("cat /proc/self/stat; cat")
	check(t, err)
	defer p.Close()
	buf := make([]byte, 512)
	n, err := p.Read(buf)
	check(t, err)
	var pid, ppid, pgrp, session int
	var comm, state string
	fmt.Sscan(string(buf[:n]), &pid, &comm, &state, &ppid, &pgrp, &session)
	if session == 0 || session != p.cmd.Process.Pid || pgrp != session {
		t.Errorf("pid %d group %d session %d, of the shell %d", pid, pgrp, session, p.cmd.Process.Pid)
	}
	own, err := exec.Command("cat", "/proc/self/stat").Output()
	check(t, err)
	if strings.Contains(string(own), fmt.Sprintf(" %d ", session)) {
		t.Error("the session is ours")
	}
}
