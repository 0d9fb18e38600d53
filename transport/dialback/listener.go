package dialback

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Bounds of who has connected and not proved anything.
const (
	maxPending       = 64               // beside two for each host that has not called, which may try two addresses; then the oldest goes
	handshakeTimeout = 60 * time.Second // for TLS and proof
)

// keepAlive is how a side finds out that the other is gone without a word, a machine that lost its power: in 45 s
// (SIG-7). A stopped process is not gone: its kernel answers.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}

// Ports are those that a Desk may open; the zero value: any.
type Ports struct{ Low, High uint16 }

// A Listener takes the calls of the helpers that were invited. Its port is open until all have called or are excused,
// or it is closed.
type Listener struct {
	refuse      func(from netip.Addr, why string)
	listener    net.Listener
	config      *tls.Config
	certificate [32]byte
	token       [32]byte
	connections chan Connection

	mu        sync.Mutex      // guards the rest
	expected  map[string]bool // true: has not called
	remaining int             // how many of them have not
	pending   []net.Conn      // who has proved nothing yet, the oldest first
	closed    bool
}

// A Connection is a helper that has called, and proved that it is of this step.
type Connection struct {
	Host   string
	Stream net.Conn
}

// Open opens a port for the helpers of hosts. Of who is refused refuse is told, by any goroutine.
func Open(hosts []string, ports Ports, refuse func(from netip.Addr, why string)) (*Listener, error) {
	d := &Listener{refuse: refuse, connections: make(chan Connection, len(hosts)), expected: make(map[string]bool, len(hosts))}
	for _, host := range hosts {
		d.expected[host] = true
	}
	d.remaining = len(d.expected)
	rand.Read(d.token[:])
	pair, err := makeCertificate()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	d.certificate = sha256.Sum256(pair.Certificate[0])
	d.config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
	if d.listener, err = listen(ports); err != nil {
		return nil, err
	}
	go d.acceptPending()
	return d, nil
}

// makeCertificate makes a key and a certificate of it that says nothing: it is known by its hash.
func makeCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	raw, err := x509.CreateCertificate(rand.Reader, text, text, public, private)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, err
}

// listen opens a free port of those that are allowed, on all addresses.
func listen(ports Ports) (net.Listener, error) {
	how := net.ListenConfig{KeepAliveConfig: keepAlive}
	if ports == (Ports{}) {
		return how.Listen(context.Background(), "tcp", ":0")
	}
	var last error
	n := int(ports.High) - int(ports.Low) + 1
	for i, first := 0, mathrand.IntN(n); i < n; i++ {
		l, err := how.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", int(ports.Low)+(first+i)%n))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no port from %d to %d is free: %w", ports.Low, ports.High, last)
}

// Port is the one that is open.
func (d *Listener) Port() uint16 { return uint16(d.listener.Addr().(*net.TCPAddr).Port) }

// JoinToken is what the helpers are to get; addresses are those of this machine.
func (d *Listener) JoinToken(addresses []netip.Addr) JoinToken {
	i := JoinToken{Certificate: d.certificate, Token: d.token}
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		i.Addresses = append(i.Addresses, netip.AddrPortFrom(a, d.Port()))
	}
	return i
}

// Connections are those who have called, in the order in which they did. Their streams are the receiver's.
func (d *Listener) Connections() <-chan Connection { return d.connections }

// StopExpecting says that a host will not call.
func (d *Listener) StopExpecting(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.markDone(host)
}

// markDone notes that a host is waited for no more; d.mu is held. It reports whether it was.
func (d *Listener) markDone(host string) bool {
	if !d.expected[host] || d.closed {
		return false
	}
	d.expected[host] = false
	if d.remaining--; d.remaining == 0 {
		d.closeListener()
	}
	return true
}

// Close closes the port, and shows out who has proved nothing. Who has arrived stays.
func (d *Listener) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeListener()
}

func (d *Listener) closeListener() {
	if d.closed {
		return
	}
	d.closed = true
	d.listener.Close()
	for _, c := range d.pending {
		c.Close()
	}
	d.pending = nil
}

// acceptPending lets strangers in until the port is closed.
func (d *Listener) acceptPending() {
	for {
		conn, err := d.listener.Accept()
		switch {
		case err == nil:
			if d.addPending(conn) {
				go d.handshake(conn)
			}
		case d.isClosed():
			return
		default: // no descriptors, or a connection that broke
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (d *Listener) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// addPending takes in a stranger. If there are too many the oldest has to go.
func (d *Listener) addPending(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		conn.Close()
		return false
	}
	if len(d.pending) >= maxPending+2*d.remaining {
		d.pending[0].Close()
		d.pending = slices.Delete(d.pending, 0, 1)
	}
	d.pending = append(d.pending, conn)
	return true
}

// removePending takes a stranger off the list, and reports whether it was still there: one that was shown out is no news.
func (d *Listener) removePending(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.pending, conn)
	if i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
	}
	return i >= 0
}

// handshake finds out who has connected: a helper that was invited, or a stranger, who is refused.
func (d *Listener) handshake(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stream := tls.Server(conn, d.config)
	host, why := d.readHelperProof(stream)
	if !d.removePending(conn) || why == leftBeforeProof { // it was shown out, or has left, and that is no news
		conn.Close()
		return
	}
	if why == "" {
		why = d.checkExpected(host)
	}
	if writeAnswer(stream, why); why != "" {
		d.refuse(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), why)
		conn.Close()
		return
	}
	conn.SetDeadline(time.Time{})
	d.connections <- Connection{host, stream} // there is room for each host once
}

// readHelperProof takes the proof of a stranger, and says what is wrong with it.
func (d *Listener) readHelperProof(stream *tls.Conn) (host, why string) {
	if err := stream.Handshake(); err != nil {
		return "", noProofReason(err)
	}
	p, err := readProof(stream)
	if err != nil {
		return "", noProofReason(err)
	}
	want, err := connectionMAC(d.token, stream.ConnectionState(), p.host)
	if err != nil || !hmac.Equal(want[:], p.mac[:]) {
		return "", "wrong token"
	}
	return p.host, ""
}

// checkExpected says why a helper with the right token is not welcome; empty: it is.
func (d *Listener) checkExpected(host string) (why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, invited := d.expected[host]
	switch {
	case !invited:
		return fmt.Sprintf("%q was not invited", host)
	case !d.markDone(host):
		return host + " has called already, or is waited for no more"
	}
	return ""
}

// leftBeforeProof is that a stranger has left before he has proved anything, as a helper does at one address that has reached us by
// another one.
const leftBeforeProof = "gone"

// noProofReason is why there is no proof.
func noProofReason(err error) string {
	for _, left := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, left) {
			return leftBeforeProof
		}
	}
	return "it does not speak as our helpers do"
}
