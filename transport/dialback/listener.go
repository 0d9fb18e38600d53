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

// These constants limit the number and the duration of pending connections, which have not yet sent a valid proof.
const (
	maxPending       = 64               // in addition to two for each expected host, which may try two addresses; beyond that the oldest is closed
	handshakeTimeout = 60 * time.Second // for the TLS handshake and the proof
)

// keepAlive makes the kernel notice within 45 s that the other machine has disappeared, for example because
// it has lost power (rule SIG-7). A stopped process is not noticed, because the kernel of its machine still
// replies.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}

// Ports is the range of ports from which a Listener chooses one port. The zero value allows any port.
type Ports struct{ Low, High uint16 }

// A Listener accepts the connections of the expected helpers. Its port is open until Close is called, or until the
// Listener expects no more helpers.
type Listener struct {
	refuse      func(peer netip.Addr, reason string)
	listener    net.Listener
	config      *tls.Config
	certificate [32]byte
	token       [32]byte // of the JoinToken
	key         [32]byte // of the proofs
	connections chan Connection

	mu        sync.Mutex      // guards the rest
	expected  map[string]bool // by host; true until it has connected or is not expected any more
	remaining int             // number of hosts that are still expected
	pending   []net.Conn      // connections without a valid proof, the oldest first
	closed    bool
}

// A Connection is the stream of a helper that has proved that it has the join token.
type Connection struct {
	Host   string
	Stream net.Conn
}

// Open opens a port to which the helpers of hosts can connect. It calls refuse, from any goroutine, for each
// connection that is refused.
func Open(hosts []string, ports Ports, refuse func(peer netip.Addr, reason string)) (*Listener, error) {
	d := &Listener{refuse: refuse, connections: make(chan Connection, len(hosts)), expected: make(map[string]bool, len(hosts))}
	for _, host := range hosts {
		d.expected[host] = true
	}
	d.remaining = len(d.expected)
	rand.Read(d.token[:])
	d.key = d.token
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

// makeCertificate creates a certificate without names, and its private key. Helpers recognize the certificate by its
// hash.
func makeCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	raw, err := x509.CreateCertificate(rand.Reader, text, text, public, private)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, err
}

// listen listens on a free port in the range ports, on all addresses of this machine.
func listen(ports Ports) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	if ports == (Ports{}) {
		return config.Listen(context.Background(), "tcp", ":0")
	}
	var last error
	n := int(ports.High) - int(ports.Low) + 1
	for i, first := 0, mathrand.IntN(n); i < n; i++ {
		l, err := config.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", int(ports.Low)+(first+i)%n))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no port from %d to %d is free: %w", ports.Low, ports.High, last)
}

// Port returns the port of the Listener.
func (d *Listener) Port() uint16 { return uint16(d.listener.Addr().(*net.TCPAddr).Port) }

// JoinToken returns the join token for the helpers. addresses are the addresses of this machine to which the
// helpers may connect.
func (d *Listener) JoinToken(addresses []netip.Addr) JoinToken {
	t := JoinToken{Certificate: d.certificate, Token: d.token}
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		t.Addresses = append(t.Addresses, netip.AddrPortFrom(a, d.Port()))
	}
	return t
}

// PublicJoinToken returns a join token that other users may read. It makes the Listener accept only helpers that
// also know secret. variable is the environment variable from which helpers read the secret.
func (d *Listener) PublicJoinToken(addresses []netip.Addr, variable, secret string) JoinToken {
	d.mu.Lock()
	d.key = secretKey(d.token, secret)
	d.mu.Unlock()
	t := d.JoinToken(addresses)
	t.Secret = variable
	return t
}

// Connections returns the channel on which accepted connections arrive. The receiver must close their
// streams.
func (d *Listener) Connections() <-chan Connection { return d.connections }

// StopExpecting makes the Listener refuse later connections of the helper of a host.
func (d *Listener) StopExpecting(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.markDone(host)
}

// markDone records that the Listener no longer expects the helper of a host. It returns false if the Listener did
// not expect that helper. The caller must hold d.mu.
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

// Close closes the port and all pending connections. Accepted connections stay open.
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

// acceptPending accepts connections until the port is closed.
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
		default: // no file descriptors, or a connection that broke
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (d *Listener) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// addPending adds a pending connection, and closes the oldest one if there are too many. If the Listener is closed,
// addPending closes conn and returns false.
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

// removePending removes a pending connection. It returns false if addPending or Close has already closed the
// connection. Such a connection is not reported as refused.
func (d *Listener) removePending(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.pending, conn)
	if i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
	}
	return i >= 0
}

// handshake authenticates a connection. It accepts the connection of an expected helper, and refuses any other
// connection.
func (d *Listener) handshake(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stream := tls.Server(conn, d.config)
	host, why := d.readHelperProof(stream)
	if !d.removePending(conn) || why == leftBeforeProof { // closed as the oldest, or by the other side: not reported
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
	d.connections <- Connection{host, stream} // never blocks: each host is accepted once
}

// proofKey returns the key for computing the proofs of helpers.
func (d *Listener) proofKey() [32]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.key
}

// readHelperProof reads and checks a helper's proof. refusal says what is wrong with the proof, and is empty if the
// proof is valid.
func (d *Listener) readHelperProof(stream *tls.Conn) (host, refusal string) {
	if err := stream.Handshake(); err != nil {
		return "", noProofReason(err)
	}
	p, err := readProof(stream)
	if err != nil {
		return "", noProofReason(err)
	}
	want, err := connectionMAC(d.proofKey(), stream.ConnectionState(), p.host)
	if err != nil || !hmac.Equal(want[:], p.mac[:]) {
		return "", "wrong token"
	}
	return p.host, ""
}

// checkExpected returns why a helper with a valid proof is refused, or "" to accept the helper. It accepts only one
// helper for each host.
func (d *Listener) checkExpected(host string) (refusal string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.expected[host]
	switch {
	case !known:
		return fmt.Sprintf("host %q was not expected", host)
	case !d.markDone(host):
		return host + " has connected already, or is no longer expected"
	}
	return ""
}

// leftBeforeProof is the reason for rejecting a connection that the other side has closed before sending a proof. A
// helper closes a connection if it has already connected at another address.
const leftBeforeProof = "gone"

// noProofReason returns why the other side has not sent a valid proof. err is the error of the TLS handshake or of
// reading the proof.
func noProofReason(err error) string {
	for _, left := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, left) {
			return leftBeforeProof
		}
	}
	return "the connection does not use the protocol of mpiexec"
}
