package sshx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
	"remshell/trace"
)

func TestDialRunsACommand(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.server(sshtest.Options{})
	c := p.dial(p.target(s.Addr()))
	if got := output(t, c, "echo out; echo err >&2; echo $LOGNAME"); got != "out\nalice\n" {
		t.Errorf("stdout: %q", got)
	}
	c.Close()
	if !errors.Is(c.Err(), errClosed) {
		t.Errorf("Err after Close: %v", c.Err())
	}
}

func TestSessionStreamsAndStatus(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	c := p.dial(p.target(p.server(sshtest.Options{}).Addr()))
	t.Run("stdin and stdout", func(t *testing.T) {
		s, err := c.Start(context.Background(), "cat; echo bye >&2; exit 3")
		check(t, err)
		big := strings.Repeat("0123456789abcdef", 1<<16)
		go func() {
			fmt.Fprint(s, big)
			s.CloseWrite()
		}()
		var b strings.Builder
		buf := make([]byte, 8192)
		for {
			n, err := s.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if b.String() != big {
			t.Errorf("%d bytes came back of %d", b.Len(), len(big))
		}
		var exit *ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Code != 3 {
			t.Errorf("Wait: %v", err)
		}
		if s.Stderr() != "bye\n" {
			t.Errorf("stderr: %q", s.Stderr())
		}
	})
	t.Run("signal", func(t *testing.T) {
		s, err := c.Start(context.Background(), "kill -SEGV $$")
		check(t, err)
		var exit *ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Signal != "SEGV" {
			t.Errorf("Wait: %v", err)
		}
	})
	t.Run("stderr keeps its end", func(t *testing.T) {
		s, err := c.Start(context.Background(), "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done")
		check(t, err)
		check(t, s.Wait())
		if got := s.Stderr(); len(got) > tailMax || !strings.HasSuffix(got, "line 1999\n") {
			t.Errorf("%d bytes, ending in %q", len(got), got[max(0, len(got)-20):])
		}
	})
}

func TestServerHangsUp(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.server(sshtest.Options{})
	c := p.dial(p.target(s.Addr()))
	ses, err := c.Start(context.Background(), "cat")
	check(t, err)
	s.CloseConnections()
	_, err = ses.Read(make([]byte, 1))
	var e *DialError
	if !errors.As(err, &e) || e.Kind != KindLost {
		t.Errorf("Read after the server hung up: %v, want kind lost", err)
	}
	<-c.Done()
	if err := ses.Wait(); !errors.Is(err, ErrNoStatus) {
		t.Errorf("Wait: %v", err)
	}
}

func TestCommandEndsWithConnection(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	c := p.dial(p.target(p.server(sshtest.Options{}).Addr()))
	mark := p.home + "/ended"
	_, err := c.Start(context.Background(), "cat; echo > "+mark)
	check(t, err)
	c.Close()
	eventually(t, "the command saw the end of its input", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
}

// Each row is a reason why a connection fails (cli.md SSH-5), with the message for the user.
func TestFailures(t *testing.T) {
	noLeak(t)
	other := sshtest.NewKey()
	tests := []struct {
		name  string
		opts  sshtest.Options
		known bool // in known_hosts
		edit  func(*Target)
		kind  Kind
		part  string
		hint  string
	}{
		{"unknown key", sshtest.Options{}, false, nil,
			KindUnknownKey, "n1: host key: the host key is unknown (ssh-ed25519 SHA256:", "ssh n1 true"},
		{"unknown key, strict", sshtest.Options{}, false, func(t *Target) { t.Strict = "yes" },
			KindUnknownKey, "not in ~/.ssh/known_hosts", "--accept-new-host-keys"},
		{"login refused", sshtest.Options{RefuseAll: true}, true, nil,
			KindLogin, "n1: login: login refused for user alice; tried ~/.ssh/id_ed25519", "ssh -v n1 true"},
		{"no key", sshtest.Options{}, true, func(t *Target) { t.Identities = []string{} },
			KindLogin, "login refused for user alice; there is no key to try", "agent"},
		{"key file missing", sshtest.Options{}, true, func(t *Target) { t.Identities = []string{t.Home + "/nokey"} },
			KindLogin, "no key to try; ~/nokey: file does not exist", ""},
		{"banner explains", sshtest.Options{RefuseAll: true, Banner: "down for\nmaintenance\n"}, true, nil,
			KindLogin, "(maintenance)", ""},
		{"key exchange", sshtest.Options{Config: func(c *ssh.ServerConfig) { c.KeyExchanges = []string{"ecdh-sha2-nistp256"} }}, true,
			func(t *Target) { t.Kex = []string{"curve25519-sha256"} },
			KindMismatch, `no key exchange in common: the client accepts curve25519-sha256,curve25519-sha256@libssh.org; the server offers "ecdh-sha2-nistp256" (not authenticated)`, "KexAlgorithms +ecdh-sha2-nistp256"},
		{"always dropped", sshtest.Options{DropFirst: 1000}, true, nil,
			KindClosed, "the server closed the connection before the login, 2 attempts", "MaxStartups"},
		{"always dropped with a word", sshtest.Options{DropFirst: 1000, DropText: "Not allowed at this time\r\n"}, true, nil,
			KindBusy, "the server takes no connections from here for some time (PerSourcePenalties), 2 attempts", "wait"},
		{"too many logins", sshtest.Options{DropFirst: 1000, DropText: "Exceeded MaxStartups\r\n"}, true, nil,
			KindBusy, "the server is busy: too many logins at once (MaxStartups), 2 attempts", "raise MaxStartups"},
		{"not ssh", sshtest.Options{DropFirst: 1000, DropText: "HTTP/1.1 400 Bad Request\r\n\r\n"}, true, nil,
			KindMismatch, `not an ssh server; it answered "HTTP/1.1 400 Bad Request" (not authenticated)`, ""},
		{"no shell", sshtest.Options{NoSession: true}, true, nil,
			KindSession, "n1: session: the server refuses to open a session", "MaxSessions"},
		{"wrong host key of the same type", sshtest.Options{HostKeys: []ssh.Signer{other}}, false, nil,
			KindChangedKey, "the host key has changed", "ssh-keygen -R '["},
		{"wrong host key, another file", sshtest.Options{HostKeys: []ssh.Signer{other}}, false, func(t *Target) {
			file := t.Home + "/my hosts"
			if err := os.Rename(t.UserKnownHosts[0], file); err == nil {
				t.UserKnownHosts = []string{file}
			}
		}, KindChangedKey, "but ~/my hosts:1 has another key", "/my hosts' -R '["},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newTestHome(t)
			p.d.Retries = 2
			s := p.unknownServer(tt.opts)
			if tt.known {
				p.write(".ssh/known_hosts", s.KnownHosts())
			}
			if tt.kind == KindChangedKey {
				line := fmt.Sprintf("[127.0.0.1]:%d ssh-ed25519 %s\n", s.Port(), keyText(p.key))
				p.write(".ssh/known_hosts", line)
			}
			target := p.target(s.Addr())
			if tt.edit != nil {
				tt.edit(&target)
			}
			if tt.kind == KindSession {
				_, err := p.dial(target).Start(context.Background(), "true")
				var e *DialError
				if !errors.As(err, &e) {
					t.Fatal(err)
				}
				p.want(e, tt.kind, tt.part, tt.hint)
				return
			}
			e := p.refusal(target)
			p.want(e, tt.kind, tt.part, tt.hint)
			if (e.Command() != "") != (tt.kind == KindChangedKey) || !strings.HasSuffix(e.Hint(), e.Command()) {
				t.Errorf("the command is %q, the hint %q", e.Command(), e.Hint())
			}
		})
	}
}

