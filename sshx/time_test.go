package sshx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
)

// pipeDialer connects to a server in memory, inside a synctest bubble.
func pipeDialer(s *sshtest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go s.ServeConn(newAhead(b))
		return newAhead(a), nil
	}
}

// An ahead conn buffers writes, as a socket does; both ends of SSH write first.
type ahead struct {
	net.Conn
	queue chan []byte
	once  sync.Once
	gone  chan struct{}
}

func newAhead(c net.Conn) *ahead {
	a := &ahead{Conn: c, queue: make(chan []byte, 100), gone: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-a.queue:
				c.Write(p)
			case <-a.gone:
				return
			}
		}
	}()
	return a
}

func (a *ahead) Write(p []byte) (int, error) {
	select {
	case a.queue <- bytes.Clone(p):
		return len(p), nil
	case <-a.gone:
		return 0, net.ErrClosed
	}
}

func (a *ahead) Close() error {
	a.once.Do(func() { close(a.gone) })
	return a.Conn.Close()
}

func TestKeepAlive(t *testing.T) {
	p := newTestHome(t)
	for _, tt := range []struct {
		name   string
		silent bool
		lost   time.Duration // 0: never
	}{
		{"answered", false, 0},
		{"not answered", true, 80 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := sshtest.Options{AuthorizedKeys: []ssh.PublicKey{p.key}, IgnoreKeepAlives: tt.silent}
			bubble(t, p, opts, func(t *testing.T, d *Dialer, target Target, s *sshtest.Server) {
				target.AliveInterval = 20 * time.Second
				c, err := d.Dial(t.Context(), target)
				check(t, err)
				start := time.Now()
				select {
				case <-c.Done():
				case <-time.After(time.Hour):
				}
				if got := time.Since(start).Round(time.Second); tt.lost > 0 && got != tt.lost {
					t.Errorf("lost after %v, want %v", got, tt.lost)
				}
				var e *DialError
				switch err := c.Err(); {
				case tt.lost == 0 && err != nil:
					t.Error(err)
				case tt.lost > 0 && (!errors.As(err, &e) || e.Kind != KindLost || !strings.Contains(e.Error(), "the host has sent no data for 80 s")):
					t.Errorf("Err: %v", err)
				}
				if n := s.Stats().Alive; tt.lost == 0 && (n < 80 || n > 180) {
					t.Errorf("%d keep-alives in an hour", n) // one in two intervals: a reply counts for the next
				}
				c.Close()
			})
		})
	}
}

// bubble runs f in a synctest bubble with a server that a Dialer reaches over pipes. In the bubble,
// time passes only while all goroutines wait.
func bubble(t *testing.T, p *testHome, opts sshtest.Options, f func(t *testing.T, d *Dialer, target Target, s *sshtest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := sshtest.NewUnlistened(opts)
		check(t, err)
		d := &Dialer{Connect: pipeDialer(s)}
		target := p.target("127.0.0.1:22")
		target.Strict, target.UserKnownHosts = "no", nil
		f(t, d, target, s)
		d.Close()
		s.Close()
	})
}

func TestDeadlineOfEachStep(t *testing.T) {
	p := newTestHome(t)
	keys := []ssh.PublicKey{p.key}
	for _, tt := range []struct {
		opts sshtest.Options
		want string
	}{
		{sshtest.Options{SilentFrom: sshtest.BeforeVersion}, "n1: handshake: the server accepted the connection but sent nothing in 10 s (127.0.0.1:22)"},
		{sshtest.Options{SilentFrom: sshtest.AfterVersion}, "n1: handshake: the key exchange did not finish in 10 s (127.0.0.1:22)"},
		{sshtest.Options{LoginDelay: time.Minute, AuthorizedKeys: keys}, "n1: login: the login did not finish in 10 s (127.0.0.1:22)"},
	} {
		bubble(t, p, tt.opts, func(t *testing.T, d *Dialer, target Target, _ *sshtest.Server) {
			start := time.Now()
			_, err := d.Dial(t.Context(), target)
			var e *DialError
			if !errors.As(err, &e) || e.Kind != KindNoRoute || e.Error() != tt.want || time.Since(start) != 10*time.Second {
				t.Errorf("after %v: %v; want %s", time.Since(start), err, tt.want)
			}
		})
	}
}

// The user's typing time does not count against the server.
func TestTypingStopsTheClock(t *testing.T) {
	p := newTestHome(t)
	key := p.lockedKey("locked")
	bubble(t, p, sshtest.Options{AuthorizedKeys: []ssh.PublicKey{key}}, func(t *testing.T, d *Dialer, target Target, _ *sshtest.Server) {
		target.Identities = []string{p.home + "/.ssh/id_locked"}
		d.Ask = func(string) ([]byte, error) {
			time.Sleep(time.Minute)
			return []byte("sesame"), nil
		}
		c, err := d.Dial(t.Context(), target)
		check(t, err)
		c.Close()
	})
}

// Callers that wait for a server that turned out to be dead need not try it again.
func TestDeadServerIsFoundDeadOnce(t *testing.T) {
	p := newTestHome(t)
	bubble(t, p, sshtest.Options{SilentFrom: sshtest.BeforeVersion}, func(t *testing.T, d *Dialer, target Target, s *sshtest.Server) {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 48 {
			wg.Go(func() {
				target := target
				target.Alias = fmt.Sprintf("n%d", i)
				_, err := d.Dial(t.Context(), target)
				var e *DialError
				if !errors.As(err, &e) || e.Kind != KindNoRoute || e.Host != target.Alias {
					t.Errorf("%s: %v", target.Alias, err)
				}
			})
		}
		wg.Wait()
		if n := s.Stats().Accepted; n != defaultPerServer || time.Since(start) != defaultTimeout {
			t.Errorf("%d connections in %v, want one batch of %d", n, time.Since(start), defaultPerServer)
		}
	})
}

// The time limit of an attempt covers all steps together, without the wait for a permit.
func TestDeadlineInMemory(t *testing.T) {
	p := newTestHome(t)
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{Pacer: &Pacer{PerServer: 1}, Connect: func(ctx context.Context, _, _ string) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			select {
			case <-time.After(4 * time.Second): // a slow connection to a silent server
			case <-ctx.Done():
			}
			return a, nil
		}}
		target := p.target("127.0.0.1:22")
		start := time.Now()
		permit, err := d.Pacer.Acquire(t.Context(), "127.0.0.1:22")
		check(t, err)
		time.AfterFunc(time.Minute, func() { permit.Release(LoggedIn, nil) })
		_, err = d.Dial(t.Context(), target)
		var e *DialError
		if !errors.As(err, &e) || e.Kind != KindNoRoute || time.Since(start) != 70*time.Second {
			t.Errorf("%v after %v, want unreachable after 70 s", err, time.Since(start))
		}
	})
}
