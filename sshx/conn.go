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

// A sshConn is the connection below SSH. It reads ahead, because the library
// takes the server's version byte by byte; it remembers how the conversation
// began, because what is no SSH server often says so in plain text; and it
// knows when the peer was last heard of and how reading ended.
type sshConn struct {
	net.Conn
	r         *bufio.Reader
	createdAt time.Time
	lastHeard atomic.Int64          // when the peer was last heard of, in ns since born
	readError atomic.Pointer[error] // what Read failed with first

	trusted        atomic.Bool // the peer's key was accepted
	untrustedBytes int         // bytes read before that; for the one who reads

	mu       sync.Mutex // guards greet
	greeting []byte     // first bytes read, until the library has its version
}

// versionBufferSize is how much is read ahead, in bytes, while the library takes the version. From then on it asks for
// more than that at once, which passes by this buffer.
const versionBufferSize = 512

func newSSHConn(c net.Conn) *sshConn {
	return &sshConn{Conn: c, r: bufio.NewReaderSize(c, versionBufferSize), createdAt: time.Now()}
}

const maxGreeting = 256

// maxUntrusted is how much a peer may send before its key is accepted, in bytes: a key
// exchange takes a few thousand (TRUST-22).
const maxUntrusted = 64 << 10

var errTooMuchUntrusted = errors.New("sshx: too much was sent before the key")

func (w *sshConn) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if !w.trusted.Load() {
		if w.untrustedBytes += n; w.untrustedBytes > maxUntrusted {
			return 0, errTooMuchUntrusted
		}
	}
	if n > 0 {
		w.lastHeard.Store(int64(time.Since(w.createdAt)))
		if n == 1 { // the library reads its version so, and nothing else
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

// waitFirstByte returns when the peer has said something, or never will. A server speaks first (RFC 4253, 4.2).
func (w *sshConn) waitFirstByte() { w.r.Peek(1) }

// silentFor is for how long nothing has been heard.
func (w *sshConn) silentFor() time.Duration {
	return time.Since(w.createdAt) - time.Duration(w.lastHeard.Load())
}

// resetSilence lets the silence begin now.
func (w *sshConn) resetSilence() { w.lastHeard.Store(int64(time.Since(w.createdAt))) }

// peerGreeting is what the peer said first; it may be incomplete.
func (w *sshConn) peerGreeting() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.greeting))
}

// connect tries the addresses one after the other, as ssh does, each with its
// share of the time that is left.
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
		late := one.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) // net may be a moment ahead of ctx
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

func (d *Dialer) unreachable(ctx context.Context, t Target, a netip.Addr, err error, late bool) *DialError {
	port := strconv.Itoa(t.Port)
	e := (*DialError)(nil)
	switch {
	case late:
		e = d.timeout(ctx, t, "connect", "cannot reach port "+port)
	case errors.Is(err, syscall.ECONNREFUSED):
		e = newDialError(t, "connect", KindRefused, "connection refused: no ssh server on port %s", port)
	case errors.Is(err, syscall.ECONNRESET):
		e = newDialError(t, "connect", KindClosed, "the server closed the connection at once")
	default:
		e = newDialError(t, "connect", KindNoRoute, "cannot reach port %s: %v", port, innermost(err))
	}
	return e.withDetails("%s", net.JoinHostPort(a.Unmap().String(), port)).withCause(err)
}

// innermost is the system's own word, without the addresses around it.
func innermost(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
