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
A race tries the addresses of mpiexec side by side, since one of them may swallow what is sent there, or accept and
stay silent, and that is known of nobody in good time:

	first   connect ......................... closed
	second  |  unheard  | connect, TLS ......... closed
	third               |  silent   | connect, TLS, the right certificate: it is mpiexec's
	fourth  not tried

The next one begins as soon as one has failed, too. Nobody is told who we are before the race is over, so that
mpiexec is called once, however many of these addresses are its own.
*/
func (c dialer) raceAddresses(ctx context.Context, addresses []netip.AddrPort) (won int, stream *tls.Conn, err error) {
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
		for ; running > 0; running-- { // each ends at once
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
			if e.at > failed { // the last of them is told
				failed, err = e.at, fmt.Errorf("%s: %w", addresses[e.at], e.err)
			}
			begin()
		}
	}
	return 0, nil, err
}

// A timeouts is how patient a caller is.
type timeouts struct {
	nextAddress     time.Duration // with an address that has not accepted, until the next one is tried beside it
	nextAfterAccept time.Duration // with one that has: mpiexec may have many who call
	accept          time.Duration // with an address that has not accepted, until it is given up
	round           time.Duration // with all of them
	pause           time.Duration // between two rounds
}

// defaultTimeouts has the 250 ms of RFC 8305. A round is over before mpiexec gives up a helper of which it hears nothing.
var defaultTimeouts = timeouts{nextAddress: 250 * time.Millisecond, nextAfterAccept: time.Second, accept: 3 * time.Second, round: 45 * time.Second, pause: time.Second}

// errNoAnswer is why somebody is given up who has said nothing.
var errNoAnswer = errors.New("no answer")

// A raceResults is where the runners of a race are heard; there is room for all they say.
type raceResults struct {
	accepted chan int
	ended    chan raceResult
}

// A raceResult is what has come of an address.
type raceResult struct {
	at     int
	stream *tls.Conn
	err    error
}

// tryAddress tries one address.
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

// explain is why an address was tried in vain.
func (c dialer) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNotMpiexec):
		return errNotMpiexec
	}
	return innermost(err)
}

// tlsConfig is TLS with who has made this invitation, and nobody else.
func (i JoinToken) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // it is no authority that we ask: there is one certificate, and we know its hash
		VerifyConnection: func(state tls.ConnectionState) error {
			if sha256.Sum256(state.PeerCertificates[0].Raw) != i.Certificate {
				return errNotMpiexec
			}
			return nil
		},
	}
}
