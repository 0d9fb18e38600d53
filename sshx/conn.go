package sshx

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/deadline"
)

// An sshConn is the network connection below SSH. It has a read buffer, because x/crypto/ssh reads the server's version
// byte by byte. It keeps the first bytes received, since a peer that is not an SSH server often explains itself in
// plain text. It also records when the peer last sent something, and the first error of Read.
type sshConn struct {
	net.Conn
	r         *bufio.Reader
	createdAt time.Time
	lastHeard atomic.Int64          // when the peer last sent something, in ns since createdAt
	readError atomic.Pointer[error] // the first error of Read

	trusted        atomic.Bool // the peer's host key was accepted
	untrustedBytes int         // bytes read before that; used only by the reading goroutine

	mu       sync.Mutex // guards greeting
	greeting []byte     // first bytes received, until the library has read the version
}

// versionBufferSize is the size in bytes of the buffer for reading the server's version. Later reads are
// larger and bypass the buffer.
const versionBufferSize = 512

func newSSHConn(c net.Conn) *sshConn {
	return &sshConn{Conn: c, r: bufio.NewReaderSize(c, versionBufferSize), createdAt: time.Now()}
}

const maxGreeting = 256

// maxUntrusted is the maximum number of bytes that a peer may send before its host key is accepted. A key exchange
// takes a few thousand bytes (rule TRUST-22).
const maxUntrusted = 64 << 10

var errTooMuchUntrusted = errors.New("sshx: the server sent too much data before its host key")

func (w *sshConn) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if !w.trusted.Load() {
		if w.untrustedBytes += n; w.untrustedBytes > maxUntrusted {
			return 0, errTooMuchUntrusted
		}
	}
	if n > 0 {
		w.lastHeard.Store(int64(time.Since(w.createdAt)))
		if n == 1 { // the library reads single bytes only for the version
			w.mu.Lock()
			if len(w.greeting) < maxGreeting {
				w.greeting = append(w.greeting, p[0])
			}
			w.mu.Unlock()
		}
	}
	if err != nil {
		w.readError.CompareAndSwap(nil, &err)
	}
	return n, err
}

// waitFirstByte waits until the peer has sent something, or the connection fails. In SSH the server may send
// first (RFC 4253, 4.2).
func (w *sshConn) waitFirstByte() { w.r.Peek(1) }

// silentFor returns the time since the peer last sent something.
func (w *sshConn) silentFor() time.Duration {
	return time.Since(w.createdAt) - time.Duration(w.lastHeard.Load())
}

// resetSilence makes silentFor measure the time from now.
func (w *sshConn) resetSilence() { w.lastHeard.Store(int64(time.Since(w.createdAt))) }

// peerGreeting returns the first bytes that the peer has sent. The text may be incomplete.
func (w *sshConn) peerGreeting() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.greeting))
}

// connect tries to connect to addrs, one address after the other, as ssh does. The time until the deadline b is
// divided equally among the remaining addresses.
func (d *Dialer) connect(b *deadline.Deadline, t Target, addrs []netip.Addr) (net.Conn, *DialError) {
	dialer := net.Dialer{}
	if t.BindAddress != "" {
		a, err := netip.ParseAddr(t.BindAddress)
		if err != nil {
			return nil, newDialError(t, "config", KindConfig, "BindAddress %s is not an address", t.BindAddress)
		}
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	dial := d.Connect
	if dial == nil {
		dial = dialer.DialContext
	}
	var last *DialError
	for i, a := range addrs {
		one, cancel := context.WithTimeout(b.Context(), b.Left()/time.Duration(len(addrs)-i))
		conn, err := dial(one, "tcp", netip.AddrPortFrom(a.Unmap(), uint16(t.Port)).String())
		late := one.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) // net may time out a moment before ctx
		cancel()
		if err == nil {
			return conn, nil
		}
		last = d.unreachable(b.Context(), t, a, err, late)
		if b.Context().Err() != nil {
			break
		}
	}
	return nil, last
}

func (d *Dialer) unreachable(ctx context.Context, t Target, a netip.Addr, err error, timedOut bool) *DialError {
	port := strconv.Itoa(t.Port)
	e := (*DialError)(nil)
	switch {
	case timedOut:
		e = d.timeout(ctx, t, "connect", "cannot reach port "+port)
	case errors.Is(err, syscall.ECONNREFUSED):
		e = newDialError(t, "connect", KindRefused, "connection refused: no ssh server listens on port %s", port)
	case errors.Is(err, syscall.ECONNRESET):
		e = newDialError(t, "connect", KindClosed, "the server closed the connection at once")
	default:
		e = newDialError(t, "connect", KindNoRoute, "cannot reach port %s: %v", port, innermost(err))
	}
	return e.withDetails("%s", net.JoinHostPort(a.Unmap().String(), port)).withCause(err)
}

// innermost returns the error number of the operating system that err wraps. If err wraps no error number, innermost
// returns err.
func innermost(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
