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

// A wire is the connection below SSH. It reads ahead, because the library
// takes the server's version byte by byte; it remembers how the conversation
// began, because what is no SSH server often says so in plain text; and it
// knows when the peer was last heard of and how reading ended.
type wire struct {
	net.Conn
	r     *bufio.Reader
	born  time.Time
	heard atomic.Int64          // when the peer was last heard of, in ns since born
	ended atomic.Pointer[error] // what Read failed with first

	trusted atomic.Bool // the peer's key was accepted
	strange int         // bytes read before that; for the one who reads

	mu    sync.Mutex // guards greet
	greet []byte     // first bytes read, until the library has its version
}

// versionBuffer is how much is read ahead, in bytes, while the library takes the version. From then on it asks for
// more than that at once, which passes by this buffer.
const versionBuffer = 512

func newWire(c net.Conn) *wire {
	return &wire{Conn: c, r: bufio.NewReaderSize(c, versionBuffer), born: time.Now()}
}

const greetMax = 256

// strangerMax is how much a peer may send before its key is accepted, in bytes: a key
// exchange takes a few thousand (TRUST-22).
const strangerMax = 64 << 10

var errTooMuch = errors.New("sshx: too much was sent before the key")

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if !w.trusted.Load() {
		if w.strange += n; w.strange > strangerMax {
			return 0, errTooMuch
		}
	}
	if n > 0 {
		w.heard.Store(int64(time.Since(w.born)))
		if n == 1 { // the library reads its version so, and nothing else
			w.mu.Lock()
			if len(w.greet) < greetMax {
				w.greet = append(w.greet, p[0])
			}
			w.mu.Unlock()
		}
	}
	if err != nil {
		w.ended.CompareAndSwap(nil, &err)
	}
	return n, err
}

// await returns when the peer has said something, or never will. A server speaks first (RFC 4253, 4.2).
func (w *wire) await() { w.r.Peek(1) }

// quiet is for how long nothing has been heard.
func (w *wire) quiet() time.Duration {
	return time.Since(w.born) - time.Duration(w.heard.Load())
}

// excuse lets the silence begin now.
func (w *wire) excuse() { w.heard.Store(int64(time.Since(w.born))) }

// greeting is what the peer said first; it may be incomplete.
func (w *wire) greeting() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.greet))
}

// connect tries the addresses one after the other, as ssh does, each with its
// share of the time that is left.
func (d *Dialer) connect(b *deadline.Deadline, t Target, addrs []netip.Addr) (net.Conn, *DialError) {
	dialer := net.Dialer{}
	if t.BindAddress != "" {
		a, err := netip.ParseAddr(t.BindAddress)
		if err != nil {
			return nil, fail(t, "config", KindConfig, "BindAddress %s is not an address", t.BindAddress)
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
		e = fail(t, "connect", KindRefused, "connection refused: no ssh server on port %s", port)
	case errors.Is(err, syscall.ECONNRESET):
		e = fail(t, "connect", KindClosed, "the server closed the connection at once")
	default:
		e = fail(t, "connect", KindReach, "cannot reach port %s: %v", port, cause(err))
	}
	return e.at("%s", net.JoinHostPort(a.Unmap().String(), port)).because(err)
}

// cause is the system's own word, without the addresses around it.
func cause(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