func TestTooManyKeys(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	var names []string
	for i := range 8 {
		name := fmt.Sprintf("key%d", i)
		p.addKey(name, newEd25519(t))
		names = append(names, p.home+"/.ssh/"+name)
	}
	target := p.target(p.server(sshtest.Options{}).Addr())
	target.Identities = names
	p.want(p.refusal(target), KindTooMany, "too many authentication failures; tried ~/.ssh/key0, ~/.ssh/key1", "IdentitiesOnly yes")
}

func TestFoldableReason(t *testing.T) {
	p := newTestHome(t)
	a, b := p.target(p.unknownServer(sshtest.Options{}).Addr()), p.target(p.unknownServer(sshtest.Options{}).Addr())
	b.Alias = "n2"
	ea, eb := p.refusal(a), p.refusal(b)
	if ea.Reason() != eb.Reason() || ea.Error() == eb.Error() {
		t.Errorf("cannot be folded:\n%v\n%v", ea, eb)
	}
}

func TestUnreachable(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	t.Run("refused", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		addr := ln.Addr().String()
		ln.Close()
		p.want(p.refusal(p.target(addr)), KindRefused, "n1: connect: connection refused: no ssh server listens on port", "")
	})
	t.Run("unknown name", func(t *testing.T) {
		target := p.target("127.0.0.1:22")
		target.Alias, target.HostName = "nodee", "nodee"
		p.d.Lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}
		defer func() { p.d.Lookup = nil }()
		p.want(p.refusal(target), KindName, "nodee: resolve: the host name is unknown", "~/.ssh/config")
	})
	t.Run("no name server", func(t *testing.T) {
		defer func() { p.d.Lookup = nil }()
		for i, c := range []struct {
			err  error
			want string
		}{
			{&net.DNSError{Err: "read udp 127.0.0.1:%d->127.0.0.1:53: read: connection refused", Server: "127.0.0.1:53", IsTemporary: true}, "connection refused (name server 127.0.0.1:53)"},
			{&net.DNSError{Err: "dial udp 10.0.0.53:53: connect: network is unreachable"}, "network is unreachable"},
			{&net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53"}, "server misbehaving (name server 10.0.0.53:53)"},
			{&net.DNSError{Err: "read udp 10.0.0.1:%d->10.0.0.53:53: i/o timeout", Server: "10.0.0.53:53", IsTimeout: true}, "no answer (name server 10.0.0.53:53)"},
			{nil, "no answer"}, // until the time limit
		} {
			p.d.Lookup = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
				if c.err == nil {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				dns := *c.err.(*net.DNSError)
				dns.Err = strings.ReplaceAll(dns.Err, "%d", fmt.Sprint(40000+i))
				return nil, &dns
			}
			target := p.target("127.0.0.1:22")
			target.Alias, target.HostName, target.ConnectTimeout = "nodee", "nodee.example", 100*time.Millisecond
			p.want(p.refusal(target), KindName, "nodee: resolve: cannot look up host names: "+c.want, "/etc/resolv.conf")
		}
	})
	t.Run("black hole", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{Connect: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}
		target := p.target("127.0.0.1:22")
		target.ConnectTimeout = 100 * time.Millisecond
		p.want(p.refusal(target), KindNoRoute, "n1: connect: cannot reach port 22 in 100 ms (127.0.0.1:22)", "")
	})
	t.Run("no route", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{Connect: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
		}}}
		p.want(p.refusal(p.target("127.0.0.1:22")), KindNoRoute, "n1: connect: cannot reach port 22: no route to host (127.0.0.1:22)", "")
	})
	t.Run("second address", func(t *testing.T) {
		p := newTestHome(t)
		s := p.unknownServer(sshtest.Options{})
		p.d.Lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		target := p.target(s.Addr())
		target.HostName, target.Strict, target.UserKnownHosts = "two", "no", nil
		p.dial(target)
	})
	t.Run("tried as often as ConnectionAttempts says", func(t *testing.T) {
		tries := 0
		p := &testHome{t: t, home: p.home, d: &Dialer{Connect: func(context.Context, string, string) (net.Conn, error) {
			tries++
			return nil, syscall.ECONNREFUSED
		}}}
		target := p.target("127.0.0.1:22")
		target.Attempts = 2
		p.refusal(target)
		if tries != 2 {
			t.Errorf("%d tries", tries)
		}
	})
	p = newTestHome(t) // each Dialer reads known_hosts once
	for name, opts := range map[string]sshtest.Options{
		"silent":               {SilentFrom: sshtest.BeforeVersion},
		"silent after version": {SilentFrom: sshtest.AfterVersion},
	} {
		t.Run(name, func(t *testing.T) {
			target := p.target(p.unknownServer(opts).Addr())
			target.ConnectTimeout = 50 * time.Millisecond
			p.want(p.refusal(target), KindNoRoute, "in 50 ms", "")
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := p.unknownServer(sshtest.Options{SilentFrom: sshtest.BeforeVersion})
		go func() {
			eventually(t, "connected", func() bool { return s.Stats().Accepted > 0 })
			cancel()
		}()
		_, err := p.d.Dial(ctx, p.target(s.Addr()))
		var e *DialError
		if !errors.As(err, &e) || e.Kind != KindCanceled || !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v", err)
		}
	})
}

