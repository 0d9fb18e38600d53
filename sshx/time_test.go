package sshx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/sshx/sshtest"
)

// pipeDialer connects to a server in memory, inside a synctest bubble.
func pipeDialer(s *sshtest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go s.ServeConn(newAhead(b))
		return newAhead(a), nil
	}
}

// An ahead conn takes what is written before it is read, as a socket does; both
// ends of SSH write first.
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
	p := newPlace(t)
	for _, tt := range []struct {
		name   string
		silent bool
		lost   time.Duration // 0: never
	}{
		{"answered", false, 0},
		{"not answered", true, 80 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := sshtest.NewUnlistened(sshtest.Options{Authorized: []ssh.PublicKey{p.key}, NoAnswer: tt.silent})
				check(t, err)
				d := &Dialer{Connect: pipeDialer(s)}
				target := p.target("127.0.0.1:22")
				target.Strict, target.UserKnownHosts = "no", nil
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
				case tt.lost > 0 && (!errors.As(err, &e) || e.Kind != KindLost || !strings.Contains(e.Error(), "no sign of life for 80 s")):
					t.Errorf("Err: %v", err)
				}
				if n := s.Stats().Alive; tt.lost == 0 && (n < 80 || n > 180) {
					t.Errorf("%d keep-alives in an hour", n) // one in two intervals: an answer counts for the next
				}
				c.Close()
				d.Close()
				s.Close()
			})
		})
	}
}

// The deadline of an attempt holds over all steps together, and the time spent
// in the queue does not count.
func TestDeadlineInMemory(t *testing.T) {
	p := newPlace(t)
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
		place, err := d.Pacer.enter(t.Context(), "127.0.0.1:22")
		check(t, err)
		time.AfterFunc(time.Minute, func() { place.leave(loggedIn, nil) })
		_, err = d.Dial(t.Context(), target)
		var e *DialError
		if !errors.As(err, &e) || e.Kind != KindReach || time.Since(start) != 70*time.Second {
			t.Errorf("%v after %v, want unreachable after 70 s", err, time.Since(start))
		}
	})
}
