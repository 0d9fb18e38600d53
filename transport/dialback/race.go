package dialback

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

/*
raceAddresses tries the addresses of mpiexec in parallel and returns the first at which mpiexec replies. An
address may drop packets, or accept a connection and send nothing. The helper cannot know that in advance:

	first   connect ......................... closed
	second  | no answer | connect, TLS ......... closed
	third               |  silent   | connect, TLS, the right certificate: mpiexec
	fourth  not tried

raceAddresses also tries the next address as soon as one has failed. The helper sends its proof only after the
race. So mpiexec receives the proof once, even if the helper has reached it by several addresses.
*/
func (c dialer) raceAddresses(ctx context.Context, addresses []netip.AddrPort) (winner int, stream *tls.Conn, err error) {
	ctx, over := context.WithCancel(ctx)
	r := raceResults{accepted: make(chan int, len(addresses)), ended: make(chan raceResult, len(addresses))}
	later := time.NewTimer(c.timeouts.nextAddress)
	defer later.Stop()
	next, running := 0, 0
	begin := func() {
		if next < len(addresses) {
			go c.tryAddress(ctx, r, next, addresses[next])
			next, running = next+1, running+1
			later.Reset(c.timeouts.nextAddress)
		}
	}
	defer func() {
		over()
		for ; running > 0; running-- { // each ends at once, since ctx has ended
			if late := <-r.ended; late.stream != nil {
				late.stream.NetConn().Close()
			}
		}
	}()
	begin()
	for failed := -1; running > 0; {
		select {
		case <-later.C:
			begin()
		case at := <-r.accepted:
			if at == next-1 {
				later.Reset(c.timeouts.nextAfterAccept)
			}
		case e := <-r.ended:
			if running--; e.err == nil {
				return e.at, e.stream, nil
			}
			if e.at > failed { // the error of the last address is returned
				failed, err = e.at, fmt.Errorf("%s: %w", addresses[e.at], e.err)
			}
			begin()
		}
	}
	return 0, nil, err
}

// timeouts are the time limits and pauses of a helper that tries to connect to mpiexec.
type timeouts struct {
	nextAddress     time.Duration // until the next address is tried too, if the last one has not accepted
	nextAfterAccept time.Duration // the same if it has accepted: mpiexec may have many connections to handle
	accept          time.Duration // until an address is given up that has not accepted
	round           time.Duration // limit for all addresses
	pause           time.Duration // pause between two rounds
}

// defaultTimeouts are the timeouts that helpers use. The 250 ms are from RFC 8305. With these values, a round
// of attempts ends before mpiexec stops waiting for the helper.
var defaultTimeouts = timeouts{nextAddress: 250 * time.Millisecond, nextAfterAccept: time.Second, accept: 3 * time.Second, round: 45 * time.Second, pause: time.Second}

// errNoAnswer is returned for an address at which nothing has replied in time.
var errNoAnswer = errors.New("no answer")

// raceResults holds the channels on which tryAddress reports to raceAddresses. Sending a report never blocks, since the
// capacity of each channel is the number of addresses.
type raceResults struct {
	accepted chan int
	ended    chan raceResult
}

// A raceResult is the result of trying one address of mpiexec.
type raceResult struct {
	at     int
	stream *tls.Conn
	err    error
}

// tryAddress connects to one address and performs the TLS handshake. It sends at, the index of the address, to
// r.accepted when the connection is open, and the result to r.ended.
func (c dialer) tryAddress(ctx context.Context, r raceResults, at int, address netip.AddrPort) {
	dialer := net.Dialer{Timeout: c.timeouts.accept, KeepAliveConfig: keepAlive}
	conn, err := dialer.DialContext(ctx, "tcp", address.String())
	if err != nil {
		r.ended <- raceResult{at: at, err: c.explain(ctx, err)}
		return
	}
	r.accepted <- at
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	stream := tls.Client(conn, c.token.tlsConfig())
	if err := stream.HandshakeContext(ctx); !stop() || err != nil {
		conn.Close()
		r.ended <- raceResult{at: at, err: c.explain(ctx, err)}
		return
	}
	r.ended <- raceResult{at: at, stream: stream}
}

// explain returns the error to report for an address. err is the error that connecting returned.
func (c dialer) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNotMpiexec):
		return errNotMpiexec
	}
	return innermost(err)
}

// tlsConfig returns the TLS configuration that accepts only the token's certificate.
func (t JoinToken) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // no certificate authority is needed: VerifyConnection compares the certificate's hash
		VerifyConnection: func(state tls.ConnectionState) error {
			if sha256.Sum256(state.PeerCertificates[0].Raw) != t.Certificate {
				return errNotMpiexec
			}
			return nil
		},
	}
}