func TestBusyServerIsTriedAgain(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.server(sshtest.Options{DropFirst: 2})
	p.dial(p.target(s.Addr()))
	if st := s.Stats(); st.Accepted != 3 || st.Dropped != 2 {
		t.Errorf("%+v", st)
	}
}

func TestManyAliasesOfOneServer(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	// 5 is less than the initial limit of 8, so the limit must come down.
	s := p.server(sshtest.Options{MaxStartups: 5, LoginDelay: 5 * time.Millisecond})
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			target := p.target(s.Addr())
			target.Alias = fmt.Sprintf("n%d", i)
			c, err := p.d.Dial(context.Background(), target)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if got := output(t, c, "echo $((6*7))"); got != "42\n" {
				t.Errorf("%s: %q", target.Alias, got)
			}
		})
	}
	wg.Wait()
}

// recordSteps returns a tracer, and the steps that it received: with their errors, in the order of
// their ends.
func recordSteps(t *testing.T) (watch StepTracer, steps func() string) {
	var mu sync.Mutex
	var all []string
	under := 0
	watch = func(step string) func(error) {
		mu.Lock()
		defer mu.Unlock()
		if !trace.IsKnownStep(step) {
			t.Errorf("no timeline knows %s", step)
		}
		if under++; under > 1 {
			t.Errorf("%s begins before the step before it has ended", step)
		}
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			under--
			if err != nil {
				step += "!"
			}
			all = append(all, step)
		}
	}
	return watch, func() string {
		mu.Lock()
		defer mu.Unlock()
		if under != 0 {
			t.Errorf("%d steps have not ended", under)
		}
		return strings.Join(all, " ")
	}
}

// A tracer receives each step once, with the error of the step that failed.
func TestTracer(t *testing.T) {
	noLeak(t)
	for _, test := range []struct {
		name string
		opts sshtest.Options
		edit func(*Target)
		want string
	}{
		{"all well", sshtest.Options{}, func(*Target) {}, "resolve wait to connect connect key exchange authentication"},
		{"a key that is not known", sshtest.Options{}, func(t *Target) { t.UserKnownHosts = nil }, "resolve wait to connect connect key exchange!"},
		{"a login that is refused", sshtest.Options{RefuseAll: true}, func(*Target) {}, "resolve wait to connect connect key exchange authentication!"},
		{"busy once", sshtest.Options{DropFirst: 1}, func(*Target) {}, "resolve wait to connect connect key exchange! pause resolve wait to connect connect key exchange authentication"},
		{"no server", sshtest.Options{}, func(t *Target) { t.Port = 1 }, "resolve wait to connect connect!"},
	} {
		p := newTestHome(t)
		target := p.target(p.server(test.opts).Addr())
		watch, steps := recordSteps(t)
		target.Tracer = watch
		test.edit(&target)
		if c, err := p.d.Dial(t.Context(), target); err == nil {
			c.Close()
		}
		if got := steps(); got != test.want {
			t.Errorf("%s: the steps are %q, want %q", test.name, got, test.want)
		}
	}
}

// A target behind a jump host waits for that, and its tracer does not receive the jump host's steps.
func TestTracerBehindAJumpHost(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	hop := p.target(p.server(sshtest.Options{Forward: true}).Addr())
	target := p.target(p.server(sshtest.Options{}).Addr())
	target.Via = []Target{hop}
	watch, steps := recordSteps(t)
	target.Tracer = watch
	c, err := p.d.Dial(t.Context(), target)
	check(t, err)
	c.Close()
	if got, want := steps(), "jump wait to connect connect key exchange authentication"; got != want {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}
